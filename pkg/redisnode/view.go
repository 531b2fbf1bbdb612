// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// View is the state that one node reports of itself, and of the other nodes as it knows
// them. Two nodes may disagree. The caller derives the state of the cluster from all views.
type View struct {
	// ID names the node in the cluster: 40 hex digits, which it keeps in its data.
	ID string
	// Version is the redis_version, such as "7.2.4".
	Version string
	// RunID changes with each start of the server.
	RunID string
	// History names the writes that the node has: those of a master and its replicas have one name. A replica that takes over begins
	// another history: the master_replid of https://redis.io/docs/latest/commands/info/
	History string `json:",omitempty"`
	// Loading says that the node still reads its data from the disk. It reports only its
	// Version then: all other fields are zero.
	Loading bool
	// StateOK says that the node takes requests: it knows an owner for every slot and
	// reaches most masters. (Or, with cluster-require-full-coverage no, only the latter.)
	StateOK bool
	// Epoch is the highest config epoch that the node knows.
	Epoch int64
	// Keys is how many keys the node holds, as a master or as a replica.
	Keys int64
	// Master says whether the node is a master, by its own line in Table.
	Master bool
	// LinkUp says that a replica is connected to its master, and has all of its data except
	// the latest writes. It is false for a master.
	LinkUp bool
	// Syncing says that a replica copies all of its master's data.
	Syncing bool `json:",omitempty"`
	// LinkDown is the time since a replica lost the link to its master, to the second. It is
	// negative if the replica has had no link since it was started; its Offset is 0 then,
	// even if it has data. It is 0 while LinkUp, and for a master.
	LinkDown time.Duration
	// MasterIP is where a replica asks for its master's data. It is "" for a master, and for a
	// replica that has not asked since it was started.
	//
	// It may differ from the master's IP in Table: a node that hears of a new address from a
	// third node changes its Table alone.
	MasterIP string
	// MasterPort is the port for that; 0 without a MasterIP.
	MasterPort int
	// Stray says that a replica is connected to a node at an address that is not its master's: it may
	// have the data of that node. LinkUp is false then. The port counts only if several nodes have the
	// IP. With TLS, a node has two ports: then the port counts only if it is that of another node.
	Stray bool
	// Offset is how many bytes of its history a master has sent, or a replica has
	// applied. Only offsets of one master and its replicas can be compared.
	Offset int64
	// Rewriting says that the node writes its append-only file anew. A replica that has just copied all of its master's data has none of
	// it on its disk until the rewrite ends, and does not stop before, even when asked.
	Rewriting bool
	// WriteError says why the node may lose writes: the last write to its append-only
	// file, or the last rewrite of that file, has failed, mostly because the disk is full.
	// It is "" if neither has failed.
	WriteError string
	// SaveError says that the last snapshot has failed; "" if it has not. With save points,
	// and stop-writes-on-bgsave-error, the node then refuses writes:
	// https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/
	SaveError string `json:",omitempty"`
	// Unwritten says that no key and no function was written or deleted since the node began
	// its append-only file.
	Unwritten bool
	// Libraries are the libraries of functions that the node has, by name, each with a digest that leaves out its code. It is empty if the
	// node does not list them.
	Libraries map[string]string
	// Table has one Entry for each node that this node knows, itself included.
	Table []Entry
	// TLS is nil for a connection without TLS.
	TLS *TLSState `json:",omitempty"`
	// Stats are numbers for metrics. A restore reads those of evicted keys.
	Stats Stats
}

// Stats are sizes of a node, and counters since its start.
type Stats struct {
	// MemoryUsed is what the node has allocated, and MemoryMax the limit for it, both in bytes.
	// MemoryMax is 0 if there is no limit.
	MemoryUsed, MemoryMax int64
	// Clients is the number of connections of clients, without those of replicas.
	Clients int64
	// Commands is the number of commands that were processed, and Evicted the number of keys
	// that were deleted because the limit was reached.
	Commands, Evicted int64
	// LastSave is when the last snapshot was written. Until the first one, it is the start of the node.
	LastSave time.Time
}

// Entry is what one node knows of another one, or of itself: a line of CLUSTER NODES.
type Entry struct {
	ID string
	// IP is "" if the address is not known. The node that was asked learns its own IP from another node or from cluster-announce-ip.
	IP            string
	Port, BusPort int
	// Hostname is what the node announces as its cluster-announce-hostname; "" if it announces none. Needs Redis 7.0.
	Hostname string `json:",omitempty"`
	// Myself marks the entry of the node that was asked.
	Myself bool
	// Master is false for a replica, and for a node in a handshake, of which only the
	// address is known.
	Master bool
	// Handshake says that the node was met and has not answered. Its ID is a random
	// one until then.
	Handshake bool
	// NoAddr says that the address is not known.
	NoAddr bool
	// MaybeFailed is the flag "fail?": the node that was asked cannot reach it.
	MaybeFailed bool
	// Failed is the flag "fail": most masters agreed that they cannot reach it.
	Failed bool
	// MasterID is the ID of the master of a replica; "" for a master.
	MasterID string
	// Epoch is the config epoch: of two nodes that claim a slot, the higher one wins.
	Epoch int64
	// Connected says that the link of the cluster bus to the node is up.
	Connected bool
	// Slots is what the node owns. Only masters own slots.
	Slots Slots
	// Migrating and Importing are the open slots, each with the ID of the node that it goes to or comes from. A node reports only its own
	// open slots; nil if there are none. Those of a replica are left out: Valkey 8 copies the marks of a master to its replicas, which
	// cannot remove them.
	Migrating, Importing map[int]string
}

// parseView makes a View of the answers to the commands of Node.View. overTLS says that the node has a port for TLS, too.
func parseView(id, cluster, nodes, info string, overTLS bool) (*View, error) {
	view := &View{ID: strings.Clone(id)}
	view.parseInfo(info)
	if view.Loading {
		return &View{Version: view.Version, Loading: true}, nil
	}
	if !isID(id) {
		return nil, fmt.Errorf("CLUSTER MYID: %q is no ID", brief(id))
	}
	if !strings.Contains(info, "# Keyspace") { // Without it, the node would seem to have no keys.
		return nil, errors.New("INFO: there is no section Keyspace")
	}
	for key, value := range fields(cluster) {
		switch key {
		case "cluster_state":
			view.StateOK = value == "ok"
		case "cluster_current_epoch":
			epoch, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("CLUSTER INFO: malformed line %q", brief(key+":"+value))
			}
			view.Epoch = epoch
		}
	}
	table, err := parseTable(nodes)
	if err != nil {
		return nil, fmt.Errorf("CLUSTER NODES: %w", err)
	}
	view.Table = table
	for i := range table {
		if table[i].Myself {
			view.Master = table[i].Master
			view.Stray = view.Stray && view.asksElsewhere(table[i].MasterID, overTLS)
			view.LinkUp = view.LinkUp && !view.Master && !view.Stray
			if view.LinkUp || view.Master {
				view.LinkDown = 0
			}
			return view, nil
		}
	}
	return nil, fmt.Errorf("CLUSTER NODES: no line is of the node itself")
}

// asksElsewhere returns whether a replica asks for data at an address that is not its master's in Table. With TLS, Table may have the other
// port of the master: then the port counts if it is that of another node.
func (v *View) asksElsewhere(masterID string, overTLS bool) bool {
	if overTLS && slices.ContainsFunc(v.Table, func(e Entry) bool {
		return e.ID != masterID && e.IP != "" && e.IP == v.MasterIP && e.Port == v.MasterPort
	}) {
		return true
	}
	return slices.ContainsFunc(v.Table, func(e Entry) bool {
		return e.ID == masterID && !e.NoAddr && e.IP != "" && v.MasterIP != "" &&
			(e.IP != v.MasterIP || (!overTLS && v.MasterPort != 0 && e.Port != v.MasterPort && v.SharesIP(e)))
	})
}

// SharesIP returns whether another node in Table has the IP of this one, and another port.
func (v *View) SharesIP(e Entry) bool {
	return slices.ContainsFunc(v.Table, func(other Entry) bool { return other.ID != e.ID && other.IP == e.IP && other.Port != e.Port })
}

// OtherMaster returns the ID of a master that the node knows, and that is neither this one nor the node itself; "" if it knows none.
func (v *View) OtherMaster(id string) string {
	for _, e := range v.Table {
		if e.Master && !e.Myself && e.ID != id && e.ID != "" {
			return e.ID
		}
	}
	return ""
}

// parseInfo reads the answer to INFO: https://redis.io/docs/latest/commands/info/
func (v *View) parseInfo(info string) {
	linkUp, syncing, replica, down, masterIP, masterPort := false, false, false, int64(-1), "", 0
	var masterOffset, replicaOffset int64
	var base, size string // of the append-only file
	var failed []string
	for key, value := range fields(info) {
		switch key {
		case "redis_version":
			v.Version = field(value)
		case "run_id":
			v.RunID = field(value)
		case "master_replid":
			v.History = field(value)
		case "loading":
			v.Loading = value == "1"
		case "role":
			replica = value == "slave"
		case "master_host":
			masterIP = field(value)
		case "master_port":
			masterPort, _ = strconv.Atoi(value)
		case "master_link_status":
			linkUp = value == "up"
		case "master_sync_in_progress":
			syncing = value == "1"
		case "master_link_down_since_seconds":
			down, _ = strconv.ParseInt(value, 10, 64)
		case "master_repl_offset":
			masterOffset, _ = strconv.ParseInt(value, 10, 64)
		case "slave_repl_offset":
			replicaOffset, _ = strconv.ParseInt(value, 10, 64)
		case "aof_base_size":
			base = value
		case "aof_current_size":
			size = value
		case "aof_rewrite_in_progress", "aof_rewrite_scheduled":
			v.Rewriting = v.Rewriting || value == "1"
		case "aof_last_write_status", "aof_last_bgrewrite_status":
			if value != "ok" {
				failed = append(failed, key+" is "+field(value))
			}
		case "rdb_last_bgsave_status":
			if value != "ok" {
				v.SaveError = key + " is " + field(value)
			}
		case "db0": // A node of a cluster has no other database. The line is missing if there are no keys.
			keys, _, _ := strings.Cut(strings.TrimPrefix(value, "keys="), ",")
			v.Keys, _ = strconv.ParseInt(keys, 10, 64)
		default:
			v.Stats.set(key, value)
		}
	}
	// Until a restarted replica has heard from its master, INFO says that it is a master, but CLUSTER NODES does not.
	v.LinkUp, v.Offset = false, masterOffset
	if replica {
		v.LinkUp, v.Syncing, v.Offset = linkUp && !syncing, syncing, replicaOffset
		v.MasterIP, v.MasterPort, v.Stray = masterIP, masterPort, linkUp || syncing // parseView knows whose IP it is.
	}
	v.LinkDown = time.Duration(down) * time.Second
	v.Unwritten = base != "" && base == size
	v.WriteError = strings.Join(failed, ", ")
}

// versionOf returns the version in an INFO of which nothing else is known.
func versionOf(info string) string {
	view := &View{}
	view.parseInfo(info)
	return view.Version
}

// field returns a copy of a field of a reply, cut to maxText bytes: a View must not keep the reply in memory.
func field(text string) string { return strings.Clone(brief(text)) }

// isID returns whether a text is an ID: https://redis.io/docs/latest/commands/cluster-myid/
func isID(text string) bool {
	return len(text) == 40 && strings.Trim(text, "0123456789abcdef") == ""
}

// set reads a line of INFO. A version that lacks one leaves the field 0.
func (s *Stats) set(key, value string) {
	number, _ := strconv.ParseInt(value, 10, 64)
	switch key {
	case "used_memory":
		s.MemoryUsed = number
	case "maxmemory":
		s.MemoryMax = number
	case "connected_clients":
		s.Clients = number
	case "total_commands_processed":
		s.Commands = number
	case "evicted_keys":
		s.Evicted = number
	case "rdb_last_save_time":
		s.LastSave = time.Unix(number, 0)
	}
}

// fields yields the lines "key:value" of an INFO.
func fields(info string) func(func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for line := range strings.Lines(info) {
			key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
			if ok && !yield(key, value) {
				return
			}
		}
	}
}

// maxEntries is how many nodes a Table may have: four times as many as a cluster may have.
const maxEntries = 2000

// parseTable reads the answer to CLUSTER NODES:
// https://redis.io/docs/latest/commands/cluster-nodes/
func parseTable(nodes string) ([]Entry, error) {
	count := strings.Count(nodes, "\n")
	if count > maxEntries {
		return nil, fmt.Errorf("there are %d lines, more than %d", count, maxEntries)
	}
	table := make([]Entry, 0, count)
	ranges := 0 // Each slot has one owner.
	for line := range strings.Lines(nodes) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		entry, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("malformed line %.200q: %w", line, err)
		}
		if ranges += len(entry.Slots) + len(entry.Migrating) + len(entry.Importing); ranges > 2*SlotCount {
			return nil, errors.New("it has more slots than there are")
		}
		table = append(table, entry)
	}
	return table, nil
}

// parseEntry reads "id address flags master ping pong epoch link slot…".
func parseEntry(line string) (Entry, error) {
	var field [8]string
	rest := line
	for i := range field {
		field[i], rest, _ = strings.Cut(rest, " ")
		if field[i] == "" {
			return Entry{}, fmt.Errorf("it has %d fields and needs %d", i, len(field))
		}
	}
	for i, id := range []string{field[0], field[3]} {
		if !isID(id) && (i == 0 || id != "-") {
			return Entry{}, fmt.Errorf("%q is no ID", brief(id))
		}
	}
	entry := Entry{ID: strings.Clone(field[0]), Connected: field[7] == "connected"}
	if err := entry.parseAddress(field[1]); err != nil {
		return Entry{}, err
	}
	entry.parseFlags(field[2])
	if field[3] != "-" {
		entry.MasterID = strings.Clone(field[3])
	}
	epoch, err := strconv.ParseInt(field[6], 10, 64)
	if err != nil {
		return Entry{}, fmt.Errorf("%q is no epoch", brief(field[6]))
	}
	entry.Epoch = epoch
	err = entry.parseSlots(rest)
	if !entry.Master {
		entry.Migrating, entry.Importing = nil, nil
	}
	return entry, err
}

// parseAddress reads "ip:port@busport", and what newer versions add after a comma: a
// host name, and fields such as shard-id=…. The address is :0@0 if it is not known.
func (e *Entry) parseAddress(text string) error {
	address, rest, _ := strings.Cut(text, ",")
	hostname, _, _ := strings.Cut(rest, ",")
	address, bus, hasBus := strings.Cut(address, "@")
	colon := strings.LastIndexByte(address, ':') // Redis writes no brackets around IPv6.
	port, err := strconv.ParseUint(address[colon+1:], 10, 16)
	busPort, busErr := strconv.ParseUint(bus, 10, 16)
	if colon < 0 || !hasBus || err != nil || busErr != nil {
		return fmt.Errorf("%q is no ip:port@busport", brief(text))
	}
	e.IP, e.Port, e.BusPort, e.Hostname = field(address[:colon]), int(port), int(busPort), field(hostname)
	return nil
}

// parseFlags reads "myself,master". It ignores flags without a field.
func (e *Entry) parseFlags(text string) {
	for flag := range strings.SplitSeq(text, ",") {
		switch flag {
		case "myself":
			e.Myself = true
		case "master":
			e.Master = true
		case "handshake":
			e.Handshake = true
		case "noaddr":
			e.NoAddr = true
		case "fail?":
			e.MaybeFailed = true
		case "fail":
			e.Failed = true
		}
	}
}

// parseSlots reads "0-5460 6000 [93-<-id] [77->-id]".
func (e *Entry) parseSlots(text string) error {
	for part := range strings.SplitSeq(text, " ") {
		if part == "" {
			continue
		}
		if part[0] == '[' {
			if err := e.parseOpenSlot(part); err != nil {
				return err
			}
			continue
		}
		slots, err := parseRange(part)
		if err != nil {
			return err
		}
		if e.Slots = append(e.Slots, slots); len(e.Slots) > SlotCount {
			return errors.New("it has more ranges than there are slots")
		}
	}
	e.Slots = normal(e.Slots)
	return nil
}

func (e *Entry) parseOpenSlot(text string) error {
	inner, closed := strings.CutSuffix(text[1:], "]")
	open := &e.Migrating
	slot, id, ok := strings.Cut(inner, "->-")
	if !ok {
		open = &e.Importing
		slot, id, ok = strings.Cut(inner, "-<-")
	}
	number, isSlot := parseSlot(slot)
	if !closed || !ok || !isSlot || !isID(id) {
		return fmt.Errorf("%q is no open slot", brief(text))
	}
	if *open == nil {
		*open = map[int]string{}
	}
	(*open)[number] = strings.Clone(id)
	return nil
}
