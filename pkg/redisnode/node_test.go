// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

const password = "correct-horse"

// server is a redis-server, and the connection under test.
type server struct {
	*redistest.Server
	*redisnode.Node
}

func start(t *testing.T, config redistest.Config) server {
	t.Helper()
	s := redistest.Start(t, config)
	return server{s, dial(t, s.IP, s.Port, s.Password)}
}

func dial(t *testing.T, ip string, port int, password string) *redisnode.Node {
	t.Helper()
	node := redisnode.Dial(ip, port, redisnode.Login{Password: password})
	t.Cleanup(node.Close)
	return node
}

// client returns an ordinary client of the server, as an application uses it.
func (s server) client(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Address(), Password: s.Password, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	return client
}

func (s server) view(t *testing.T) *redisnode.View {
	t.Helper()
	view, err := s.View(t.Context())
	must.Succeed(t, err)
	return view
}

// fails checks that an error has a text.
func fails(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
}

func myself(t *testing.T, view *redisnode.View) redisnode.Entry {
	t.Helper()
	for _, entry := range view.Table {
		if entry.Myself {
			return entry
		}
	}
	t.Fatalf("no entry with the flag myself in %+v", view)
	return redisnode.Entry{}
}

// await waits until is returns true for the views of all servers.
func await(t *testing.T, what string, servers []server, is func(*redisnode.View) bool) {
	t.Helper()
	var nodes []*redisnode.Node
	for _, s := range servers {
		nodes = append(nodes, s.Node)
	}
	redistest.Await(t, what, nodes, is)
}

// form creates a cluster: server n+masters is the replica of server n.
func form(t *testing.T, config redistest.Config, masters, replicas int) []server {
	t.Helper()
	var servers []server
	for _, s := range redistest.Form(t, config, redisnode.TLS{}, masters, replicas) {
		servers = append(servers, server{s, dial(t, s.IP, s.Port, s.Password)})
	}
	return servers
}

func TestCluster(t *testing.T) {
	config := redistest.Config{Password: password, Directives: []string{"cluster-node-timeout 2000"}}
	servers := form(t, config, 3, 3)
	for _, step := range []struct {
		name string
		test func(*testing.T, []server)
	}{
		{"commands that a node refuses", testRefusals},
		{"a replica connects again", testReconnect},
		{"moving slots", testMoveSlots},
		{"a graceful failover loses nothing", testGracefulFailover},
		{"a takeover after a master is gone, and CLUSTER FORGET", testTakeover},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.test(t, servers) }) {
			return
		}
	}
}

func testRefusals(t *testing.T, servers []server) {
	ctx, own := t.Context(), myself(t, servers[0].view(t))
	for name, test := range map[string]struct {
		err  error
		want string // "" for none
	}{
		"add a slot of another node": {servers[1].AddSlots(ctx, redisnode.NewSlots(7)), "CLUSTER ADDSLOTSRANGE: ERR Slot 7 is already busy"},
		"add no slots":               {servers[1].AddSlots(ctx, nil), ""},
		"forget itself":              {servers[0].Forget(ctx, own.ID), "CLUSTER FORGET: ERR I tried hard but I can't forget myself..."},
		"forget an unknown node":     {servers[0].Forget(ctx, strings.Repeat("0", 40)), ""},
		"replicate with slots":       {servers[1].Replicate(ctx, own.ID), "CLUSTER REPLICATE: ERR To set a master the node must be empty"},
		"a failover by a master": {servers[0].Failover(ctx, redisnode.Graceful),
			"CLUSTER FAILOVER: ERR You should send CLUSTER FAILOVER to a replica"},
		"import its own slot": {servers[0].SetSlots(ctx, redisnode.SlotRange(6, 8), redisnode.SlotImporting, own.ID),
			"CLUSTER SETSLOT: ERR I'm already the owner of hash slot 6"},
		"set no slots":    {servers[0].SetSlots(ctx, nil, redisnode.SlotImporting, own.ID), ""},
		"migrate no keys": {servers[0].Migrate(ctx, servers[1].IP, servers[1].Port, redisnode.Login{}, time.Second, nil), ""},
	} {
		if (test.err == nil) != (test.want == "") || (test.err != nil && !strings.Contains(test.err.Error(), test.want)) {
			t.Errorf("%s: got error %v, want %q", name, test.err, test.want)
		}
	}
}

func testReconnect(t *testing.T, servers []server) {
	master, replica := servers[0], servers[3]
	connected := func() int {
		info, err := master.client(t).Info(t.Context(), "clients", "stats").Result()
		must.Succeed(t, err)
		count := 0
		for line := range strings.Lines(info) {
			var number int
			for _, format := range []string{"sync_full:%d", "sync_partial_ok:%d"} {
				if _, err := fmt.Sscanf(line, format, &number); err == nil {
					count += number
				}
			}
		}
		return count
	}
	id, before := master.view(t).ID, connected()
	must.Succeed(t, replica.Reconnect(t.Context(), id, replica.view(t).OtherMaster(id)))
	await(t, "the replica has another link", []server{replica}, func(v *redisnode.View) bool { return connected() > before && v.LinkUp })
	if got := myself(t, replica.view(t)).MasterID; got != id {
		t.Errorf("it is a replica of %s, want %s", got, id)
	}
}

// fill writes one key into each of up to 200 slots of the server, and returns the keys by slot.
func (s server) fill(t *testing.T) map[int]string {
	t.Helper()
	client, slots, filled := s.client(t), myself(t, s.view(t)).Slots, map[int]string{}
	for i := range 200 {
		key := fmt.Sprintf("key-%d", i)
		slot, err := client.ClusterKeySlot(t.Context(), key).Result()
		must.Succeed(t, err)
		if slots.Has(int(slot)) && filled[int(slot)] == "" {
			must.Succeed(t, client.Set(t.Context(), key, "value of "+key, 0).Err())
			filled[int(slot)] = key
		}
	}
	return filled
}

func testMoveSlots(t *testing.T, servers []server) {
	ctx, from, to := t.Context(), servers[0], servers[1]
	filled := from.fill(t)
	fromID, toID := from.view(t).ID, to.view(t).ID
	slots := redisnode.SlotRange(0, 1) // These most likely have no keys.
	for slot := range filled {
		slots = slots.Union(redisnode.NewSlots(slot))
	}
	slots = slots.First(22)
	must.Succeed(t, to.SetSlots(ctx, slots, redisnode.SlotImporting, fromID))
	must.Succeed(t, from.SetSlots(ctx, slots, redisnode.SlotMigrating, toID))
	if open := myself(t, from.view(t)); len(open.Migrating) != 22 || open.Importing != nil {
		t.Errorf("the open slots of the source: %+v", open)
	}
	if open := myself(t, to.view(t)); len(open.Importing) != 22 || open.Migrating != nil {
		t.Errorf("the open slots of the target: %+v", open)
	}
	found, err := from.Keys(ctx, slots, 10)
	must.Succeed(t, err)
	var keys []string
	for slot := range slots.All() {
		if key := filled[slot]; key != "" {
			keys = append(keys, key)
			if !slices.Equal(found[slot], []string{key}) {
				t.Errorf("slot %d has keys %v, want %s", slot, found[slot], key)
			}
		} else if _, has := found[slot]; has {
			t.Errorf("Keys returns slot %d, which has no keys", slot)
		}
	}
	err = from.Migrate(ctx, to.IP, to.Port, redisnode.Login{Password: "not-the-password"}, time.Second, keys[:1])
	if err == nil || !strings.HasPrefix(err.Error(), "MIGRATE: ") || strings.Contains(err.Error(), "not-the-password") ||
		errors.Is(err, redisnode.ErrPassword) {
		t.Errorf("MIGRATE with a wrong password: error %v", err)
	}
	if sizes, err := from.Sizes(ctx, keys); err != nil || len(sizes) != len(keys) || slices.Min(sizes) <= 0 {
		t.Errorf("the sizes of %d keys are %d, error %v", len(keys), sizes, err)
	}
	for range 2 { // The second time, the keys are gone from the source: this is no error.
		for _, keys := range found {
			must.Succeed(t, from.Migrate(ctx, to.IP, to.Port, redisnode.Login{Password: password}, time.Second, keys))
		}
	}
	if found, err = from.Keys(ctx, slots, 10); err != nil || len(found) != 0 {
		t.Errorf("the source still has the keys %v, error %v", found, err)
	}
	if sizes, err := from.Sizes(ctx, keys); err != nil || len(sizes) != len(keys) || slices.Max(sizes) != 0 {
		t.Errorf("the sizes of keys that have moved are %d, error %v; want 0", sizes, err)
	}
	for _, s := range []server{to, from, servers[2]} {
		must.Succeed(t, s.SetSlots(ctx, slots, redisnode.SlotNode, toID))
	}
	await(t, "all nodes know the new owner of the slots", servers, func(view *redisnode.View) bool {
		return slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool {
			return e.ID == toID && e.Slots.Intersect(slots).Equal(slots) && e.Importing == nil
		})
	})
	client := to.client(t)
	for _, key := range keys {
		if value, err := client.Get(ctx, key).Result(); err != nil || value != "value of "+key {
			t.Errorf("the value of %s is %q, error %v", key, value, err)
		}
	}
	must.Succeed(t, from.SetSlots(ctx, redisnode.NewSlots(2000), redisnode.SlotMigrating, toID))
	must.Succeed(t, from.SetSlots(ctx, redisnode.NewSlots(2000), redisnode.SlotStable, ""))
	if open := myself(t, from.view(t)); open.Migrating != nil {
		t.Errorf("a slot is open after STABLE: %+v", open)
	}
}

func testGracefulFailover(t *testing.T, servers []server) {
	master, replica := servers[0], servers[3]
	keys, slots, history := master.view(t).Keys, myself(t, master.view(t)).Slots, master.view(t).History
	if replicas := replica.view(t).History; replicas != history {
		t.Errorf("the history of the master is %q, and that of its replica %q", history, replicas)
	}
	must.Succeed(t, replica.Failover(t.Context(), redisnode.Graceful))
	await(t, "the replica is master", []server{replica}, func(view *redisnode.View) bool {
		return view.Master && view.Keys == keys && myself(t, view).Slots.Equal(slots)
	})
	newID := replica.view(t).ID
	await(t, "the master is a replica", []server{master}, func(view *redisnode.View) bool {
		return !view.Master && view.LinkUp && myself(t, view).MasterID == newID && view.Keys == keys
	})
	await(t, "the offsets are the same", []server{master},
		func(view *redisnode.View) bool { return view.Offset > 0 && view.Offset == replica.view(t).Offset })
	if now := replica.view(t).History; now == history || now != master.view(t).History {
		t.Errorf("the history was %q, and now is %q, and %q on the replica", history, now, master.view(t).History)
	}
}

func testTakeover(t *testing.T, servers []server) {
	master, replica := servers[1], servers[4]
	gone := master.view(t).ID
	master.Kill()
	must.Succeed(t, replica.Failover(t.Context(), redisnode.Takeover))
	await(t, "the replica is master", []server{replica}, func(view *redisnode.View) bool { return view.Master })
	others := slices.Delete(slices.Clone(servers), 1, 2)
	await(t, "the nodes agree that the master failed", others, func(view *redisnode.View) bool {
		return slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool { return e.ID == gone && e.Failed && !e.Connected })
	})
	for _, s := range others {
		must.Succeed(t, s.Forget(t.Context(), gone))
		must.Succeed(t, s.Forget(t.Context(), gone))
	}
	await(t, "five nodes take requests", others, func(view *redisnode.View) bool { return view.StateOK && len(view.Table) == 5 })
}

func TestErrPassword(t *testing.T) {
	open := redistest.Start(t, redistest.Config{})
	locked := redistest.Start(t, redistest.Config{Password: password})
	for name, test := range map[string]struct {
		server *redistest.Server
		given  string
		want   string
	}{
		"another password":         {locked, "wrong-horse", "the password is refused: the node has another one"},
		"a missing password":       {locked, "", "the password is refused: the node needs one and was given none"},
		"a needless password":      {open, "wrong-horse", "the password is refused: the node has none and was given one"},
		"the right password":       {locked, password, ""},
		"no password, and no need": {open, "", ""},
	} {
		node := dial(t, test.server.IP, test.server.Port, test.given)
		for range 2 { // The second request uses the same connection or, after an error, a new one.
			_, viewErr := node.View(t.Context())
			_, keysErr := node.Keys(t.Context(), redisnode.NewSlots(1), 1)
			for command, err := range map[string]error{
				"CLUSTER MYID":          viewErr,
				"CLUSTER GETKEYSINSLOT": keysErr,
				"CLUSTER FORGET":        node.Forget(t.Context(), strings.Repeat("0", 40)),
			} {
				if test.want == "" {
					must.Succeed(t, err)
				} else if !errors.Is(err, redisnode.ErrPassword) || err.Error() != command+": "+test.want {
					t.Errorf("%s: got error %v, want %s: %s", name, err, command, test.want)
				}
			}
		}
	}
}

// TestErrorsHoldNoPassword: Redis quotes the arguments of an unknown command in its answer. The error leaves them out.
func TestErrorsHoldNoPassword(t *testing.T) {
	s := start(t, redistest.Config{Directives: []string{`rename-command MIGRATE ""`}})
	err := s.Migrate(t.Context(), "127.0.0.1", 1, redisnode.Login{Password: password}, time.Second, []string{"key"})
	if err == nil || strings.Contains(err.Error(), password) || !strings.HasPrefix(err.Error(), "MIGRATE: ERR unknown command") {
		t.Errorf("got error %v", err)
	}
	noAuth := redistest.Start(t, redistest.Config{Directives: []string{`rename-command AUTH ""`}})
	_, err = dial(t, noAuth.IP, noAuth.Port, password).View(t.Context())
	if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "ERR unknown command") {
		t.Errorf("got error %v", err)
	}
}

func TestLoading(t *testing.T) {
	const keys = 30000
	s := form(t, redistest.Config{}, 1, 0)[0]
	_, err := s.client(t).Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range keys {
			p.Set(t.Context(), strconv.Itoa(i), i, 0)
		}
		return nil
	})
	must.Succeed(t, err)
	was := s.view(t)
	s.Stop()
	// While Redis loads commands, it sleeps after each of them, and answers clients after every 1024th. It loads for nine seconds, unless the
	// test sets the delay to 0.
	s = start(t, redistest.Config{Dir: s.Dir, Directives: []string{"key-load-delay 300"}})
	view := s.view(t)
	if !view.Loading || view.Version != was.Version || view.ID != "" || view.Table != nil {
		t.Errorf("the view while the node loads is %+v", view)
	}
	must.Succeed(t, s.client(t).ConfigSet(t.Context(), "key-load-delay", "0").Err())
	await(t, "the node has loaded its data", []server{s},
		func(view *redisnode.View) bool { return !view.Loading && view.Keys == keys && view.ID == was.ID })
	if own := myself(t, s.view(t)); own.IP != s.IP || own.Slots.Len() != redisnode.SlotCount {
		t.Errorf("after a restart with another IP, the node's own entry is %+v", own)
	}
}

func TestWriteError(t *testing.T) {
	s := form(t, redistest.Config{FileLimit: 256 << 10}, 1, 0)[0]
	await(t, "the node writes to its disk", []server{s}, func(view *redisnode.View) bool { return view.WriteError == "" })
	client, value := s.client(t), strings.Repeat("x", 100<<10)
	for i := range 4 {
		if err := client.Set(t.Context(), fmt.Sprint(i), value, 0).Err(); err != nil {
			t.Logf("SET %d: %v", i, err)
		}
	}
	await(t, "the disk is full", []server{s}, func(view *redisnode.View) bool {
		return view.WriteError == "aof_last_write_status is err"
	})
	s.LiftFileLimit()
	await(t, "the disk has space again", []server{s}, func(view *redisnode.View) bool { return view.WriteError == "" })
	must.Succeed(t, client.Set(t.Context(), "after", value, 0).Err())
}

func TestServerThatIsGone(t *testing.T) {
	s := start(t, redistest.Config{})
	was := s.view(t)
	if now := s.view(t); len(now.RunID) != 40 || now.RunID != was.RunID {
		t.Errorf("the run ID is %q, and %q in the next View", was.RunID, now.RunID)
	}
	s.Kill()
	for range 3 {
		_, err := s.View(t.Context())
		fails(t, err, "CLUSTER MYID: dial tcp "+s.Address()+": connect: connection refused")
	}
	again := redistest.Start(t, redistest.Config{Dir: s.Dir, IP: s.IP})
	// Redis listens before it has loaded its data. Until then, the View has no ID.
	await(t, "the node has its old ID", []server{s}, func(view *redisnode.View) bool { return view.ID == was.ID })
	if now := s.view(t).RunID; now == was.RunID {
		t.Errorf("the run ID is %q before and after the restart", now)
	}
	again.Stop()
	redistest.Start(t, redistest.Config{Dir: s.Dir, IP: s.IP})
	s.view(t) // Nobody asked it while it was gone.
}

// TestContext ends requests to a node that does not answer by their contexts.
func TestContext(t *testing.T) {
	s := start(t, redistest.Config{})
	s.view(t)
	s.Signal(syscall.SIGSTOP)
	unconnected := dial(t, s.IP, s.Port, "")
	for name, node := range map[string]*redisnode.Node{"connected": s.Node, "not connected": unconnected} {
		for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if want == context.Canceled { //nolint:errorlint // The list has exactly this error.
				cancel()
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(200*time.Millisecond, cancel)
			}
			// The second request waits for its turn, since the first one does not return before its context ends.
			var waiting sync.WaitGroup
			for range 2 {
				waiting.Go(func() {
					if _, err := node.View(ctx); !errors.Is(err, want) {
						t.Errorf("%s: got %v, want %v", name, err, want)
					}
				})
			}
			waiting.Wait()
			cancel()
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Forget(done, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a request with a canceled context returned the error %v", err)
	}
	if _, err := s.View(t.Context()); err == nil { // It has a timeout of its own.
		t.Error("a server that does not answer has a view")
	}
	s.Signal(syscall.SIGCONT)
	s.view(t)
	_, err := unconnected.View(t.Context())
	must.Succeed(t, err)
}

// TestARedisThatIsTooOld reads a server that answers as Redis 6.2 does: INFO accepts only one section.
func TestARedisThatIsTooOld(t *testing.T) {
	port := must.Listen(t, func(client net.Conn) {
		reader := bufio.NewReader(client)
		for command, err := readCommand(reader); err == nil; command, err = readCommand(reader) {
			answer := "+OK\r\n"
			switch {
			case strings.HasPrefix(command, "hello "):
				answer = "*0\r\n"
			case strings.HasPrefix(command, "INFO "):
				answer = "-ERR syntax error\r\n"
			}
			_, _ = io.WriteString(client, answer)
		}
	})
	_, err := dial(t, "127.0.0.1", port, "").View(t.Context())
	fails(t, err, "INFO: this Redis is older than 7.0")
}

// TestMigrateWaitsForItsTimeout: the node waits for the target until the timeout, and Migrate waits for the node.
func TestMigrateWaitsForItsTimeout(t *testing.T) {
	const timeout = 4 * time.Second // longer than the connection waits for other answers
	from, to := form(t, redistest.Config{}, 1, 0)[0], start(t, redistest.Config{})
	must.Succeed(t, from.client(t).Set(t.Context(), "key", "value", 0).Err())
	to.Signal(syscall.SIGSTOP)
	err := from.Migrate(t.Context(), to.IP, to.Port, redisnode.Login{}, timeout, []string{"key"})
	if err == nil || !strings.HasPrefix(err.Error(), "MIGRATE: IOERR ") {
		t.Errorf("got error %v", err)
	}
	if view := from.view(t); view.Keys != 1 {
		t.Errorf("the source has %d keys, want 1", view.Keys)
	}
}

func TestClose(t *testing.T) {
	s := start(t, redistest.Config{})
	s.view(t)
	s.Signal(syscall.SIGSTOP)
	defer time.AfterFunc(200*time.Millisecond, s.Close).Stop()
	_, err := s.View(t.Context())
	fails(t, err, "closed")
	s.Signal(syscall.SIGCONT)
	fails(t, s.Forget(t.Context(), "x"), "closed")
	s.Close()
}

func TestIPv6(t *testing.T) {
	port := 20000 + os.Getpid()%10000
	if listener, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(port))); err != nil {
		t.Skipf("SKIPPED: this system has no IPv6: %v", err)
	} else {
		listener.Close()
	}
	s := start(t, redistest.Config{IP: "::1", Port: port})
	if own := myself(t, s.view(t)); own.IP != "::1" || own.Port != port || own.BusPort != port+redistest.BusOffset {
		t.Errorf("the node's own entry is %+v", own)
	}
	must.Succeed(t, s.Meet(t.Context(), "::1", port+1, port+1+redistest.BusOffset))
	if view := s.view(t); len(view.Table) != 2 || !slices.ContainsFunc(view.Table,
		func(e redisnode.Entry) bool { return e.Handshake && e.IP == "::1" && e.Port == port+1 }) {
		t.Errorf("after CLUSTER MEET, the view is %+v", view)
	}
}

// proxy passes each connection on to the server. pass returns how much of what the client has sent goes on, and whether the connection
// does.
func (s server) proxy(t *testing.T, pass func(data []byte) (int, bool)) (port int) {
	t.Helper()
	return must.Listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		go func() { _, _ = io.Copy(client, server) }() // It ends with the connection.
		for data := make([]byte, 1<<16); ; {
			n, err := client.Read(data)
			if err != nil {
				return
			}
			n, on := pass(data[:n])
			if _, err := server.Write(data[:n]); err != nil || !on {
				_ = server.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, server) // The server has read it once it ends the connection.
				return
			}
		}
	})
}

// TestWire: HELLO is the only command that go-redis adds to those of the node, and all requests use one connection.
func TestWire(t *testing.T) {
	for name, password := range map[string]string{"with a password": password, "without a password": ""} {
		s := start(t, redistest.Config{Password: password})
		var mu sync.Mutex
		var sent bytes.Buffer
		node := dial(t, "127.0.0.1", s.proxy(t, func(data []byte) (int, bool) {
			mu.Lock()
			defer mu.Unlock()
			sent.Write(data) // A command is kept before its answer arrives.
			return len(data), true
		}), password)
		want := []string{"hello 2", "AUTH " + password}
		if password == "" {
			want = want[:1]
		}
		var views sync.WaitGroup
		for range 8 {
			want = append(want, "CLUSTER MYID", "CLUSTER INFO", "CLUSTER NODES",
				"INFO server replication persistence memory clients stats keyspace", "FUNCTION LIST")
			views.Go(func() {
				if _, err := node.View(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		views.Wait()
		mu.Lock()
		var got []string
		reader := bufio.NewReader(&sent)
		for command, err := readCommand(reader); err == nil; command, err = readCommand(reader) {
			got = append(got, command)
		}
		mu.Unlock()
		if !slices.Equal(got, want) {
			t.Errorf("%s: sent %q, want %q", name, got, want)
		}
	}
}

// readCommand reads an array of bulk strings. The strings have no line breaks:
// https://redis.io/docs/latest/develop/reference/protocol-spec/
func readCommand(reader *bufio.Reader) (string, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	count, err := strconv.Atoi(strings.Trim(line, "*\r\n"))
	if err != nil {
		return "", err
	}
	var words []string
	for range 2 * count { // Each word is a line with its length, and a line with the word.
		if line, err = reader.ReadString('\n'); err != nil {
			return "", err
		}
		words = append(words, strings.TrimSpace(line))
	}
	var command []string
	for i := 1; i < len(words); i += 2 {
		command = append(command, words[i])
	}
	return strings.Join(command, " "), nil
}

// TestRepliesOfAHostileNode reads from servers whose replies would end the process, or take much memory. Each request returns an error.
func TestRepliesOfAHostileNode(t *testing.T) {
	const mebibyte = 1 << 20
	for name, test := range map[string]struct{ reply, want string }{
		"a string longer than an int":      {"$9223372036854775807\r\n", "too long"},
		"a string longer than the memory":  {"$200000000000\r\n", "too long"},
		"a string with zeros before":       {"$000000000000000000000000000005\r\n", "invalid length"},
		"a length that is no number":       {"$x\r\n", "invalid length"},
		"an array longer than an int":      {"*9223372036854775807\r\n", "too long"},
		"an array longer than the limit":   {"*200000\r\n", "too long"},
		"many arrays":                      {"*65000\r\n" + strings.Repeat("*65000\r\n", 9), "too long"},
		"arrays in arrays":                 {strings.Repeat("*1\r\n", 1000), "too long"},
		"arrays in arrays, after a number": {strings.Repeat("*2\r\n:1\r\n", 1000), "too long"},
		"after a string":                   {"$2\r\nok\r\n$200000000000\r\n", "too long"},
		"an attribute":                     {"|0\r\n*1\r\n", "not RESP2"},
		"a map":                            {"%200000000000\r\n", "not RESP2"},
		"an error without an end":          {"-" + strings.Repeat("x", 3*mebibyte), "too long"},
		"strings that are long together":   {"*9\r\n" + strings.Repeat("$300000\r\n"+strings.Repeat("x", 300_000)+"\r\n", 9), "too long"},
	} {
		port := must.Listen(t, func(client net.Conn) {
			reader := bufio.NewReader(client)
			// Servers without HELLO answer the first command with an error.
			for _, answer := range []string{"-ERR unknown command\r\n", test.reply} {
				if _, err := readCommand(reader); err != nil {
					return
				}
				_, _ = io.WriteString(client, answer)
			}
			_, _ = io.Copy(io.Discard, reader)
		})
		if _, err := dial(t, "127.0.0.1", port, "").View(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

// TestSnapshot takes snapshots of a master and a replica, with a mark at the end and with a length at the beginning.
func TestSnapshot(t *testing.T) {
	for name, directives := range map[string][]string{
		"over the network": {"repl-diskless-sync yes"}, "from a file": {"repl-diskless-sync no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := redistest.Config{Password: password, Directives: directives}
			servers := form(t, config, 1, 1)
			master, replica := servers[0], servers[1]
			value := strings.Repeat("0123456789", 100_000) + "last"
			must.Succeed(t, master.client(t).Set(t.Context(), "key", value, 0).Err())
			await(t, "the replica has the data", []server{replica}, func(v *redisnode.View) bool { return v.LinkUp && v.Keys == 1 })
			for _, s := range []server{master, replica} {
				must.Succeed(t, s.client(t).ConfigSet(t.Context(), "rdbcompression", "no").Err())
				node := redisnode.DialReadOnly(s.IP, s.Port, redisnode.Login{User: "default", Password: password})
				defer node.Close()
				stream, err := node.Snapshot(t.Context())
				must.Succeed(t, err)
				file, err := io.ReadAll(stream)
				must.Succeed(t, errors.Join(err, stream.Close()))
				const end = 1 + 8
				if !bytes.HasPrefix(file, []byte("REDIS00")) || !bytes.HasSuffix(file[:len(file)-end], []byte(value)) || file[len(file)-end] != 0xff {
					t.Errorf("the file of %s has %d bytes, from %.20q to %q", s.IP, len(file), file, file[max(0, len(file)-20):])
				}
			}

			master.Kill()
			for _, stale := range []string{"no", "yes"} { // With "no", the replica refuses most commands.
				must.Succeed(t, replica.SetDirective(t.Context(), "replica-serve-stale-data", stale))
				await(t, "the replica has lost its master", []server{replica}, func(v *redisnode.View) bool { return !v.LinkUp && v.Keys == 1 })
			}
			if _, err := replica.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "SYNC: NOMASTERLINK") {
				t.Errorf("a replica without its master: error %v", err)
			}
			wrong := dial(t, replica.IP, replica.Port, "wrong")
			if _, err := wrong.Snapshot(t.Context()); !errors.Is(err, redisnode.ErrPassword) {
				t.Errorf("a wrong password: error %v", err)
			}
			if _, err := dial(t, master.IP, master.Port, "").Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "connect: ") {
				t.Errorf("a node that is gone: error %v", err)
			}
		})
	}
}

// TestSnapshotOfATestServer takes snapshots of a server that sends its bytes as the test wants it.
func TestSnapshotOfATestServer(t *testing.T) {
	mark := strings.Repeat("m", 39) + "!"
	long := strings.Repeat("mmm", 50_000)
	for name, test := range map[string]struct {
		sent, want, err string
	}{
		"a length":                       {"\n\n$3\r\nabcmore", "abc", ""},
		"a length of nothing":            {"$0\r\n", "", ""},
		"a mark":                         {"\n$EOF:" + mark + "\r\nabc" + mark, "abc", ""},
		"a mark after what is like it":   {"$EOF:" + mark + "\r\n" + long + mark, long, ""},
		"a mark after nothing":           {"$EOF:" + mark + "\r\n" + mark, "", ""},
		"an end before the length":       {"$3\r\nab", "ab", "SYNC: unexpected EOF"},
		"an end before the mark":         {"$EOF:" + mark + "\r\nabc" + mark[:39], "abc", "SYNC: unexpected EOF"},
		"an end before the file":         {"\n", "", "SYNC: unexpected EOF"},
		"a mark that is too short":       {"$EOF:m\r\n", "", "SYNC: malformed answer"},
		"a length that is none":          {"$-1\r\n", "", "malformed answer"},
		"no length":                      {"3\r\n", "", "malformed answer"},
		"an error, with the password in": {"-ERR unknown command, with args beginning with: hunter2\r\n", "", "SYNC: ERR unknown command"},
	} {
		stream, err := snapshotServer(t, test.sent).Snapshot(t.Context())
		var file []byte
		if err == nil {
			file, err = io.ReadAll(iotest.HalfReader(stream))
			must.Succeed(t, stream.Close())
		}
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", name, err, test.err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error has the password: %v", name, err)
		}
		if test.err == "" && string(file) != test.want {
			t.Errorf("%s: got %d bytes %.50q, want %d", name, len(file), file, len(test.want))
		}
	}
}

// TestSnapshotEndsWithItsContext cancels a snapshot before and during the file.
func TestSnapshotEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := snapshotServer(t, "$3\r\nab", "wait").Snapshot(ctx)
	must.Succeed(t, err)
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := io.ReadAll(stream); !errors.Is(err, context.Canceled) {
		t.Errorf("during the file: error %v", err)
	}
	must.Succeed(t, stream.Close())
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := snapshotServer(t, "\n", "wait").Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the file: error %v", err)
	}
}

// snapshotServer answers SYNC with a text, and then ends the connection unless it waits.
func snapshotServer(t *testing.T, sent string, wait ...string) *redisnode.Node {
	t.Helper()
	port := must.Listen(t, func(conn net.Conn) {
		for in := bufio.NewScanner(conn); in.Scan(); {
			switch in.Text() {
			case "REPLCONF":
				_, _ = io.WriteString(conn, "+OK\r\n")
			case "SYNC":
				_, _ = io.WriteString(conn, sent)
				if len(wait) == 0 {
					return
				}
			}
		}
	})
	node := redisnode.DialReadOnly("127.0.0.1", port, redisnode.Login{})
	t.Cleanup(node.Close)
	return node
}
