// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	idA = "07c37dfeb235213a872192d90877d0cd55635b91"
	idB = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"
)

func TestParseTable(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want Entry
	}{
		"7.0: a replica with a host name": {idA + " 127.0.0.1:30004@31004,hostname4 slave " + idB + " 0 1426238317239 4 connected",
			Entry{ID: idA, IP: "127.0.0.1", Port: 30004, BusPort: 31004, Hostname: "hostname4", MasterID: idB, Epoch: 4, Connected: true}},
		"7.0: a master with ranges and slots, and no host name": {
			idB + " 127.0.0.1:30002@31002 master - 0 1426238316232 2 disconnected 5461-10922 11000 16383", Entry{
				ID: idB, IP: "127.0.0.1", Port: 30002, BusPort: 31002, Master: true, Epoch: 2,
				Slots: Slots{{5461, 10922}, {11000, 11000}, {16383, 16383}},
			}},
		"7.2: further fields after the host name, which is empty": {
			idA + " 10.244.0.7:6379@16379,,shard-id=69bc080733d1355567173199cff4a6a039a2f024 myself,master - 0 0 1 connected 0-5460", Entry{
				ID: idA, IP: "10.244.0.7", Port: 6379, BusPort: 16379, Myself: true, Master: true,
				Epoch: 1, Connected: true, Slots: Slots{{0, 5460}},
			}},
		"7.2: further fields after the host name": {idA + " 10.244.0.7:6379@16379,a.example.com,shard-id=69bc myself,master - 0 0 1 connected",
			Entry{
				ID: idA, IP: "10.244.0.7", Port: 6379, BusPort: 16379, Hostname: "a.example.com", Myself: true, Master: true,
				Epoch: 1, Connected: true,
			}},
		"IPv6": {idA + " fd00:10:244::7:6379@16379,,tls-port=0,shard-id=69 master - 0 0 1 connected",
			Entry{ID: idA, IP: "fd00:10:244::7", Port: 6379, BusPort: 16379, Master: true, Epoch: 1, Connected: true}},
		"a handshake": {idA + " 127.0.0.9:6379@16379 handshake - 1426238317239 0 0 disconnected",
			Entry{ID: idA, IP: "127.0.0.9", Port: 6379, BusPort: 16379, Handshake: true}},
		"no address": {idA + " :0@0 master,noaddr - 1426238317239 1426238316232 3 disconnected",
			Entry{ID: idA, Master: true, NoAddr: true, Epoch: 3}},
		"itself, with no address learned": {idA + " :6379@16379 myself,master - 0 0 0 connected",
			Entry{ID: idA, Port: 6379, BusPort: 16379, Myself: true, Master: true, Connected: true}},
		"most masters say that it failed": {idA + " 127.0.0.1:1@10001 master,fail - 0 0 3 connected",
			Entry{ID: idA, IP: "127.0.0.1", Port: 1, BusPort: 10001, Master: true, Failed: true, Epoch: 3, Connected: true}},
		"the node suspects that it failed": {idA + " 127.0.0.1:1@10001 slave,fail?,nofailover " + idB + " 0 0 3 connected",
			Entry{ID: idA, IP: "127.0.0.1", Port: 1, BusPort: 10001, MaybeFailed: true, MasterID: idB, Epoch: 3, Connected: true}},
		"no flags": {idA + " 127.0.0.1:1@10001 noflags - 0 0 0 connected",
			Entry{ID: idA, IP: "127.0.0.1", Port: 1, BusPort: 10001, Connected: true}},
		"open slots": {idA + " 127.0.0.1:1@10001 myself,master - 0 0 1 connected 0-99 [93-<-" + idB + "] [77->-" + idB + "] [78->-" + idA + "]",
			Entry{
				ID: idA, IP: "127.0.0.1", Port: 1, BusPort: 10001, Myself: true, Master: true, Epoch: 1, Connected: true,
				Slots: Slots{{0, 99}}, Importing: map[int]string{93: idB}, Migrating: map[int]string{77: idB, 78: idA},
			}},
	} {
		for _, end := range []string{"", "\n", "\r\n", "\n\n"} {
			table, err := parseTable(test.line + end)
			if err != nil || !reflect.DeepEqual(table, []Entry{test.want}) {
				t.Errorf("%s: got %+v, %v, want %+v", name, table, err, test.want)
			}
		}
	}
}

func TestParseTableQuotesAMalformedLine(t *testing.T) {
	for name, line := range map[string]string{
		"words":                        "what is this",
		"a field too few":              idA + " 127.0.0.1:1@10001 master - 0 0 1",
		"an empty field":               idA + " 127.0.0.1:1@10001  - 0 0 1 connected",
		"no port":                      idA + " 127.0.0.1@10001 master - 0 0 1 connected",
		"no bus port":                  idA + " 127.0.0.1:1 master - 0 0 1 connected",
		"an empty bus port":            idA + " 127.0.0.1:1@ master - 0 0 1 connected",
		"too big a port":               idA + " 127.0.0.1:65536@1 master - 0 0 1 connected",
		"no epoch":                     idA + " 127.0.0.1:1@10001 master - 0 0 x connected",
		"no slot":                      idA + " 127.0.0.1:1@10001 master - 0 0 1 connected 16384",
		"a range backwards":            idA + " 127.0.0.1:1@10001 master - 0 0 1 connected 6-5",
		"a range to no slot":           idA + " 127.0.0.1:1@10001 master - 0 0 1 connected 0-16384",
		"a range without an end":       idA + " 127.0.0.1:1@10001 master - 0 0 1 connected 5-",
		"a negative slot":              idA + " 127.0.0.1:1@10001 master - 0 0 1 connected -1",
		"a slot with a sign":           idA + " 127.0.0.1:1@10001 master - 0 0 1 connected +1",
		"a slot of twenty digits":      idA + " 127.0.0.1:1@10001 master - 0 0 1 connected 99999999999999999999",
		"three numbers":                idA + " 127.0.0.1:1@10001 master - 0 0 1 connected 1-2-3",
		"a slot half open":             idA + " 127.0.0.1:1@10001 master - 0 0 1 connected [5->-" + idB,
		"an open slot that is no slot": idA + " 127.0.0.1:1@10001 master - 0 0 1 connected [x->-" + idB + "]",
		"a migration to no node":       idA + " 127.0.0.1:1@10001 master - 0 0 1 connected [5-<-]",
		"open for nothing":             idA + " 127.0.0.1:1@10001 master - 0 0 1 connected []",
	} {
		good := idB + " 127.0.0.1:2@10002 master - 0 0 1 connected\n"
		table, err := parseTable(good + line + "\n")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", line)) {
			t.Errorf("%s: got %+v, %v", name, table, err)
		}
	}
}

// info is the answer of a settled replica to INFO.
const info = "# Server\r\nredis_version:7.0.15\r\nos:Linux 6.1\r\n\r\n# Persistence\r\nloading:0\r\n" +
	"rdb_last_bgsave_status:ok\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:ok\r\n" +
	"aof_last_write_status:ok\r\n\r\n" +
	"# Replication\r\nrole:slave\r\nmaster_host:127.0.0.2\r\nmaster_port:6379\r\n" +
	"master_link_status:up\r\nmaster_sync_in_progress:0\r\nslave_repl_offset:77\r\n" +
	"master_repl_offset:88\r\n\r\n# Memory\r\nused_memory:1048576\r\nused_memory_rss:2097152\r\nmaxmemory:4194304\r\n" +
	"\r\n# Clients\r\nconnected_clients:3\r\n\r\n# Stats\r\ntotal_commands_processed:1234\r\nevicted_keys:5\r\n" +
	"rdb_last_save_time:1763900000\r\n\r\n# Keyspace\r\ndb0:keys=5,expires=2,avg_ttl=7\r\n"

const (
	clusterInfo = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_current_epoch:6\r\ncluster_my_epoch:2\r\n"
	idC         = "c7c37dfeb235213a872192d90877d0cd55635b91"
	replicaLine = idA + " 127.0.0.1:1@10001 myself,slave " + idB + " 0 0 1 connected\n"
	masterLine  = idA + " 127.0.0.1:1@10001 myself,master - 0 0 1 connected 0-16383\n"
)

func TestParseView(t *testing.T) {
	settled := View{ID: idA, Version: "7.0.15", StateOK: true, Epoch: 6, Keys: 5, LinkUp: true, Offset: 77,
		MasterIP: "127.0.0.2", MasterPort: 6379,
		Stats: Stats{MemoryUsed: 1 << 20, MemoryMax: 4 << 20, Clients: 3, Commands: 1234, Evicted: 5, LastSave: time.Unix(1763900000, 0)}}
	same := func(*View) {}
	strays := func(v *View) { v.LinkUp, v.LinkDown, v.Stray = false, -time.Second, true }
	lost := func(v *View) { v.LinkUp, v.LinkDown = false, 42*time.Second }
	for name, test := range map[string]struct {
		cluster, nodes string
		replace        []string // in info
		overTLS        bool
		change         func(*View)
	}{
		"a settled replica": {change: same},
		"a master": {nodes: masterLine, replace: []string{"role:slave", "role:master"},
			change: func(v *View) { v.Master, v.LinkUp, v.Offset, v.MasterIP, v.MasterPort = true, false, 88, "", 0 }},
		"a replica that has not heard from its master since it started": {replace: []string{"role:slave", "role:master"},
			change: func(v *View) {
				v.LinkUp, v.LinkDown, v.Offset, v.MasterIP, v.MasterPort = false, -time.Second, 88, "", 0
			}},
		"a replica that has lost its master": {replace: []string{"link_status:up", "link_status:down\r\nmaster_link_down_since_seconds:42"},
			change: lost},
		"a replica that has had no master since it started": {
			replace: []string{"link_status:up", "link_status:down\r\nmaster_link_down_since_seconds:-1"},
			change:  func(v *View) { v.LinkUp, v.LinkDown = false, -time.Second }},
		"a replica that asks for data where its master was": {
			nodes:   replicaLine + idB + " 127.0.0.3:6379@16379 master - 0 0 1 connected 0-16383\n",
			replace: []string{"link_status:up", "link_status:down\r\nmaster_link_down_since_seconds:42"}, change: lost},
		"a replica that is connected to another node": {nodes: replicaLine + idB + " 127.0.0.3:6379@16379 master - 0 0 1 connected 0-16383\n",
			change: strays},
		"a replica that is connected to another node at the same IP": {
			nodes: replicaLine + idB + " 127.0.0.2:6380@16380 master - 0 0 1 connected 0-16383\n" +
				idC + " 127.0.0.2:6379@16379 master - 0 0 1 connected\n", change: strays},
		"a replica whose master has another port, and no other node its IP": {
			nodes: replicaLine + idB + " 127.0.0.2:6380@16380 master - 0 0 1 connected 0-16383\n", change: same},
		"with TLS, a replica that is connected to another node at the same IP": {
			nodes: replicaLine + idB + " 127.0.0.2:6380@16380 master - 0 0 1 connected 0-16383\n" +
				idC + " 127.0.0.2:6379@16379 master - 0 0 1 connected\n", overTLS: true, change: strays},
		"with TLS, a replica that is connected to the other port of its master": {
			nodes: replicaLine + idB + " 127.0.0.2:6380@16380 master - 0 0 1 connected 0-16383\n" +
				idC + " 127.0.0.2:6381@16381 master - 0 0 1 connected\n", overTLS: true, change: same},
		"a replica whose master has no address is not stray": {nodes: replicaLine + idB + " :0@0 master,noaddr - 0 0 1 disconnected 0-16383\n",
			change: same},
		"a replica that copies all data": {replace: []string{"sync_in_progress:0", "sync_in_progress:1"},
			change: func(v *View) { v.LinkUp, v.Syncing, v.LinkDown = false, true, -time.Second }},
		"a cluster that takes no requests": {cluster: "cluster_state:fail\r\ncluster_current_epoch:9\r\n",
			change: func(v *View) { v.StateOK, v.Epoch = false, 9 }},
		"loading": {replace: []string{"loading:0", "loading:1"}, change: func(v *View) { *v = View{Version: "7.0.15", Loading: true} }},
		"no keys": {replace: []string{"db0:keys=5,expires=2,avg_ttl=7\r\n", ""}, change: func(v *View) { v.Keys = 0 }},
		"nothing was ever written": {replace: []string{"loading:0", "loading:0\r\naof_current_size:89\r\naof_base_size:89"},
			change: func(v *View) { v.Unwritten = true }},
		"something was written": {replace: []string{"loading:0", "loading:0\r\naof_current_size:90\r\naof_base_size:89"}, change: same},
		"the append-only file is written anew": {replace: []string{"rewrite_in_progress:0", "rewrite_in_progress:1"},
			change: func(v *View) { v.Rewriting = true }},
		"the append-only file is about to be written anew": {replace: []string{"rewrite_scheduled:0", "rewrite_scheduled:1"},
			change: func(v *View) { v.Rewriting = true }},
		"the append-only file cannot be written": {replace: []string{"aof_last_write_status:ok", "aof_last_write_status:err"},
			change: func(v *View) { v.WriteError = "aof_last_write_status is err" }},
		"nothing can be written": {replace: []string{"_status:ok", "_status:err"}, change: func(v *View) {
			v.SaveError, v.WriteError = "rdb_last_bgsave_status is err", "aof_last_bgrewrite_status is err, aof_last_write_status is err"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, nodes, text := clusterInfo, replicaLine, info
			if test.cluster != "" {
				cluster = test.cluster
			}
			if test.nodes != "" {
				nodes = test.nodes
			}
			if test.replace != nil {
				text = strings.NewReplacer(test.replace...).Replace(info)
			}
			got, err := parseView(idA, cluster, nodes, text, test.overTLS)
			if err != nil {
				t.Fatal(err)
			}
			want := settled
			want.Table, _ = parseTable(nodes)
			if test.change(&want); want.Loading {
				want.Table = nil
			}
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("got  %+v\nwant %+v", *got, want)
			}
		})
	}
	withoutKeys, _, _ := strings.Cut(info, "# Keyspace") // The node would seem to be empty.
	for name, test := range map[string]struct{ cluster, nodes, info string }{
		"a malformed epoch":  {"cluster_current_epoch:x\r\n", masterLine, info},
		"a malformed line":   {clusterInfo, "words\n", info},
		"no line of its own": {clusterInfo, strings.ReplaceAll(masterLine, "myself,", ""), info},
		"an empty table":     {clusterInfo, "", info},
		"a long table":       {clusterInfo, masterLine + strings.Repeat("\n", maxEntries), info},
		"no number of keys":  {clusterInfo, masterLine, withoutKeys},
	} {
		if view, err := parseView(idA, test.cluster, test.nodes, test.info, false); err == nil {
			t.Errorf("%s: got %+v", name, view)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(replicaLine + masterLine)
	f.Add(idA + " fd00::7:6379@16379,,shard-id=69 myself,master - 0 0 1 connected 7 0-99 [93-<-" + idB + "] [77->-" + idB + "]\r\n\n")
	f.Add(idA + " :0@0 slave,noaddr,fail?,fail,handshake " + idB + " 0 0 -1 disconnected")
	f.Fuzz(func(t *testing.T, nodes string) {
		table, err := parseTable(nodes)
		if err != nil {
			return
		}
		for _, entry := range table {
			if entry.ID == "" || entry.Port < 0 || entry.Port > 65535 || entry.BusPort < 0 || entry.BusPort > 65535 {
				t.Errorf("%+v", entry)
			}
			if !normal(slices.Clone(entry.Slots)).Equal(entry.Slots) {
				t.Errorf("the slots %v are not in the normal form", []Range(entry.Slots))
			}
		}
	})
}
