// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/glassback/glassback/pkg/must"
)

// credentialsOf returns a directory with the access key, and the CA of httptest's servers.
func credentialsOf(t *testing.T, keyID, key string) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	directory := t.TempDir()
	for name, content := range map[string]string{
		"accessKeyID": keyID + "\n", "secretAccessKey": key + "\n",
		fileAuthorities: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600))
	}
	return directory
}

// startS3 starts an S3 server with a bucket named backups, and returns its URL. Without TLS, it would not understand the signatures of
// parts.
func startS3(t *testing.T) string {
	t.Helper()
	backend := s3mem.New()
	must.Succeed(t, backend.CreateBucket("backups"))
	server := httptest.NewTLSServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return server.URL
}

func newBucket(t *testing.T, prefix string) *bucket {
	t.Helper()
	return bucketAt(t, startS3(t), prefix)
}

func bucketAt(t *testing.T, address, prefix string) *bucket {
	t.Helper()
	endpoint, err := url.Parse(address)
	must.Succeed(t, err)
	authorities, err := os.ReadFile(filepath.Join(credentialsOf(t, "", ""), fileAuthorities))
	must.Succeed(t, err)
	b, err := openBucket(s3Options{
		endpoint: endpoint, bucket: "backups", prefix: prefix, region: "us-east-1", accessKeyID: "id", secretAccessKey: "key",
		authorities: authorities,
	})
	must.Succeed(t, err)
	return b
}

func newDirectory(t *testing.T) *directory {
	t.Helper()
	d, err := openDirectory(t.TempDir())
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, d.root.Close()) })
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
			must.Succeed(t, s.put(ctx, name, strings.NewReader("replaced")))
			must.Succeed(t, s.put(ctx, name, iotest.OneByteReader(strings.NewReader(content[:min(len(content), 100)]))))
			must.Succeed(t, s.put(ctx, name, struct{ io.Reader }{strings.NewReader(content)}))
			if len(content) < 100 {
				must.Succeed(t, s.put(ctx, name, bytes.NewReader([]byte(content))))
			}
		}
		broken := errors.New("broken")
		for _, name := range []string{"ns/a/1/shard-9.rdb", "ns/a/1/manifest.json"} { // The second one exists, and stays.
			err := s.put(ctx, name, io.MultiReader(strings.NewReader(large), iotest.ErrReader(unsteady{broken})))
			if !errors.Is(err, broken) || !passes(err) {
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
			must.Succeed(t, s.remove(ctx, name))
			must.Succeed(t, s.remove(ctx, name))
		}
		if names, err := s.list(ctx, "ns"); err != nil || !slices.Equal(names, []string{"ns/ab/1/manifest.json"}) {
			t.Errorf("after the deletion, the store lists %q, error %v", names, err)
		}
	})
}

// TestStoreThatCannotBeUsed has no bucket, and a directory that links elsewhere.
func TestStoreThatCannotBeUsed(t *testing.T) {
	b, d := newBucket(t, ""), newDirectory(t)
	b.name = "missing"
	if _, err := b.open(t.Context(), "ns/a/1/manifest.json"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open in a bucket that does not exist: error %v", err)
	}
	_, list := b.list(t.Context(), "ns/a")
	_, partial := b.partial(t.Context(), "ns/a")
	_, missing := openDirectory(filepath.Join(t.TempDir(), "missing"))
	must.Succeed(t, os.Symlink(t.TempDir(), filepath.Join(d.String(), "ns")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"a list of no bucket": list, "uploads of no bucket": partial, "no directory": missing,
		"a link out of the directory": d.put(t.Context(), "ns/a/1/manifest.json", strings.NewReader("{}")),
		"put after its end":           newDirectory(t).put(ctx, "a/b", strings.NewReader("c")),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// leaveBehind leaves what a killed put leaves: a partial file, or parts of uploads.
func leaveBehind(t *testing.T, s store, name string) {
	t.Helper()
	switch s := s.(type) {
	case *directory:
		must.Succeed(t, s.root.MkdirAll(filepath.Dir(name), 0o700))
		must.Succeed(t, s.root.WriteFile(name+unfinished, []byte("half"), 0o600))
	case *bucket:
		for range 2 {
			core := minio.Core{Client: s.client}
			_, err := core.NewMultipartUpload(t.Context(), s.name, s.prefix+name, minio.PutObjectOptions{})
			must.Succeed(t, err)
		}
	}
}

// manifestOf returns the manifest of a backup with one file.
func manifestOf(id, owner string) string {
	return fmt.Sprintf(`{"schema": %q, "cluster": "shop/cache", "id": %q, "owner": %q, "shards": [{"file": %q}]}`, schema, id, owner,
		shardFile(0, markOf(owner)+"00000000"))
}

// TestPrune deletes what the retention does not keep, what older attempts left, and nothing else: nothing of another owner, of a directory
// that another run may still write to, nor of another name.
func TestPrune(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		const cluster, own, recent = "shop/cache", "20260105T000000Z", "20260106T000000Z"
		id := func(day int) string { return fmt.Sprintf("202601%02dT000000Z", day) }
		var keep []string
		put := func(kept bool, name, content string) {
			t.Helper()
			must.Succeed(t, s.put(t.Context(), name, strings.NewReader(content)))
			if kept {
				keep = append(keep, name)
			}
		}
		for day := 1; day <= 8; day++ { // 3 and 7 have no manifest: they failed, or are running.
			directory := cluster + "/" + id(day) + "/"
			complete := day != 3 && day != 7
			put(day >= 4, directory+shardFile(0, markOf("me")+"00000000"), "x")
			put(day == 1 || day == 2 || day == 7, directory+shardFile(0, markOf("me")+"11111111"), "x")
			put(true, directory+shardFile(5, newRun("other")), "x")
			if complete {
				put(day >= 4, directory+manifestFile, manifestOf(id(day), "me"))
			}
		}
		for _, day := range []int{9, 10, 11, 12} {
			put(true, cluster+"/"+id(day)+"/"+manifestFile, manifestOf(id(day), "other"))
		}
		for _, other := range []string{
			"shop/cache/20260101T000000Z/notes.txt", "shop/cache/20260101T000000Z/shard-0.rdb", "shop/cache/readme/manifest.json",
			"shop/cache/20261301T000000Z/" + shardFile(0, newRun("me")), "shop/cache2/20260101T000000Z/manifest.json",
			"shop/cache/20260101T000000Z/deep/manifest.json", "shop/cache/20260101T000000Z/deep/20260101T000000Z/manifest.json",
		} {
			put(true, other, "x")
		}
		uploads := []string{
			cluster + "/" + id(4) + "/" + shardFile(6, newRun("other")), cluster + "/" + recent + "/" + shardFile(7, newRun("me")),
		}
		for _, name := range append(uploads, cluster+"/"+id(3)+"/"+shardFile(5, newRun("me")), cluster+"/"+id(4)+"/"+manifestFile) {
			leaveBehind(t, s, name)
		}
		b := &backup{cluster: cluster, id: own, owner: "me", retention: 4, store: s, log: t.Logf}
		limit, err := time.Parse(idForm, recent)
		must.Succeed(t, err)
		for range 2 {
			must.Succeed(t, b.clean(t.Context(), limit))
			must.Succeed(t, b.prune(t.Context()))
			names, err := s.list(t.Context(), "shop")
			slices.Sort(keep)
			if err != nil || !slices.Equal(names, keep) {
				t.Fatalf("the store has\n%q, want\n%q; error %v", names, keep, err)
			}
			partial, err := s.partial(t.Context(), "shop")
			if want := []string{uploads[0] + unfinished, uploads[1] + unfinished}; err != nil || !slices.Equal(partial, want) {
				t.Errorf("partial files are %q, want %q; error %v", partial, want, err)
			}
			// Files of other runs of backups that are deleted now are leftovers.
			keep = slices.DeleteFunc(keep, func(name string) bool {
				return strings.HasSuffix(name, markOf("me")+"11111111.rdb") && !strings.Contains(name, id(7))
			})
		}
	})
}

// refusing is a store whose lists of partial files and one of whose manifests cannot be read.
type refusing struct {
	store
	id string
}

func (refusing) partial(context.Context, string) ([]string, error) {
	return nil, errors.New("Access Denied")
}

func (r refusing) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if strings.Contains(name, r.id) {
		return nil, errors.New("broken")
	}
	return r.store.open(ctx, name)
}

// TestPruneGoesOn has files that cannot be read. They are reported, and the other old backups are deleted.
func TestPruneGoesOn(t *testing.T) {
	s, first, last := newDirectory(t), "20260101T000000Z", "20260104T000000Z"
	for _, id := range []string{first, "20260102T000000Z", "20260103T000000Z", last} {
		must.Succeed(t, s.put(t.Context(), "shop/cache/"+id+"/"+manifestFile, strings.NewReader(manifestOf(id, ""))))
	}
	must.Succeed(t, s.put(t.Context(), "shop/cache/20260101T120000Z/"+shardFile(0, newRun("")), strings.NewReader("x")))
	b := &backup{cluster: "shop/cache", id: last, retention: 1, store: refusing{s, first}, log: t.Logf}
	if err := b.clean(t.Context(), time.Now()); err == nil || err.Error() != "Access Denied" {
		t.Errorf("clean: error %v", err)
	}
	if err := b.prune(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("prune: error %v", err)
	}
	names, err := s.list(t.Context(), "shop")
	want := []string{"shop/cache/" + first + "/" + manifestFile, "shop/cache/" + last + "/" + manifestFile}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("the store has %q, want %q; error %v", names, want, err)
	}
}

// TestTheManifestIsDeletedFirst stops a deletion after each file: no backup without a file has a manifest.
func TestTheManifestIsDeletedFirst(t *testing.T) {
	const id = "20260101T000000Z"
	names := []string{"shop/cache/" + id + "/" + shardFile(0, markOf("")+"00000000"), "shop/cache/" + id + "/manifest.json"}
	all := find("shop/cache", names)
	all[0].manifest = &Manifest{Shards: []Shard{{File: shardFile(0, markOf("")+"00000000")}}}
	for _, retention := range []int{0, 1} {
		got := surplus(all, "", "20260102T000000Z", retention)
		if want := 2 * (1 - retention); len(got) != want || want > 0 && got[0] != names[1] {
			t.Errorf("retention %d: deletes %q", retention, got)
		}
	}
	if got := surplus(all, "", id, 0); len(got) > 0 {
		t.Errorf("the backup itself is deleted: %q", got)
	}
}

// TestCreate creates a file once, with services that know the condition, refuse it, or ignore it, and file systems with and without links.
func TestCreate(t *testing.T) {
	noLinks := newDirectory(t)
	noLinks.link = func(string, string) error { return errors.ErrUnsupported }
	stores := map[string]store{"directory": newDirectory(t), "a directory without links": noLinks, "S3": newBucket(t, "")}
	for name, refuses := range map[string]bool{"S3 that ignores the condition": false, "S3 that refuses the condition": true} {
		backend := s3mem.New()
		must.Succeed(t, backend.CreateBucket("backups"))
		inner := gofakes3.New(backend).Server()
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("If-None-Match") != "" && refuses {
				w.WriteHeader(http.StatusNotImplemented)
				return
			}
			r.Header.Del("If-None-Match")
			inner.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		stores[name] = bucketAt(t, server.URL, "")
	}
	for name, s := range stores {
		const file = "ns/a/1/manifest.json"
		if _, err := s.size(t.Context(), file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the size of no file: error %v", name, err)
		}
		must.Succeed(t, s.create(t.Context(), file, []byte("first")))
		if err := s.create(t.Context(), file, []byte("second one")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: create again: error %v", name, err)
		}
		if content, err := readFile(t.Context(), s, file); err != nil || string(content) != "first" {
			t.Errorf("%s: the content is %q, error %v", name, content, err)
		}
		if size, err := s.size(t.Context(), file); err != nil || size != 5 {
			t.Errorf("%s: the size is %d, error %v", name, size, err)
		}
		if partial, err := s.partial(t.Context(), "ns"); err != nil || len(partial) > 0 {
			t.Errorf("%s: partial files are %q, error %v", name, partial, err)
		}
	}
}

// TestCreateHasACondition creates a file with S3 that another process has created after it was looked for.
func TestCreateHasACondition(t *testing.T) {
	b := newBucket(t, "")
	trusting := httptest.NewTLSServer(nil) // All of these servers have one certificate.
	trusting.Close()
	client, err := minio.New(b.client.EndpointURL().Host, &minio.Options{
		Creds: credentials.NewStaticV4("id", "key", ""), Secure: true, Region: "us-east-1",
		Transport: blindTransport{trusting.Client().Transport},
	})
	must.Succeed(t, err)
	must.Succeed(t, b.create(t.Context(), "ns/a/1/manifest.json", []byte("first")))
	blind := &bucket{client: client, name: b.name}
	if err := blind.create(t.Context(), "ns/a/1/manifest.json", []byte("second one")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
}

// blindTransport finds no file.
type blindTransport struct{ http.RoundTripper }

func (b blindTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodHead {
		r = r.Clone(r.Context())
		r.URL.Path += "-missing"
	}
	return b.RoundTripper.RoundTrip(r)
}

// TestModes: another user of the group may add and delete files, in spite of a umask.
func TestModes(t *testing.T) {
	d := newDirectory(t)
	must.Succeed(t, d.put(t.Context(), "ns/a/1/file", strings.NewReader("x")))
	for name, want := range map[string]fs.FileMode{"ns": 0o770, "ns/a": 0o770, "ns/a/1": 0o770, "ns/a/1/file": 0o660} {
		if info, err := d.root.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, error %v", name, info.Mode(), err)
		}
	}
}

// TestResolve: a later backup does not change what latest is for one time, and a damaged manifest is no backup.
func TestResolve(t *testing.T) {
	s, cluster, at := newDirectory(t), "shop/cache", func(day string) string { return "202601" + day + "T000000Z" }
	put := func(id, file, text string) {
		must.Succeed(t, s.put(t.Context(), cluster+"/"+id+"/"+file, strings.NewReader(text)))
	}
	_, err := resolve(t.Context(), s, cluster, Latest)
	if err == nil || !strings.Contains(err.Error(), "there is no backup of shop/cache in ") {
		t.Errorf("of nothing: error %v", err)
	}
	manifest := func(id, finished string) string {
		return strings.Replace(manifestOf(id, ""), "{", `{"finishedAt": "`+finished+`", "new": 1, `, 1)
	}
	put(at("01"), manifestFile, manifest(at("01"), "2026-01-01T00:05:00Z"))
	put(at("02"), manifestFile, manifest(at("02"), "2026-01-02T00:05:00Z"))
	put(at("03"), shardFile(0, markOf("")+"00000000"), "")
	now, valid := "2026-01-01T00:00:00Z", shardFile(0, markOf("")+"00000000")
	for id, text := range map[string]string{
		at("11"): "{", at("12"): manifest(at("01"), now), at("13"): strings.Replace(manifest(at("13"), now), "v1", "v2", 1),
		at("14"): strings.Replace(manifest(at("14"), now), valid, "../"+valid, 1),
		at("15"): strings.Replace(manifest(at("15"), now), `{"file": "`+valid+`"}`, "", 1),
	} {
		put(id, manifestFile, text)
		if _, err := resolve(t.Context(), s, cluster, id); err == nil || !strings.Contains(err.Error(), "is damaged: ") {
			t.Errorf("%s: error %v", text, err)
		}
		must.Succeed(t, s.remove(t.Context(), cluster+"/"+id+"/"+manifestFile))
	}
	for id, want := range map[string]string{Latest: at("02"), at("01"): at("01"), at("02"): at("02")} {
		if m, err := resolve(t.Context(), s, cluster, id); err != nil || m.ID != want {
			t.Errorf("%s: %+v, error %v", id, m, err)
		}
	}
	_, err = resolve(t.Context(), s, cluster, at("03"))
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
