// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glassback/glassback/pkg/backup/rdb"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

const (
	secret  = "correct-horse-battery"
	cluster = "shop/cache"
	id      = "20260131T030000Z"
	library = "#!lua name=lib\nredis.register_function('f', function(keys, args) return 'first' end)"
)

// world is a cluster of redis-servers.
type world struct {
	t       *testing.T
	servers []*redistest.Server
	client  *redis.ClusterClient
	nodes   connection
}

func newWorld(t *testing.T, masters, replicas int) *world {
	t.Helper()
	config := redistest.Config{Password: secret, Directives: []string{"cluster-node-timeout 2000"}}
	return worldOf(t, redistest.Form(t, config, redisnode.TLS{}, masters, replicas), redisnode.Login{Password: secret})
}

func worldOf(t *testing.T, servers []*redistest.Server, login redisnode.Login) *world {
	w := &world{t: t, servers: servers, nodes: connection{addresses: []string{"127.0.0.1:1"}, login: login}}
	for _, s := range servers {
		w.nodes.addresses = append(w.nodes.addresses, s.Address())
	}
	all, err := w.nodes.look(t.Context())
	must.Succeed(t, err)
	w.client = w.nodes.client(all)
	t.Cleanup(func() { w.client.Close() })
	return w
}

// node returns a connection to one server.
func (w *world) node(i int) *redisnode.Node {
	n := redisnode.Dial(w.servers[i].IP, w.servers[i].Port, w.nodes.login)
	w.t.Cleanup(n.Close)
	return n
}

// fill writes keys of all types, and returns how many.
func (w *world) fill() int64 {
	w.t.Helper()
	ctx, p := w.t.Context(), w.client.Pipeline()
	for i := range 300 {
		p.Set(ctx, fmt.Sprint("string ", i), strings.Repeat("value ", i), 0)
		p.RPush(ctx, fmt.Sprint("list ", i%20), i, "element")
		p.SAdd(ctx, fmt.Sprint("set ", i%20), i, i*100_000) // Only a set of integers has an order.
		p.HSet(ctx, fmt.Sprint("hash ", i%20), i, "value")
		p.ZAdd(ctx, fmt.Sprint("sorted ", i%20), redis.Z{Score: float64(i) / 3, Member: i})
		p.XAdd(ctx, &redis.XAddArgs{Stream: fmt.Sprint("stream ", i%20), ID: fmt.Sprint(i+1, "-1"), Values: []any{"field", i}})
	}
	for i := range 20 {
		p.XGroupCreate(ctx, fmt.Sprint("stream ", i), "group", "0")
		p.Set(ctx, fmt.Sprint("expires ", i), i, time.Hour+time.Duration(i)*time.Second)
	}
	p.Set(ctx, "large", strings.Repeat("0123456789abcdef", 500_000), 0)
	_, err := p.Exec(ctx)
	must.Succeed(w.t, err)
	w.load(library)
	return 300 + 5*20 + 20 + 1
}

// load loads a library of functions on each master.
func (w *world) load(code string) {
	w.t.Helper()
	must.Succeed(w.t, w.client.ForEachMaster(w.t.Context(), func(ctx context.Context, c *redis.Client) error {
		return c.FunctionLoad(ctx, code).Err()
	}))
}

// contents returns the payload and the expiry of each key.
func (w *world) contents() map[string]string {
	w.t.Helper()
	all, mu := map[string]string{}, sync.Mutex{}
	must.Succeed(w.t, w.client.ForEachMaster(w.t.Context(), func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, "*").Result()
		if err != nil {
			return err
		}
		p := c.Pipeline()
		for _, key := range keys {
			p.Do(ctx, "PEXPIRETIME", key)
			p.Dump(ctx, key)
		}
		answers, err := p.Exec(ctx)
		mu.Lock()
		defer mu.Unlock()
		for i, key := range keys {
			all[key] = fmt.Sprint(answers[2*i].(*redis.Cmd).Val()) + " " + answers[2*i+1].(*redis.StringCmd).Val()
		}
		return err
	}))
	return all
}

// expect checks that the cluster has exactly these keys, and the library on each master.
func (w *world) expect(want map[string]string) {
	w.t.Helper()
	got := w.contents()
	if len(want) == 0 || !maps.Equal(got, want) {
		missing := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(key string) bool { return got[key] == want[key] })
		w.t.Errorf("the cluster has %d keys, want %d; missing or different are %q", len(got), len(want), missing[:min(10, len(missing))])
	}
	w.expectLibrary(library)
}

// expectLibrary checks that each master has this library, and no other one.
func (w *world) expectLibrary(code string) {
	w.t.Helper()
	must.Succeed(w.t, w.client.ForEachMaster(w.t.Context(), func(ctx context.Context, c *redis.Client) error {
		list, err := c.FunctionList(ctx, redis.FunctionListQuery{WithCode: true}).Result()
		if err == nil && (len(list) != 1 || list[0].Code != code) {
			w.t.Errorf("a master has the functions %+v", list)
		}
		return err
	}))
}

// flush deletes all keys and functions.
func (w *world) flush() {
	w.t.Helper()
	must.Succeed(w.t, w.client.ForEachMaster(w.t.Context(), func(ctx context.Context, c *redis.Client) error {
		return errors.Join(c.FlushAll(ctx).Err(), c.FunctionFlush(ctx).Err())
	}))
}

// program returns a command line for this cluster and a store.
func (w *world) program(store ...string) program {
	file := filepath.Join(w.t.TempDir(), "password")
	must.Succeed(w.t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	args := append([]string{"--cluster", cluster, "--id", id, "--password-file", file}, store...)
	for _, address := range w.nodes.addresses {
		args = append(args, "--address", address)
	}
	return program{w.t, args}
}

// log collects lines, and calls a function after each.
type log struct {
	mu    sync.Mutex
	lines []string
	after func(line string)
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	line := fmt.Sprintf(format, args...)
	l.lines = append(l.lines, line)
	after := l.after
	l.mu.Unlock()
	if after != nil {
		after(line)
	}
}

func (l *log) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, text) })
}

// after returns a log that calls a function after each line that begins so.
func after(beginning string, f func()) *log {
	return &log{after: func(line string) {
		if strings.HasPrefix(line, beginning) {
			f()
		}
	}}
}

var quick = patience{limit: 5 * time.Minute, pause: 50 * time.Millisecond}

func (w *world) backup(s store, l *log) *backup {
	return &backup{cluster: cluster, id: id, retention: 2, nodes: w.nodes, store: s, run: newRun(""), patience: quick, log: l.add}
}

func (w *world) restore(s store, l *log) *restore {
	return &restore{cluster: cluster, id: Latest, nodes: w.nodes, store: s, patience: quick, log: l.add}
}

// TestBackupAndRestore saves a cluster, to a directory and to S3, and restores it to clusters of other sizes, and to itself during a
// failover.
func TestBackupAndRestore(t *testing.T) {
	redistest.Binary(t)
	t.Parallel()
	source := newWorld(t, 3, 3)
	keys := source.fill()
	want := source.contents()
	credentials, directory := credentialsOf(t, "the-key-id", "the-secret-key"), t.TempDir()
	stores := [][]string{
		{"--directory", directory},
		{"--s3-endpoint", startS3(t), "--s3-bucket", "backups", "--s3-prefix", "redis", "--s3-region", "eu", "--s3-credentials", credentials},
	}
	for _, store := range stores {
		got := source.program(store...).succeed(false)
		if want := (Result{ID: id, Keys: keys, Expiring: 20, Functions: 1, Shards: 3, Bytes: got.Bytes}); got != want || got.Bytes == 0 {
			t.Errorf("the result is %+v", got)
		}
		if again := source.program(store...).succeed(false); again != got {
			t.Errorf("the second result is %+v, the first was %+v", again, got)
		}
	}
	d, err := openDirectory(directory)
	must.Succeed(t, err)
	m, err := readManifest(t.Context(), d, cluster, id)
	must.Succeed(t, err)
	for i, s := range m.Shards {
		prefix := fmt.Sprintf("shard-%d-", i*redisnode.SlotCount/3)
		if s.Role != "replica" || s.Address != source.servers[3+i].Address() || !strings.HasPrefix(s.File, prefix) {
			t.Errorf("shard %d is %+v", i, s)
		}
	}
	view, err := source.node(0).View(t.Context())
	must.Succeed(t, err)
	if m.RedisVersion != view.Version || len(m.Functions) != 1 || m.Functions[0] != functionOf(library) {
		t.Errorf("the manifest is %+v", m)
	}

	target := newWorld(t, 2, 0)
	for _, store := range stores {
		target.flush()
		for _, skipped := range []int64{0, keys} {
			got := target.program(store...).succeed(true)
			if got.Keys != keys || *got.Skipped != skipped || *got.Expired != 0 || got.Warning != "" {
				t.Errorf("the result is %+v, skipped %d, expired %d, want %d and 0", got, *got.Skipped, *got.Expired, skipped)
			}
			target.expect(want)
		}
	}
	t.Run("what exists is kept", func(t *testing.T) { testKeeps(t, target, d) })
	t.Run("a payload that the cluster refuses", func(t *testing.T) { testRefused(t, target) })
	t.Run("a restore that is killed", func(t *testing.T) { testRestoreIsKilled(t, target, d, want) })
	t.Run("a failover during a restore", func(t *testing.T) { testFailover(t, source, d, want) })
}

func testKeeps(t *testing.T, target *world, s store) {
	ctx := t.Context()
	target.flush()
	must.Succeed(t, target.client.Set(ctx, "string 7", "newer", 0).Err())
	other := strings.Replace(library, "first", "other", 1)
	target.load(other)
	result, err := target.restore(s, &log{}).run(ctx)
	must.Succeed(t, err)
	if *result.Skipped != 1 || result.Warning != "these libraries of functions exist with other code and were not restored: lib" {
		t.Errorf("the result is %+v, skipped %d", result, *result.Skipped)
	}
	if value := target.client.Get(ctx, "string 7").Val(); value != "newer" {
		t.Errorf("the key has the value %q", value)
	}
	target.expectLibrary(other)
}

func testRefused(t *testing.T, target *world) {
	s := &sender{ctx: t.Context(), client: target.client, patience: quick, slots: allSlots, source: "9.9.9", target: "7.0.0"}
	must.Succeed(t, s.add(&rdb.Record{Key: "refused", Payload: []byte("no payload"), Idle: -1, Frequency: -1}))
	err := s.flush()
	if err == nil || !strings.Contains(err.Error(), "(the backup is of Redis 9.9.9, and the cluster runs Redis 7.0.0)") {
		t.Errorf("error %v", err)
	}
}

// testRestoreIsKilled ends a restore after its first shard, and runs it again.
func testRestoreIsKilled(t *testing.T, target *world, s store, want map[string]string) {
	target.flush()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := target.restore(s, after("slots 0-", cancel)).run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the killed restore: error %v", err)
	}
	result, err := target.restore(s, &log{}).run(t.Context())
	must.Succeed(t, err)
	if *result.Skipped == 0 || *result.Skipped >= int64(len(want)) {
		t.Errorf("the second restore has skipped %d keys", *result.Skipped)
	}
	target.expect(want)
}

// testFailover lets a replica take over after the second shard, at once and so with the loss of writes. A client has deleted a key of
// another shard, and it stays deleted.
func testFailover(t *testing.T, w *world, s store, want map[string]string) {
	w.flush()
	const deleted = "string 8" // of slot 8204, in the second shard
	want = maps.Clone(want)
	delete(want, deleted)
	once := sync.OnceFunc(func() {
		if n, err := w.client.Del(t.Context(), deleted).Result(); n != 1 || err != nil {
			t.Errorf("deleted %d keys, error %v", n, err)
		}
		w.servers[0].Kill()
		must.Succeed(t, w.node(3).Failover(t.Context(), redisnode.Takeover))
	})
	l := after("slots 5461-", once)
	result, err := w.restore(s, l).run(t.Context())
	must.Succeed(t, err)
	if !l.has("masters have changed: the keys of slots 0-5460 are sent again") || *result.Skipped != 0 {
		t.Errorf("the log is %q, and %d keys are skipped", l.lines, *result.Skipped)
	}
	w.expect(want)
}

// TestEvictedKeysFailARestore restores more than a cluster can hold.
func TestEvictedKeysFailARestore(t *testing.T) {
	redistest.Binary(t)
	t.Parallel()
	config := redistest.Config{Password: secret, Directives: []string{"maxmemory 100mb", "maxmemory-policy allkeys-lru"}}
	w := worldOf(t, redistest.Form(t, config, redisnode.TLS{}, 1, 0), redisnode.Login{Password: secret})
	s := newDirectory(t)
	for i := range 20 {
		must.Succeed(t, w.client.Set(t.Context(), fmt.Sprint("key ", i), randomText(1<<20), 0).Err())
	}
	_, err := w.backup(s, &log{}).make(t.Context())
	must.Succeed(t, err)
	w.flush()
	if _, err := w.restore(s, &log{}).run(t.Context()); err != nil {
		t.Errorf("what fits: error %v", err)
	}
	w.flush()
	must.Succeed(t, w.client.ConfigSet(t.Context(), "maxmemory", "16mb").Err())
	if _, err := w.restore(s, &log{}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "the cluster has evicted ") {
		t.Errorf("what does not fit: error %v", err)
	}
}

// randomText returns text that is not compressed.
func randomText(size int) string {
	text := make([]byte, size)
	_, _ = rand.Read(text) // It never fails.
	return string(text)
}

// startTurns returns an address at which the nodes answer in turn, one for each connection: like a name in the DNS with the IPs of all.
func startTurns(t *testing.T, nodes ...*redistest.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for turn := 0; ; turn++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", nodes[turn%len(nodes)].Address())
			if err != nil {
				t.Error(err)
				return
			}
			for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
				running.Go(func() {
					_, _ = io.Copy(ends[0], ends[1]) // It fails when one end is closed.
					_, _ = ends[0].Close(), ends[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		must.Succeed(t, listener.Close())
		running.Wait()
	})
	return listener.Addr().String()
}

// TestANameOfSeveralNodes makes backups with an address that is a node of another shard each time. That shard has no keys, and so its file
// is valid for any slots.
func TestANameOfSeveralNodes(t *testing.T) {
	redistest.Binary(t)
	t.Parallel()
	w := newWorld(t, 2, 2)
	must.Succeed(t, w.client.Set(t.Context(), "foo", "bar", 0).Err()) // Slot 12182 is of the second shard.
	w.nodes.addresses = []string{startTurns(t, w.servers[3], w.servers[0])}
	result, err := w.backup(newDirectory(t), &log{}).make(t.Context())
	must.Succeed(t, err)
	if result.Keys != 1 {
		t.Errorf("the backup has %d keys, want 1", result.Keys)
	}
}

// TestARestoreReachesOneCluster restores with the addresses of a cluster and, as if its Pods had other IPs now, of another one.
func TestARestoreReachesOneCluster(t *testing.T) {
	redistest.Binary(t)
	t.Parallel()
	w, other := newWorld(t, 1, 0), newWorld(t, 1, 0)
	w.nodes.addresses = append(w.nodes.addresses, slices.Repeat(other.nodes.addresses, 20)...)
	s := newDirectory(t)
	save(t, s, func(*Manifest) {})
	_, err := w.restore(s, &log{}).run(t.Context())
	must.Succeed(t, err)
	if mine, others := w.contents(), other.contents(); len(mine) != 1 || len(others) != 0 {
		t.Errorf("the cluster has %d keys, and the other one %d", len(mine), len(others))
	}
}

// TestBackupOfAClusterThatChanges begins with an open slot, and changes two shards after all three are saved: only these are saved again.
func TestBackupOfAClusterThatChanges(t *testing.T) {
	redistest.Binary(t)
	t.Parallel()
	w := newWorld(t, 3, 1)
	keys := w.fill()
	s := newDirectory(t)
	view, err := w.node(1).View(t.Context())
	must.Succeed(t, err)
	slot := redisnode.NewSlots(5)
	must.Succeed(t, w.node(0).SetSlots(t.Context(), slot, redisnode.SlotMigrating, view.ID))

	b := w.backup(s, &log{})
	b.patience.limit = 0
	if _, err := b.make(t.Context()); err == nil || !strings.Contains(err.Error(), "slots 5 are being moved") {
		t.Errorf("with an open slot: error %v", err)
	}
	if names, err := s.list(t.Context(), cluster); err != nil || len(names) > 0 {
		t.Errorf("the store has %q, error %v", names, err)
	}

	must.Succeed(t, w.node(0).SetSlots(t.Context(), slot, redisnode.SlotStable, ""))
	once := sync.OnceFunc(func() { // Slot 0 moves, with its keys: there are none.
		must.Succeed(t, w.node(1).SetSlots(t.Context(), redisnode.NewSlots(0), redisnode.SlotNode, view.ID))
		must.Succeed(t, w.node(0).SetSlots(t.Context(), redisnode.NewSlots(0), redisnode.SlotNode, view.ID))
	})
	l := after("slots 109", once) // the third shard
	result, err := w.backup(s, l).make(t.Context())
	must.Succeed(t, err)
	m, err := readManifest(t.Context(), s, cluster, id)
	must.Succeed(t, err)
	third := len(slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.HasPrefix(line, "slots 109") }))
	if !l.has("2 shards are saved again") || third != 1 || result.Keys != keys || !strings.HasPrefix(m.Shards[0].Slots, "0,54") ||
		m.Shards[0].Role != "master" || m.Shards[1].Slots != "1-5460" || m.Shards[1].Role != "replica" {
		t.Errorf("the result is %+v, the manifest %+v, the log %q", result, m, l.lines)
	}
	names, err := s.list(t.Context(), cluster)
	if err != nil || len(names) != 4 {
		t.Errorf("the store has %q, error %v", names, err)
	}
	t.Run("nodes that cannot send the shard", func(t *testing.T) { testSources(t, w) })
	t.Run("a backup that is killed", func(t *testing.T) { testBackupIsKilled(t, w, s, keys) })
	t.Run("two runs of a backup", func(t *testing.T) { testTwoRuns(t, w, keys) })
}

// testSources saves a shard whose first replica is gone, whose second one is of another shard, and whose third one has other keys.
func testSources(t *testing.T, w *world) {
	ctx := t.Context()
	top, err := w.nodes.look(ctx)
	must.Succeed(t, err)
	mine, other := top.shards[1], top.shards[0]
	gone := mine.replicas[0]
	gone.entry.Port = 1
	l, s := &log{}, newDirectory(t)
	b := w.backup(s, l)
	shard := mine
	shard.replicas = []node{gone, other.master}
	for i, n := range []*node{&shard.master, &shard.replicas[1], &shard.replicas[0]} { // Each has more writes than the one before.
		view := *n.view
		view.Offset = int64(i)
		n.view = &view
	}
	file, err := b.saveShard(ctx, shard)
	if err != nil || file.entry.Role != "master" || file.entry.Address != mine.master.address() || !l.has("connect: ") ||
		!l.has("it has a key of slot ") {
		t.Errorf("the file is %+v, error %v, the log %q", file, err, l.lines)
	}
	if names, err := s.list(ctx, cluster); err != nil || len(names) != 1 {
		t.Errorf("the store has %q, error %v", names, err)
	}
	shard.replicas = []node{gone} // It comes back.
	b.replicaWait = time.Minute
	if file, err = b.saveShard(ctx, shard); err != nil || file.entry.Role != "replica" {
		t.Errorf("the file is %+v, error %v", file, err)
	}
	if err := b.confirm(ctx, other, mine.replicas[0]); err == nil || !strings.Contains(err.Error(), "it has become a node of another shard") {
		t.Errorf("a replica of another shard is confirmed: error %v", err)
	}
	shard.replicas, shard.slots = nil, redisnode.NewSlots(1)
	if _, err := b.saveShard(ctx, shard); !errors.Is(err, errChanged) {
		t.Errorf("of a master with keys of other slots: error %v", err)
	}
}

// testBackupIsKilled ends a backup after its first shard, and runs it again.
func testBackupIsKilled(t *testing.T, w *world, s store, keys int64) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := w.backup(s, &log{after: func(string) { cancel() }})
	b.id = "20260201T030000Z"
	if _, err := b.make(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the killed backup: error %v", err)
	}
	if names, err := s.list(t.Context(), cluster+"/"+b.id); err != nil || len(names) > 0 {
		t.Errorf("a backup that was ended has left %q, error %v", names, err)
	}
	leaveBehind(t, s, cluster+"/"+b.id+"/shard-9-e3b0c44200000000.rdb")
	again := w.backup(s, &log{})
	again.id = b.id
	result, err := again.make(t.Context())
	if err != nil || result.Keys != keys {
		t.Errorf("the second run: %+v, error %v", result, err)
	}
	next := w.backup(s, &log{})
	next.id, next.retention = "20260202T030000Z", 2
	_, err = next.make(t.Context())
	must.Succeed(t, err)
	names, err := s.list(t.Context(), cluster)
	partial, failed := s.partial(t.Context(), cluster)
	if err := errors.Join(err, failed); err != nil || len(names) != 8 || len(partial) > 0 || !strings.Contains(names[0], b.id) {
		t.Errorf("the store has %q and %q, error %v", names, partial, err)
	}
}

// testTwoRuns lets a run of a backup end while another one has saved its shards.
func testTwoRuns(t *testing.T, w *world, keys int64) {
	s := newDirectory(t)
	fast := w.backup(s, &log{})
	once := sync.OnceFunc(func() {
		_, err := fast.make(t.Context())
		must.Succeed(t, err)
	})
	slow := w.backup(s, after("slots 0", once))
	result, err := slow.make(t.Context())
	if err != nil || result.Keys != keys {
		t.Fatalf("the slow run: %+v, error %v", result, err)
	}
	m, err := readManifest(t.Context(), s, cluster, id)
	must.Succeed(t, err)
	for _, shard := range m.Shards {
		if _, err := w.restore(s, &log{}).read(t.Context(), m, shard, nil); err != nil || !strings.Contains(shard.File, fast.run) {
			t.Errorf("the manifest has %s, error %v", shard.File, err)
		}
	}
	if names, err := s.list(t.Context(), cluster); err != nil || len(names) != len(m.Shards)+1 {
		t.Errorf("the store has %q, error %v", names, err)
	}
	stranger := w.backup(s, &log{})
	stranger.owner = "7f0c5a3e"
	if _, err := stranger.make(t.Context()); err == nil || !strings.Contains(err.Error(), `its owner is "", and not "7f0c5a3e"`) {
		t.Errorf("a backup of another owner: error %v", err)
	}
	file := cluster + "/" + id + "/" + m.Shards[0].File
	must.Succeed(t, s.remove(t.Context(), cluster+"/"+id+"/"+manifestFile))
	must.Succeed(t, s.put(t.Context(), file, strings.NewReader("short")))
	if _, err := fast.finish(t.Context(), m); err == nil || !strings.HasSuffix(err.Error(), " bytes, and has 5") {
		t.Errorf("with a file of another size: error %v", err)
	}
	must.Succeed(t, s.remove(t.Context(), file))
	if _, err := fast.finish(t.Context(), m); err == nil || !strings.Contains(err.Error(), "was saved, and cannot be found") {
		t.Errorf("with a file that is gone: error %v", err)
	}
}

// TestBackupWithTLS saves and restores a cluster with TLS alone, as a user.
func TestBackupWithTLS(t *testing.T) {
	redistest.Binary(t)
	t.Parallel()
	directory := t.TempDir()
	authority := writeCertificate(t, directory, "cache.shop.svc")
	config := redistest.Config{Password: secret, TLSPort: redistest.DefaultPort, Directives: []string{
		"port 0", fmt.Sprint("tls-port ", redistest.DefaultPort), "tls-cluster yes", "tls-replication yes", "tls-auth-clients no",
		"tls-cert-file " + directory + "/tls.crt", "tls-key-file " + directory + "/tls.key", "tls-ca-cert-file " + authority,
	}}
	text, err := os.ReadFile(authority)
	must.Succeed(t, err)
	trust := redisnode.TLS{Name: "cache.shop.svc", Authorities: string(text)}
	w := worldOf(t, redistest.Form(t, config, trust, 1, 1), redisnode.Login{Password: secret, TLS: trust})
	rules := []string{"reset", "on", "~*", "&*", "+@all", "#" + redisnode.HashPassword(secret+"-too")}
	for i := range w.servers {
		must.Succeed(t, w.node(i).SetUser(t.Context(), "operator", rules))
	}
	password := filepath.Join(directory, "password")
	must.Succeed(t, os.WriteFile(password, []byte(secret+"-too"), 0o600))
	keys := w.fill()
	want := w.contents()
	flags := []string{
		"--directory", directory, "--user", "operator", "--password-file", password, "--tls-ca", authority, "--tls-server-name", "cache.shop.svc",
	}
	if got := w.program(flags...).succeed(false); got.Keys != keys {
		t.Errorf("the result of the backup is %+v", got)
	}
	w.flush()
	if got := w.program(flags...).succeed(true); got.Keys != keys || *got.Skipped != 0 {
		t.Errorf("the result of the restore is %+v", got)
	}
	w.expect(want)
	for flag, want := range map[string]error{
		"--tls-server-name=other.shop.svc": redisnode.ErrCertificate, "--user=default": redisnode.ErrPassword,
	} {
		code, result, output := w.program(flags...).run(true, flag)
		if code != command.Failed || !strings.Contains(result, want.Error()) || strings.Contains(output+result, secret) {
			t.Errorf("%s: exit code %d, %q", flag, code, output)
		}
	}
}

// writeCertificate writes tls.crt and tls.key into a directory. The certificate has signed itself, and so is its own CA. It returns the
// file of the certificate.
func writeCertificate(t *testing.T, directory, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must.Succeed(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must.Succeed(t, err)
	file := filepath.Join(directory, "tls.crt")
	must.Succeed(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	must.Succeed(t, os.WriteFile(filepath.Join(directory, "tls.key"), text, 0o600))
	return file
}
