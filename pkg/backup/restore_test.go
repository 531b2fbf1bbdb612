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
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glassback/glassback/pkg/backup/rdb"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/redisnode"
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
	check(t, err)
	check(t, s.put(t.Context(), cluster+"/"+id+"/shard-0-e3b0c44200000000.rdb", strings.NewReader(oneKey)))
	check(t, s.put(t.Context(), cluster+"/"+id+"/"+manifestFile, bytes.NewReader(text)))
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
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			save(t, d, test.manifest)
			if test.file == "-" {
				check(t, d.remove(t.Context(), file))
			} else {
				check(t, d.put(t.Context(), file, strings.NewReader(test.file)))
			}
			r := &restore{
				cluster: cluster, id: Latest, nodes: connection{addresses: []string{"127.0.0.1:1"}}, store: d, log: (&log{}).add,
			}
			_, err := r.run(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if test.want != noNode && !strings.Contains(err.Error(), cluster+"/"+id+"/") {
				t.Errorf("the error names no file: %v", err)
			}
		})
	}
}

// A restore that chooses reads no file but the manifest, and reaches no node.
func TestChoose(t *testing.T) {
	d := newDirectory(t)
	save(t, d, func(m *Manifest) { m.Shards[0].Keys = 7 })
	check(t, d.remove(t.Context(), cluster+"/"+id+"/shard-0-e3b0c44200000000.rdb"))
	r := &restore{cluster: cluster, id: Latest, choose: true, store: d, log: (&log{}).add}
	result, err := r.run(t.Context())
	if err != nil || result.ID != id || result.Keys != 7 {
		t.Errorf("chose %+v, error %v", result, err)
	}
}

// TestRetryAsksForSlots fails batches: the client asks anew which node has which slots only if another try may succeed.
func TestRetryAsksForSlots(t *testing.T) {
	asked := make(chan struct{}, 100)
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		asked <- struct{}{}
		return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
	}})
	t.Cleanup(func() { check(t, client.Close()) })
	if err := retry(t.Context(), client, nil); err != nil {
		t.Error(err)
	}
	if err := retry(t.Context(), client, answer("WRONGTYPE")); err == nil || err.Error() != "WRONGTYPE" {
		t.Errorf("error %v", err)
	}
	select {
	case <-asked:
		t.Error("it asks for slots though no other try follows")
	case <-time.After(time.Second):
	}
	if err := retry(t.Context(), client, errNoAnswer); err == nil {
		t.Error("there is no error")
	}
	select {
	case <-asked:
	case <-time.After(5 * time.Minute):
		t.Error("it does not ask for slots")
	}
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
		t.Run(name, func(t *testing.T) {
			v := verify(test.in, test.slots, nil)
			file, err := io.ReadAll(v)
			v.stop()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if err == nil && (string(file) != oneKey || v.bytes != int64(len(oneKey)) || v.content.keys != 1) {
				t.Errorf("%d bytes, %+v", v.bytes, v.content)
			}
		})
	}
	v := verify(strings.NewReader(oneKey), allSlots, nil)
	v.stop() // A store that has failed reads nothing.
}

// answer is an error answer of a node.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestPassing(t *testing.T) {
	for text, want := range map[string]bool{
		"CLUSTERDOWN The cluster is down": true, "TRYAGAIN Multiple keys": true, "READONLY You can't write": true,
		"LOADING Redis is loading": true, "MASTERDOWN Link": true,
		"OOM command not allowed": false, "ERR DUMP payload version or checksum are wrong": false,
		"NOPERM this user": false, "WRONGPASS invalid": false, "MISCONF Redis is configured": false,
	} {
		var _ redis.Error = answer(text)
		if _, passes := errors.AsType[unsteady](passing(answer(text))); passes != want {
			t.Errorf("%q passes: %t", text, passes)
		}
	}
	if _, passes := errors.AsType[unsteady](passing(io.ErrUnexpectedEOF)); !passes {
		t.Error("a lost connection does not pass")
	}
	if err := passing(answer("ERR unknown command, with args beginning with: secret")); strings.Contains(err.Error(), "secret") {
		t.Errorf("the error has arguments: %v", err)
	}
	if passing(nil) != nil {
		t.Error("no error passes")
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
	var stderr strings.Builder
	code := o.fail(&stderr, errors.New("a node said:\nhunter2, AKIAEXAMPLE, \x1b[2J"+strings.Repeat("é", 2000)))
	text, err := os.ReadFile(o.result)
	check(t, err)
	const want = "a node said: [secret], [secret], "
	if code != command.Failed || !strings.HasPrefix(string(text), want) || strings.Count(string(text), "\n") != 1 || len(text) > 2010 ||
		!strings.HasPrefix(stderr.String(), "glassback: "+want) || strings.Contains(string(text), "\x1b") {
		t.Errorf("exit code %d, result %q, stderr %q", code, text, stderr.String())
	}
}

func TestExpiredKeysAreNotSent(t *testing.T) {
	s := &sender{slots: allSlots}
	for _, expires := range []int64{1, time.Now().UnixMilli()} {
		check(t, s.add(&rdb.Record{Key: "k", Expires: expires}))
	}
	check(t, s.add(&rdb.Record{Key: "k"}))
	check(t, s.add(&rdb.Record{Key: "k", Expires: time.Now().Add(time.Hour).UnixMilli()}))
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

func TestLinesAreBounded(t *testing.T) {
	o := &settings{secrets: []string{"hunter2"}}
	got := o.line(strings.Repeat("é\n", 1000)+"hunter2", 1000)
	if len(got) > 1000 || !strings.HasSuffix(got, "…") || strings.Contains(got, "\n") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := o.line("a hunter2", 1000); got != "a [secret]" {
		t.Errorf("%q", got)
	}
}
