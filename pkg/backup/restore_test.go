// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glassback/glassback/pkg/backup/rdb"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// oneKey is an RDB file with the key foo, without a checksum.
const oneKey = "REDIS0010\xfe\x00\x00\x03foo\x03bar\xff\x00\x00\x00\x00\x00\x00\x00\x00"

// save writes a backup with one key.
func save(t *testing.T, s store, alter func(*Manifest)) {
	t.Helper()
	sum := sha256.Sum256([]byte(oneKey))
	m := &Manifest{Schema: schema, Cluster: cluster, ID: id, Functions: []Function{}, RedisVersion: "7.0.15", Shards: []Shard{{
		Slots: "0-16383", File: "shard-0-e3b0c44200000000.rdb", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(oneKey)), Keys: 1,
	}}}
	alter(m)
	text, err := json.Marshal(m)
	must.Succeed(t, err)
	must.Succeed(t, s.put(t.Context(), cluster+"/"+id+"/shard-0-e3b0c44200000000.rdb", strings.NewReader(oneKey)))
	must.Succeed(t, s.put(t.Context(), cluster+"/"+id+"/"+manifestFile, bytes.NewReader(text)))
}

// TestADamagedBackupRestoresNothing: the command does not even connect to a node.
func TestADamagedBackupRestoresNothing(t *testing.T) {
	const noNode = "no node of the cluster answers"
	file := cluster + "/" + id + "/shard-0-e3b0c44200000000.rdb"
	for name, test := range map[string]struct {
		manifest func(*Manifest)
		file     string // "-" for no file
		want     string
	}{
		"nothing is damaged":         {func(*Manifest) {}, oneKey, noNode},
		"no file":                    {func(*Manifest) {}, "-", "no such file"},
		"an empty file":              {func(*Manifest) {}, "", "ends too early"},
		"a file that is too short":   {func(*Manifest) {}, oneKey[:len(oneKey)-1], "ends too early"},
		"another value":              {func(*Manifest) {}, strings.Replace(oneKey, "bar", "baz", 1), "with the SHA-256"},
		"another sum":                {func(m *Manifest) { m.Shards[0].SHA256 = "0" }, oneKey, "with the SHA-256"},
		"another number of keys":     {func(m *Manifest) { m.Shards[0].Keys = 2 }, oneKey, "with the SHA-256"},
		"a manifest of another form": {func(m *Manifest) { m.Schema = "v2" }, oneKey, "is damaged"},
	} {
		d := newDirectory(t)
		save(t, d, test.manifest)
		if must.Succeed(t, d.remove(t.Context(), file)); test.file != "-" {
			must.Succeed(t, d.put(t.Context(), file, strings.NewReader(test.file)))
		}
		r := &restore{cluster: cluster, id: Latest, nodes: connection{addresses: []string{"127.0.0.1:1"}}, store: d, log: (&log{}).add}
		_, err := r.run(t.Context())
		namesFile := err != nil && strings.Contains(err.Error(), cluster+"/"+id+"/")
		if err == nil || !strings.Contains(err.Error(), test.want) || namesFile == (test.want == noNode) {
			t.Errorf("%s: error %v, want %q, and the name of the file", name, err, test.want)
		}
	}
}

// A restore that chooses reads no file but the manifest, and reaches no node.
func TestChoose(t *testing.T) {
	d := newDirectory(t)
	save(t, d, func(m *Manifest) { m.Shards[0].Keys = 7 })
	must.Succeed(t, d.remove(t.Context(), cluster+"/"+id+"/shard-0-e3b0c44200000000.rdb"))
	r := &restore{cluster: cluster, id: Latest, choose: true, store: d, log: (&log{}).add}
	result, err := r.run(t.Context())
	if err != nil || result.ID != id || result.Keys != 7 {
		t.Errorf("chose %+v, error %v", result, err)
	}
}

// TestRepliesToARestore has a server announce a string of the size that ends the process.
func TestRepliesToARestore(t *testing.T) {
	port := must.Listen(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, strings.Repeat("$9223372036854775807\r\n", 4))
		_, _ = io.Copy(io.Discard, conn) // Until the client hangs up.
	})
	client := connection{}.client(&topology{shards: []shard{{master: node{entry: redisnode.Entry{IP: "127.0.0.1", Port: port}}}}})
	defer client.Close()
	if err := client.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("error %v", err)
	}
}

// TestRetryAsksForSlots fails batches: the client asks anew which node has which slots only if another try may succeed.
func TestRetryAsksForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			asked.Add(1)
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
		}})
		defer client.Close()
		if err := retry(t.Context(), client, nil); err != nil {
			t.Error(err)
		}
		if err := retry(t.Context(), client, answer("WRONGTYPE")); err == nil || err.Error() != "WRONGTYPE" {
			t.Errorf("error %v", err)
		}
		if synctest.Wait(); asked.Load() > 0 {
			t.Error("it asks for slots though no other try follows")
		}
		if err := retry(t.Context(), client, errNoAnswer); err == nil {
			t.Error("there is no error")
		}
		if synctest.Wait(); asked.Load() == 0 {
			t.Error("it does not ask for slots")
		}
		time.Sleep(time.Second) // The client ends a reload some time after its answer.
	})
}

func TestVerify(t *testing.T) {
	broken := errors.New("broken")
	foo := redisnode.NewSlots(redisnode.KeySlot("foo"))
	for name, test := range map[string]struct {
		in    io.Reader
		slots redisnode.Slots
		want  string
	}{
		"a valid file":         {strings.NewReader(oneKey), foo, ""},
		"byte by byte":         {iotest.OneByteReader(strings.NewReader(oneKey)), allSlots, ""},
		"a key of another one": {strings.NewReader(oneKey), allSlots.Without(foo), "it has a key of slot 12182"},
		"a file that ends":     {strings.NewReader(oneKey[:25]), allSlots, "ends too early"},
		"a reader that fails":  {io.MultiReader(strings.NewReader(oneKey[:20]), iotest.ErrReader(broken)), allSlots, "broken"},
		"a module":             {strings.NewReader("REDIS0010\x07" + strings.Repeat("x", 1<<20)), allSlots, "data of a module"},
	} {
		v := verify(test.in, test.slots, nil)
		file, err := io.ReadAll(v)
		v.stop()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if err == nil && (string(file) != oneKey || v.bytes != int64(len(oneKey)) || v.content.keys != 1) {
			t.Errorf("%s: %d bytes, %+v", name, v.bytes, v.content)
		}
	}
	v := verify(strings.NewReader(oneKey), allSlots, nil)
	v.stop() // A store that has failed reads nothing.
}

// answer is an error answer of a node.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestPassing(t *testing.T) {
	for err, want := range map[error]bool{
		answer("CLUSTERDOWN The cluster is down"): true, answer("TRYAGAIN Multiple keys"): true, answer("READONLY You can't write"): true,
		answer("LOADING Redis is loading"): true, answer("MASTERDOWN Link"): true, io.ErrUnexpectedEOF: true, nil: false,
		answer("OOM command not allowed"): false, answer("ERR DUMP payload version or checksum are wrong"): false,
		answer("NOPERM this user"): false, answer("WRONGPASS invalid"): false, answer("MISCONF Redis is configured"): false,
	} {
		got := passing(err)
		if passes(got) != want || (got == nil) != (err == nil) {
			t.Errorf("%v passes: %t, as %v", err, !want, got)
		}
	}
	if err := passing(answer("ERR unknown command, with args beginning with: secret")); strings.Contains(err.Error(), "secret") {
		t.Errorf("the error has arguments: %v", err)
	}
}

func TestFunctionOf(t *testing.T) {
	for code, want := range map[string]Function{
		"#!lua name=lib\nname=other": {Name: "lib", Engine: "lua"}, "#!LUA  name=lib": {Name: "lib", Engine: "LUA"}, "": {},
	} {
		if got := functionOf(code); got.Name != want.Name || got.Engine != want.Engine || len(got.SHA256) != 64 {
			t.Errorf("%q: %+v", code, got)
		}
	}
}

// TestErrorsHaveNoSecret lets a node, and then a store, answer with what it was sent.
func TestErrorsHaveNoSecret(t *testing.T) {
	o := &settings{secrets: []string{"hunter2", "AKIAEXAMPLE"}, result: filepath.Join(t.TempDir(), "result")}
	exit, _ := errors.AsType[command.Exit](o.failure(errors.New("a node said:\nhunter2, AKIAEXAMPLE, \x1b[2J" + strings.Repeat("é", 2000))))
	text, err := os.ReadFile(o.result)
	must.Succeed(t, err)
	const want = "a node said: [secret], [secret], "
	if exit.Code != command.Failed || !strings.HasPrefix(string(text), want) || strings.Count(string(text), "\n") != 1 || len(text) > 2010 ||
		!strings.HasPrefix(exit.Cause.Error(), want) || strings.Contains(string(text), "\x1b") {
		t.Errorf("exit code %d, result %q, error %v", exit.Code, text, exit.Cause)
	}
	got := o.line(strings.Repeat("é\n", 1000)+"hunter2", 1000)
	if len(got) > 1000 || !strings.HasSuffix(got, "…") || strings.Contains(got, "\n") {
		t.Errorf("a line of %d bytes: %q", len(got), got)
	}
}

func TestExpiredKeysAreNotSent(t *testing.T) {
	s := &sender{slots: allSlots}
	for _, expires := range []int64{1, time.Now().UnixMilli()} {
		must.Succeed(t, s.add(&rdb.Record{Key: "k", Expires: expires}))
	}
	must.Succeed(t, s.add(&rdb.Record{Key: "k"}))
	must.Succeed(t, s.add(&rdb.Record{Key: "k", Expires: time.Now().Add(time.Hour).UnixMilli()}))
	if s.expired != 2 || len(s.batch) != 2 {
		t.Errorf("%d have expired, %d are in the batch", s.expired, len(s.batch))
	}
}

func TestSizeWarning(t *testing.T) {
	for largest, want := range map[int64]string{
		maxBulk + 1: "raise proto-max-bulk-len of the nodes", maxQuery: "raise proto-max-bulk-len and client-query-buffer-limit of the nodes",
	} {
		if got := sizeWarning(2, largest); !strings.HasPrefix(got, "2 values are larger") || !strings.HasSuffix(got, want) {
			t.Errorf("%d bytes: %q", largest, got)
		}
	}
	if got := sizeWarning(0, 5); got != "" {
		t.Errorf("of small values: %q", got)
	}
}

// seen returns nodes with these slots, and a replica of each: r0 of m0.
func seen(t *testing.T, slots ...string) []node {
	t.Helper()
	var nodes []node
	for i, text := range slots {
		ranges, err := redistest.ParseSlots(text)
		must.Succeed(t, err)
		master := redisnode.Entry{
			ID: fmt.Sprint("m", i), IP: fmt.Sprint("10.0.0.", i), Port: 6379, Master: true, Slots: ranges, Epoch: int64(i),
		}
		replica := redisnode.Entry{ID: fmt.Sprint("r", i), IP: fmt.Sprint("10.0.1.", i), Port: 6379, MasterID: master.ID}
		for _, e := range []redisnode.Entry{master, replica} {
			own := e
			own.Myself = true
			nodes = append(nodes, node{entry: e, view: &redisnode.View{
				ID: e.ID, Version: "7.0.15", RunID: "run of " + e.ID, StateOK: e.Master, Master: e.Master, LinkUp: !e.Master, Offset: 10 * maxLag,
				Table: []redisnode.Entry{own},
			}})
		}
	}
	return nodes
}

func TestArrange(t *testing.T) {
	silent := errors.New("i/o timeout")
	nothing, two := func([]node) {}, []string{"0-99", "100-16383"}
	for name, test := range map[string]struct {
		slots []string
		alter func(nodes []node) // m0, r0, m1, r1
		open  string
		first string // the sources of the first shard
	}{
		"all is well":                  {two, nothing, "", "r0 m0"},
		"shards are ordered by slots":  {[]string{"100-16383", "0-99"}, nothing, "", "r1 m1"},
		"a replica that lags":          {two, func(n []node) { n[1].view.Offset -= maxLag + 1 }, "", "m0"},
		"a replica that almost does":   {two, func(n []node) { n[1].view.Offset -= maxLag }, "", "r0 m0"},
		"a replica without a link":     {two, func(n []node) { n[1].view.LinkUp = false }, "", "m0"},
		"a replica that is silent":     {two, func(n []node) { n[1].view, n[1].err = nil, silent }, "", "m0"},
		"a replica that was replaced":  {two, func(n []node) { n[1].view.ID = "other" }, "", "m0"},
		"two replicas":                 {two, func(n []node) { n[3].view.Table[0].MasterID = "m0"; n[3].view.Offset++ }, "", "r1 r0 m0"},
		"a master without slots":       {[]string{"0-16383", ""}, nothing, "", "r0 m0"},
		"a silent node that had slots": {[]string{"0-16383", ""}, func(n []node) { n[2].view, n[2].err = nil, silent }, "", "r0 m0"},
		"slots that move": {two,
			func(n []node) {
				n[0].view.Table[0].Migrating, n[2].view.Table[0].Importing = map[int]string{5: "m1"}, map[int]string{7: "m0"}
			},
			"5,7", "r0 m0"},
	} {
		top := arranged(t, test.alter, test.slots...)
		var sources []string
		for _, s := range append(top.shards[0].usable(), top.shards[0].master) {
			sources = append(sources, s.view.ID)
		}
		if strings.Join(sources, " ") != test.first || top.open.String() != test.open {
			t.Errorf("%s: the sources are %q, the open slots %s, want %q and %s", name, sources, top.open, test.first, test.open)
		}
	}
	for want, test := range map[string]struct {
		slots []string
		alter func(nodes []node)
	}{
		"the master of slots 0-99 at 10.0.0.0:6379: i/o timeout": {two, func(n []node) { n[0].view, n[0].err = nil, silent }},
		"another node is at its address":                         {two, func(n []node) { n[0].view.ID = "other" }},
		"10.0.0.1:6379 takes no requests":                        {two, func(n []node) { n[2].view.StateOK = false }},
		"slots 100 have two masters":                             {[]string{"0-100", "100-16383"}, nothing},
		"slots 99,16383 have no master":                          {[]string{"0-98", "100-16382"}, nothing},
	} {
		nodes := seen(t, test.slots...)
		test.alter(nodes)
		_, err := arrange(nodes)
		if !passes(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, passing: %t, want %q", err, passes(err), want)
		}
	}
}

func arranged(t *testing.T, alter func([]node), slots ...string) *topology {
	t.Helper()
	nodes := seen(t, slots...)
	alter(nodes)
	top, err := arrange(nodes)
	must.Succeed(t, err)
	return top
}

// TestChanged compares two looks at a cluster: a backup of different ones is not whole, and only the keys of masters that are other
// processes now may be lost by a restore.
func TestChanged(t *testing.T) {
	two := func(alter func([]node)) *topology { return arranged(t, alter, "0-99", "100-16383") }
	nothing, restarted := func([]node) {}, func(n []node) { n[0].view.RunID = "new" }
	before := two(nothing)
	for name, test := range map[string]struct {
		after *topology
		same  bool
		lost  string
	}{
		"nothing":                  {two(nothing), true, ""},
		"a replica is late":        {two(func(n []node) { n[1].view.LinkUp = false }), true, ""},
		"a restart":                {two(restarted), true, "0-99"},
		"a failover":               {two(func(n []node) { n[0].view.ID, n[0].entry.ID = "r0", "r0" }), false, "0-99"},
		"there and back":           {two(func(n []node) { n[0].view.History, n[0].view.Table[0].Epoch = "new", 9 }), false, "0-99"},
		"the first replica":        {two(func(n []node) { n[0].view.History = "new" }), true, ""},
		"slots that were moved":    {arranged(t, func(n []node) { n[0].view.Table[0].Epoch = 9 }, "0-199", "200-16383"), false, ""},
		"slots change hands":       {arranged(t, nothing, "100-16383", "0-99"), false, ""},
		"a restart, then a move":   {arranged(t, restarted, "0-49", "50-16383"), false, "0-99"},
		"a move, then a restart":   {arranged(t, restarted, "0-199", "200-16383"), false, "0-199"},
		"a master that is emptied": {arranged(t, nothing, "", "0-16383"), false, "0-99"},
	} {
		same, lost := slices.EqualFunc(before.shards, test.after.shards, shard.same), before.changed(test.after).String()
		if same != test.same || lost != test.lost {
			t.Errorf("%s: the same: %t, slots that may be lost %q, want %t and %q", name, same, lost, test.same, test.lost)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := patience{limit: time.Minute, pause: time.Second}
		final, passing := errors.New("final"), changing("passing")
		calls := 0
		if err := p.wait(t.Context(), func() error { calls++; return []error{passing, passing, nil}[calls-1] }); err != nil || calls != 3 {
			t.Errorf("%d calls, error %v", calls, err)
		}
		if err := p.wait(t.Context(), func() error { return final }); !errors.Is(err, final) {
			t.Errorf("error %v", err)
		}
		began := time.Now()
		if err := p.wait(t.Context(), func() error { return passing }); !errors.Is(err, passing) || time.Since(began) != p.limit {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), p.limit/2)
		defer cancel()
		if err := p.wait(ctx, func() error { return passing }); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, passing) {
			t.Errorf("error %v", err)
		}
	})
}

func TestNewer(t *testing.T) {
	for _, test := range [][3]string{
		{"", "7.0.15", "7.0.15"}, {"7.0.15", "", "7.0.15"}, {"7.0.9", "7.0.15", "7.0.15"}, {"7.2.0", "7.0.15", "7.2.0"},
		{"7.0.0", "7.0.0", "7.0.0"},
	} {
		if got := newer(test[0], test[1]); got != test[2] {
			t.Errorf("of %q and %q, the newer is %q", test[0], test[1], got)
		}
	}
}
