/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package backup

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMain makes the processes trust the certificate of httptest's servers. It is read once.
func TestMain(m *testing.M) {
	server := httptest.NewTLSServer(nil)
	server.Close()
	directory, err := os.MkdirTemp("", "backup")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(directory, "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := errors.Join(os.WriteFile(file, text, 0o600), os.Setenv("SSL_CERT_FILE", file)); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(directory); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// startS3 starts an S3 server with a bucket named backups, and returns its URL. Without TLS, it would not understand the signatures of
// parts.
func startS3(t *testing.T) string {
	t.Helper()
	backend := s3mem.New()
	check(t, backend.CreateBucket("backups"))
	server := httptest.NewTLSServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return server.URL
}

func newBucket(t *testing.T, prefix string) *bucket {
	t.Helper()
	endpoint, err := url.Parse(startS3(t))
	check(t, err)
	b, err := openBucket(s3Options{
		endpoint: endpoint, bucket: "backups", prefix: prefix, region: "us-east-1", accessKeyID: "id", secretAccessKey: "key",
	})
	check(t, err)
	return b
}

func newDirectory(t *testing.T) *directory {
	t.Helper()
	d, err := openDirectory(t.TempDir())
	check(t, err)
	t.Cleanup(func() { check(t, d.root.Close()) })
	return d
}

// eachStore runs a test with each kind of store.
func eachStore(t *testing.T, test func(t *testing.T, s store)) {
	t.Helper()
	t.Run("directory", func(t *testing.T) { test(t, newDirectory(t)) })
	t.Run("S3", func(t *testing.T) { test(t, newBucket(t, "")) })
	t.Run("S3 with a prefix", func(t *testing.T) { test(t, newBucket(t, "/some/prefix/")) })
}

func TestStore(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		large := strings.Repeat("0123456789abcdef", partSize/16+1)
		files := map[string]string{
			"ns/a/1/manifest.json": "{}", "ns/a/1/shard-0.rdb": large, "ns/a/2/small": "s", "ns/ab/1/manifest.json": "other",
		}
		if names, err := s.list(ctx, "ns/a"); err != nil || len(names) > 0 {
			t.Errorf("an empty store lists %q, error %v", names, err)
		}
		for name, content := range files {
			check(t, s.put(ctx, name, strings.NewReader("replaced")))
			check(t, s.put(ctx, name, iotest.OneByteReader(strings.NewReader(content[:min(len(content), 100)]))))
			check(t, s.put(ctx, name, struct{ io.Reader }{strings.NewReader(content)}))
			if len(content) < 100 {
				check(t, s.put(ctx, name, bytes.NewReader([]byte(content))))
			}
		}
		broken := errors.New("broken")
		for _, name := range []string{"ns/a/1/shard-9.rdb", "ns/a/1/manifest.json"} { // The second one exists, and stays.
			err := s.put(ctx, name, io.MultiReader(strings.NewReader(large), iotest.ErrReader(unsteady{broken})))
			if _, passes := errors.AsType[unsteady](err); !errors.Is(err, broken) || !passes {
				t.Errorf("put of a reader that fails: error %v", err)
			}
		}
		for name, content := range files {
			if got, err := readFile(ctx, s, name); err != nil || string(got) != content {
				t.Errorf("%s has %d bytes, want %d; error %v", name, len(got), len(content), err)
			}
		}
		if _, err := s.open(ctx, "ns/a/1/shard-9.rdb"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of a file that does not exist: error %v", err)
		}
		names, err := s.list(ctx, "ns/a")
		if want := []string{"ns/a/1/manifest.json", "ns/a/1/shard-0.rdb", "ns/a/2/small"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("the store lists %q, error %v", names, err)
		}
		if partial, err := s.partial(ctx, "ns/a"); err != nil || len(partial) > 0 {
			t.Errorf("partial files are %q, error %v", partial, err)
		}
		for _, name := range names {
			check(t, s.remove(ctx, name))
			check(t, s.remove(ctx, name))
		}
		if names, err := s.list(ctx, "ns"); err != nil || !slices.Equal(names, []string{"ns/ab/1/manifest.json"}) {
			t.Errorf("after the deletion, the store lists %q, error %v", names, err)
		}
	})
}

// TestStoreThatCannotBeUsed has no bucket, and a directory that links elsewhere.
func TestStoreThatCannotBeUsed(t *testing.T) {
	b := newBucket(t, "")
	b.name = "missing"
	if _, err := b.open(t.Context(), "ns/a/1/manifest.json"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open in a bucket that does not exist: error %v", err)
	}
	if _, err := b.list(t.Context(), "ns/a"); err == nil {
		t.Error("a bucket that does not exist has a list")
	}
	if _, err := b.partial(t.Context(), "ns/a"); err == nil {
		t.Error("a bucket that does not exist has a list of uploads")
	}
	if _, err := openDirectory(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: error %v", err)
	}
	d := newDirectory(t)
	check(t, os.Symlink(t.TempDir(), filepath.Join(d.String(), "ns")))
	if err := d.put(t.Context(), "ns/a/1/manifest.json", strings.NewReader("{}")); err == nil {
		t.Error("put follows a link out of the directory")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newDirectory(t).put(ctx, "a/b", strings.NewReader("c")); !errors.Is(err, context.Canceled) {
		t.Errorf("put after its end: error %v", err)
	}
}

// leaveBehind leaves what a killed put leaves: a partial file, or parts of uploads.
func leaveBehind(t *testing.T, s store, name string) {
	t.Helper()
	switch s := s.(type) {
	case *directory:
		check(t, s.root.MkdirAll(filepath.Dir(name), 0o700))
		check(t, s.root.WriteFile(name+unfinished, []byte("half"), 0o600))
	case *bucket:
		for range 2 {
			core := minio.Core{Client: s.client}
			_, err := core.NewMultipartUpload(t.Context(), s.name, s.prefix+name, minio.PutObjectOptions{})
			check(t, err)
		}
	}
}

// TestPrune deletes what the retention does not keep, what attempts left, and nothing else.
func TestPrune(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		const cluster, own = "shop/cache", "20260105T000000Z"
		id := func(day int) string { return fmt.Sprintf("202601%02dT000000Z", day) }
		var keep []string
		put := func(kept bool, name string) {
			t.Helper()
			check(t, s.put(t.Context(), name, strings.NewReader("x")))
			if kept {
				keep = append(keep, name)
			}
		}
		for day := 1; day <= 8; day++ { // 3 and 7 have no manifest: they failed, or are running.
			directory := cluster + "/" + id(day)
			put(day >= 4, directory+"/shard-0-00000000.rdb")
			put(day >= 5, directory+"/shard-0-11111111.rdb") // Of another run, which may be running still from the 5th on.
			if day != 3 && day != 7 {
				check(t, s.put(t.Context(), directory+"/"+manifestFile, strings.NewReader(`{"schema": "glassback.dev/backup/v1", "cluster": "`+
					cluster+`", "id": "`+id(day)+`", "shards": [{"file": "shard-0-00000000.rdb"}]}`)))
			}
			if day >= 4 && day != 7 {
				keep = append(keep, directory+"/"+manifestFile)
			}
		}
		for _, other := range []string{
			"shop/cache/20260101T000000Z/notes.txt", "shop/cache/20260101T000000Z/shard-0.rdb", "shop/cache/readme/manifest.json",
			"shop/cache/20261301T000000Z/shard-0-00000000.rdb", "shop/cache2/20260101T000000Z/manifest.json",
			"shop/cache/20260101T000000Z/deep/manifest.json", "shop/cache/20260101T000000Z/deep/20260101T000000Z/manifest.json",
		} {
			put(true, other)
		}
		leaveBehind(t, s, cluster+"/"+id(3)+"/shard-5-00000000.rdb")
		leaveBehind(t, s, cluster+"/"+id(4)+"/shard-6-00000000.rdb")
		leaveBehind(t, s, cluster+"/"+own+"/shard-7-00000000.rdb")
		b := &backup{cluster: cluster, id: own, retention: 4, store: s}
		for range 2 {
			check(t, b.prune(t.Context()))
			names, err := s.list(t.Context(), "shop")
			slices.Sort(keep)
			if err != nil || !slices.Equal(names, keep) {
				t.Errorf("the store has\n%q, want\n%q; error %v", names, keep, err)
			}
			partial, err := s.partial(t.Context(), "shop")
			if want := []string{cluster + "/" + own + "/shard-7-00000000.rdb" + unfinished}; err != nil || !slices.Equal(partial, want) {
				t.Errorf("partial files are %q, want %q; error %v", partial, want, err)
			}
		}
	})
}

// TestTheManifestIsDeletedFirst stops a deletion after each file: no backup without a file has a manifest.
func TestTheManifestIsDeletedFirst(t *testing.T) {
	names := []string{
		"a/b/20260101T000000Z/shard-0-00000000.rdb", "a/b/20260101T000000Z/manifest.json", "a/b/20260101T000000Z/shard-5-00000000.rdb",
	}
	for _, retention := range []int{0, 1} {
		got := surplus(find("a/b", names), "20260102T000000Z", retention)
		if want := 3 * (1 - retention); len(got) != want || want > 0 && got[0] != names[1] {
			t.Errorf("retention %d: deletes %q", retention, got)
		}
	}
	if got := surplus(find("a/b", names), "20260101T000000Z", 0); len(got) > 0 {
		t.Errorf("the backup itself is deleted: %q", got)
	}
}

func TestResolve(t *testing.T) {
	s, cluster := newDirectory(t), "shop/cache"
	put := func(id, file, text string) {
		check(t, s.put(t.Context(), cluster+"/"+id+"/"+file, strings.NewReader(text)))
	}
	_, err := resolve(t.Context(), s, cluster, Latest)
	if err == nil || !strings.Contains(err.Error(), "there is no backup of shop/cache in ") {
		t.Errorf("of nothing: error %v", err)
	}
	manifest := func(id string) string {
		return `{"schema": "glassback.dev/backup/v1", "cluster": "shop/cache", "id": "` + id +
			`", "shards": [{"file": "shard-0-00000000.rdb"}], "new": 1}`
	}
	put("20260101T000000Z", manifestFile, manifest("20260101T000000Z"))
	put("20260102T000000Z", manifestFile, manifest("20260102T000000Z"))
	put("20260103T000000Z", "shard-0-00000000.rdb", "")
	for id, text := range map[string]string{
		"20260111T000000Z": "{", "20260112T000000Z": manifest("20260101T000000Z"),
		"20260113T000000Z": strings.Replace(manifest("20260113T000000Z"), "v1", "v2", 1),
		"20260114T000000Z": strings.Replace(manifest("20260114T000000Z"), "shard-0-00000000.rdb", "../shard-0-00000000.rdb", 1),
		"20260115T000000Z": strings.Replace(manifest("20260115T000000Z"), `{"file": "shard-0-00000000.rdb"}`, "", 1),
	} {
		put(id, manifestFile, text)
		if _, err := resolve(t.Context(), s, cluster, id); err == nil || !strings.Contains(err.Error(), "is damaged: ") {
			t.Errorf("%s: error %v", text, err)
		}
		check(t, s.remove(t.Context(), cluster+"/"+id+"/"+manifestFile))
	}
	for id, want := range map[string]string{Latest: "20260102T000000Z", "20260101T000000Z": "20260101T000000Z"} {
		if m, err := resolve(t.Context(), s, cluster, id); err != nil || m.ID != want {
			t.Errorf("%s: %+v, error %v", id, m, err)
		}
	}
	_, err = resolve(t.Context(), s, cluster, "20260103T000000Z")
	if err == nil || !strings.HasSuffix(err.Error(), ", but 20260102T000000Z, 20260101T000000Z") {
		t.Errorf("of an attempt that failed: error %v", err)
	}
}

func TestCheckID(t *testing.T) {
	for id, want := range map[string]bool{
		"20260131T030000Z": true, "20260231T030000Z": false, "20260131T030000": false, "20260131T030000.5Z": false, "latest": false,
		"": false, "../20260131T030000Z": false, "20260131T03000Z": false,
	} {
		if err := checkID(id); (err == nil) != want {
			t.Errorf("%q: error %v", id, err)
		}
	}
}
