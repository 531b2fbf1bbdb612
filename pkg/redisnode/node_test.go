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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

const (
	password = "correct-horse"
	// patience limits a wait. On an idle machine, each wait takes one or two seconds.
	patience = 40 * time.Second
)

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
	if err != nil {
		t.Fatal(err)
	}
	return view
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

// await waits until is returns true for the views of all servers. A server that does not answer has no such view.
func await(t *testing.T, what string, servers []server, is func(*redisnode.View) bool) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if !slices.ContainsFunc(servers, func(s server) bool {
			view, err := s.View(t.Context())
			last = fmt.Sprintf("%s: %+v, %v", s.IP, view, err)
			return err != nil || !is(view)
		}) {
			return
		}
	}
	t.Fatalf("waited %s until %s; the last view: %s", patience, what, last)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// form creates a cluster of three masters and their replicas: server n+3 is the replica of server n.
func form(t *testing.T) []server {
	t.Helper()
	var servers []server
	config := redistest.Config{Password: password, Directives: []string{"cluster-node-timeout 2000"}}
	for _, s := range redistest.Form(t, config, redisnode.TLS{}, 3, 3) {
		servers = append(servers, server{s, dial(t, s.IP, s.Port, s.Password)})
	}
	return servers
}

func TestCluster(t *testing.T) {
	servers := form(t)
	for _, step := range []struct {
		name string
		test func(*testing.T, []server)
	}{
		{"commands that a node refuses", testRefusals},
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
		"add its own slot":           {servers[0].AddSlots(ctx, redisnode.NewSlots(7)), "CLUSTER ADDSLOTSRANGE: ERR Slot 7 is already busy"},
		"add a slot of another node": {servers[1].AddSlots(ctx, redisnode.NewSlots(7)), "CLUSTER ADDSLOTSRANGE: ERR Slot 7 is already busy"},
		"add no slots":               {servers[1].AddSlots(ctx, nil), ""},
		"forget itself":              {servers[0].Forget(ctx, own.ID), "CLUSTER FORGET: ERR I tried hard but I can't forget myself..."},
		"forget an unknown node":     {servers[0].Forget(ctx, strings.Repeat("0", 40)), ""},
		"replicate an unknown node":  {servers[3].Replicate(ctx, strings.Repeat("0", 40)), "CLUSTER REPLICATE: ERR Unknown node"},
		"replicate with slots":       {servers[1].Replicate(ctx, own.ID), "CLUSTER REPLICATE: ERR To set a master the node must be empty"},
		"a failover by a master": {
			servers[0].Failover(ctx, redisnode.Graceful), "CLUSTER FAILOVER: ERR You should send CLUSTER FAILOVER to a replica",
		},
		"import its own slot": {
			servers[0].SetSlots(ctx, redisnode.SlotRange(6, 8), redisnode.SlotImporting, own.ID),
			"CLUSTER SETSLOT: ERR I'm already the owner of hash slot 6",
		},
		"set no slots": {servers[0].SetSlots(ctx, nil, redisnode.SlotImporting, own.ID), ""},
		"migrate no keys": {
			servers[0].Migrate(ctx, servers[1].IP, servers[1].Port, redisnode.Login{Password: password}, time.Second, nil), "",
		},
		"meet a name that is no IP": {servers[0].Meet(ctx, "nowhere", 1, 2), "CLUSTER MEET: ERR Invalid node address specified"},
	} {
		t.Run(name, func(t *testing.T) {
			if (test.err == nil) != (test.want == "") || (test.err != nil && !strings.Contains(test.err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", test.err, test.want)
			}
		})
	}
}

// fill writes one key into each of up to 200 slots of the server, and returns the keys by slot.
func (s server) fill(t *testing.T) map[int]string {
	t.Helper()
	client, slots, filled := s.client(t), myself(t, s.view(t)).Slots, map[int]string{}
	for i := range 200 {
		key := fmt.Sprintf("key-%d", i)
		slot, err := client.ClusterKeySlot(t.Context(), key).Result()
		check(t, err)
		if slots.Has(int(slot)) && filled[int(slot)] == "" {
			check(t, client.Set(t.Context(), key, "value of "+key, 0).Err())
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
	check(t, to.SetSlots(ctx, slots, redisnode.SlotImporting, fromID))
	check(t, from.SetSlots(ctx, slots, redisnode.SlotMigrating, toID))
	if open := myself(t, from.view(t)); len(open.Migrating) != 22 || open.Importing != nil {
		t.Errorf("the open slots of the source: %+v", open)
	}
	if open := myself(t, to.view(t)); len(open.Importing) != 22 || open.Migrating != nil {
		t.Errorf("the open slots of the target: %+v", open)
	}
	found, err := from.Keys(ctx, slots, 10)
	check(t, err)
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
	for range 2 { // The second time, the keys are gone from the source: this is no error.
		for _, keys := range found {
			check(t, from.Migrate(ctx, to.IP, to.Port, redisnode.Login{Password: password}, time.Second, keys))
		}
	}
	if found, err = from.Keys(ctx, slots, 10); err != nil || len(found) != 0 {
		t.Errorf("the source still has the keys %v, error %v", found, err)
	}
	for _, s := range []server{to, from, servers[2]} {
		check(t, s.SetSlots(ctx, slots, redisnode.SlotNode, toID))
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
	check(t, from.SetSlots(ctx, redisnode.NewSlots(2000), redisnode.SlotMigrating, toID))
	check(t, from.SetSlots(ctx, redisnode.NewSlots(2000), redisnode.SlotStable, ""))
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
	check(t, replica.Failover(t.Context(), redisnode.Graceful))
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
	check(t, replica.Failover(t.Context(), redisnode.Takeover))
	await(t, "the replica is master", []server{replica}, func(view *redisnode.View) bool { return view.Master })
	others := slices.Delete(slices.Clone(servers), 1, 2)
	await(t, "the nodes agree that the master failed", others, func(view *redisnode.View) bool {
		return slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool { return e.ID == gone && e.Failed && !e.Connected })
	})
	for _, s := range others {
		check(t, s.Forget(t.Context(), gone))
		check(t, s.Forget(t.Context(), gone))
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
		t.Run(name, func(t *testing.T) {
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
						check(t, err)
					} else if !errors.Is(err, redisnode.ErrPassword) || err.Error() != command+": "+test.want {
						t.Errorf("got error %v, want %s: %s", err, command, test.want)
					}
				}
			}
		})
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
	s := start(t, redistest.Config{})
	check(t, s.AddSlots(t.Context(), redisnode.SlotRange(0, redisnode.SlotCount)))
	await(t, "the node takes requests", []server{s}, func(view *redisnode.View) bool { return view.StateOK })
	_, err := s.client(t).Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range keys {
			p.Set(t.Context(), strconv.Itoa(i), i, 0)
		}
		return nil
	})
	check(t, err)
	was := s.view(t)
	s.Stop()
	// While Redis loads commands, it sleeps after each of them, and answers clients after every 1024th. It loads for nine seconds, unless the
	// test sets the delay to 0.
	s = start(t, redistest.Config{Dir: s.Dir, Directives: []string{"key-load-delay 300"}})
	view := s.view(t)
	if !view.Loading || view.Version != was.Version || view.ID != "" || view.Table != nil {
		t.Errorf("the view while the node loads is %+v", view)
	}
	check(t, s.client(t).ConfigSet(t.Context(), "key-load-delay", "0").Err())
	await(t, "the node has loaded its data", []server{s},
		func(view *redisnode.View) bool { return !view.Loading && view.Keys == keys && view.ID == was.ID })
	if own := myself(t, s.view(t)); own.IP != s.IP || own.Slots.Len() != redisnode.SlotCount {
		t.Errorf("after a restart with another IP, the node's own entry is %+v", own)
	}
}

func TestWriteError(t *testing.T) {
	s := start(t, redistest.Config{FileLimit: 256 << 10})
	check(t, s.AddSlots(t.Context(), redisnode.SlotRange(0, redisnode.SlotCount)))
	await(t, "the node takes requests, and writes them to its disk", []server{s},
		func(view *redisnode.View) bool { return view.StateOK && view.WriteError == "" })
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
	check(t, client.Set(t.Context(), "after", value, 0).Err())
}

func TestServerThatIsGone(t *testing.T) {
	s := start(t, redistest.Config{})
	id := s.view(t).ID
	s.Kill()
	for range 3 {
		began := time.Now()
		_, err := s.View(t.Context())
		if err == nil || time.Since(began) > 2*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		if want := "CLUSTER MYID: dial tcp " + s.Address() + ": connect: connection refused"; err.Error() != want {
			t.Errorf("got error %q, want %q", err, want)
		}
	}
	redistest.Start(t, redistest.Config{Dir: s.Dir, IP: s.IP})
	// Redis listens before it has loaded its data. Until then, the View has no ID.
	await(t, "the node has its old ID", []server{s}, func(view *redisnode.View) bool { return view.ID == id })
}

func TestServerThatRestartedBetweenRequests(t *testing.T) {
	s := start(t, redistest.Config{})
	s.view(t)
	s.Stop()
	redistest.Start(t, redistest.Config{Dir: s.Dir, IP: s.IP})
	s.view(t)
}

func TestContext(t *testing.T) {
	s := start(t, redistest.Config{})
	s.view(t)
	s.Signal(syscall.SIGSTOP)
	unconnected := dial(t, s.IP, s.Port, "")
	for name, node := range map[string]*redisnode.Node{"connected": s.Node, "not connected": unconnected} {
		for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
			t.Run(name+", "+want.Error(), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if want == context.Canceled { //nolint:errorlint // The list has exactly this error.
					ctx, cancel = context.WithCancel(t.Context())
					defer time.AfterFunc(200*time.Millisecond, cancel).Stop()
				}
				// The second request waits for its turn, since the first one does not return before its context ends.
				var waiting sync.WaitGroup
				for range 2 {
					waiting.Go(func() {
						began := time.Now()
						if _, err := node.View(ctx); !errors.Is(err, want) || time.Since(began) > time.Second {
							t.Errorf("got %v after %s", err, time.Since(began))
						}
					})
				}
				waiting.Wait()
			})
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Forget(done, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a request with a canceled context returned the error %v", err)
	}
	s.Signal(syscall.SIGCONT)
	s.view(t)
	_, err := unconnected.View(t.Context())
	check(t, err)
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	s := start(t, redistest.Config{})
	s.view(t)
	s.Signal(syscall.SIGSTOP)
	began := time.Now()
	if _, err := s.View(t.Context()); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("got error %v after %s", err, time.Since(began))
	}
	s.Signal(syscall.SIGCONT)
	s.view(t)
}

// TestARedisThatIsTooOld reads a server that answers as Redis 6.2 does: INFO accepts only one section.
func TestARedisThatIsTooOld(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	defer listener.Close()
	serving.Go(func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		defer client.Close()
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
	node := dial(t, "127.0.0.1", listener.Addr().(*net.TCPAddr).Port, "")
	if _, err := node.View(t.Context()); err == nil || !strings.Contains(err.Error(), "INFO: this Redis is older than 7.0") {
		t.Errorf("got error %v", err)
	}
	node.Close() // This ends the server.
}

// TestAddressThatDoesNotAnswer: the IP of a deleted Pod does not answer. The test uses a port with a full queue of connections, which
// does not answer either.
func TestAddressThatDoesNotAnswer(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(fd)
	check(t, errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)))
	bound, err := syscall.Getsockname(fd)
	check(t, err)
	port := bound.(*syscall.SockaddrInet4).Port
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for range 20 {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err == nil {
			defer conn.Close()
			continue
		}
		node := dial(t, "127.0.0.1", port, "")
		for range 2 {
			began := time.Now()
			_, err = node.View(t.Context())
			if took := time.Since(began); err == nil || err.Error() != "CLUSTER MYID: dial tcp "+address+": i/o timeout" || took > 2*time.Second {
				t.Errorf("got error %v after %s", err, took)
			}
		}
		return
	}
	t.Skip("SKIPPED: this system queues every connection, so that every address answers")
}

// TestMigrateWaitsForItsTimeout: the node waits for the target until the timeout, and Migrate waits for the node.
func TestMigrateWaitsForItsTimeout(t *testing.T) {
	const timeout = 4 * time.Second // longer than the connection waits for other answers
	from, to := start(t, redistest.Config{}), start(t, redistest.Config{})
	check(t, from.AddSlots(t.Context(), redisnode.SlotRange(0, redisnode.SlotCount)))
	await(t, "the node takes requests", []server{from}, func(view *redisnode.View) bool { return view.StateOK })
	check(t, from.client(t).Set(t.Context(), "key", "value", 0).Err())
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
	began := time.Now()
	if _, err := s.View(t.Context()); err == nil || time.Since(began) > time.Second {
		t.Errorf("the running request returned the error %v after %s", err, time.Since(began))
	}
	s.Signal(syscall.SIGCONT)
	if err := s.Forget(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a later request returned the error %v", err)
	}
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
	check(t, s.Meet(t.Context(), "::1", port+1, port+1+redistest.BusOffset))
	if view := s.view(t); len(view.Table) != 2 || !slices.ContainsFunc(view.Table,
		func(e redisnode.Entry) bool { return e.Handshake && e.IP == "::1" && e.Port == port+1 }) {
		t.Errorf("after CLUSTER MEET, the view is %+v", view)
	}
}

func TestOneConnection(t *testing.T) {
	s := start(t, redistest.Config{})
	var views sync.WaitGroup
	for range 8 {
		views.Go(func() {
			for range 20 {
				if _, err := s.View(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	views.Wait()
	stats, err := s.client(t).Info(t.Context(), "stats").Result()
	// The other two connections are those of waitListening and of the client that reads INFO.
	if err != nil || !strings.Contains(stats, "total_connections_received:3\r\n") {
		t.Errorf("the node did not use exactly one connection: error %v, %s", err, stats)
	}
}

// TestNoGoroutines: an idle connection has no goroutine.
func TestNoGoroutines(t *testing.T) {
	s := start(t, redistest.Config{})
	s.view(t)
	before := runtime.NumGoroutine()
	for range 20 {
		node := redisnode.Dial(s.IP, s.Port, redisnode.Login{})
		if _, err := node.View(t.Context()); err != nil {
			t.Error(err)
		}
		gone := redisnode.Dial(s.IP, 1, redisnode.Login{})
		if _, err := gone.View(t.Context()); err == nil {
			t.Error("a port without a server answered")
		}
		defer node.Close()
		defer gone.Close()
	}
	for deadline := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before the requests:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestWire: HELLO is the only command that go-redis adds to those of the node.
func TestWire(t *testing.T) {
	for name, password := range map[string]string{"with a password": password, "without a password": ""} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, redistest.Config{Password: password})
			port, sent := record(t, s.Address())
			node := dial(t, "127.0.0.1", port, password)
			var want []string
			for i := range 2 {
				if _, err := node.View(t.Context()); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					want = append(want, "hello 2")
				}
				if i == 0 && password != "" {
					want = append(want, "auth "+password)
				}
				want = append(want, "CLUSTER MYID", "CLUSTER INFO", "CLUSTER NODES",
					"INFO server replication persistence memory clients stats keyspace", "FUNCTION LIST")
				if got := sent(); !slices.Equal(got, want) {
					t.Errorf("sent %q, want %q", got, want)
				}
			}
		})
	}
}

// sentBytes keeps the bytes that a client sent.
type sentBytes struct {
	mu    sync.Mutex
	bytes []byte
}

func (s *sentBytes) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes = append(s.bytes, p...)
	return len(p), nil
}

func (s *sentBytes) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	reader := bufio.NewReader(bytes.NewReader(s.bytes))
	var commands []string
	for command, err := readCommand(reader); err == nil; command, err = readCommand(reader) {
		commands = append(commands, command)
	}
	return commands
}

// record forwards one connection to a server. sent returns the commands so far. record keeps each command before it forwards the command,
// so that sent returns it as soon as its answer arrives.
func record(t *testing.T, address string) (port int, sent func() []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var kept sentBytes
	var copying sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		copying.Wait()
	})
	copying.Go(func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		server, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		copying.Go(func() { _, _ = io.Copy(client, server) })
		_, _ = io.Copy(io.MultiWriter(&kept, server), client)
	})
	return listener.Addr().(*net.TCPAddr).Port, kept.commands
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
