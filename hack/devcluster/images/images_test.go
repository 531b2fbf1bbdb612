// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/glassback/glassback/pkg/must"
)

func TestFullName(t *testing.T) {
	for given, want := range map[string]string{
		"busybox":                         "docker.io/library/busybox:latest",
		"busybox:1.35":                    "docker.io/library/busybox:1.35",
		"docker.io/busybox":               "docker.io/library/busybox:latest",
		"index.docker.io/library/busybox": "docker.io/library/busybox:latest",
		"glassback/glassback:dev":         "docker.io/glassback/glassback:dev",
		"registry.k8s.io/pause:3.10":      "registry.k8s.io/pause:3.10",
		"localhost/a:b":                   "localhost/a:b",
		"localhost:5000/a/b/c":            "localhost:5000/a/b/c:latest",
	} {
		if got, err := FullName(given); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", given, got, err, want)
		}
	}
	for _, given := range []string{"", "Busybox", "busy box", "a:b:c", "a/../b:$", "a@sha256:" + strings.Repeat("0", 64)} {
		if got, err := FullName(given); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %s, %v", given, got, err)
		}
	}
}

func TestWhatIsLoadedCanBePulled(t *testing.T) {
	tests := map[string]struct {
		archive func(t *testing.T, image v1.Image) string
		want    []string
	}{
		"an archive of docker save": {
			func(t *testing.T, image v1.Image) string {
				return dockerArchive(t, map[string]v1.Image{"busybox": image})
			},
			[]string{"docker.io/library/busybox:latest"}},
		"one that is compressed": {
			func(t *testing.T, image v1.Image) string {
				return compressed(t, dockerArchive(t, map[string]v1.Image{"quay.io/a/b:1": image}))
			},
			[]string{"quay.io/a/b:1"}},
		"one with two images": {
			func(t *testing.T, image v1.Image) string {
				return dockerArchive(t, map[string]v1.Image{"a/b:1": image, "a/c:2": linux(t, 1)})
			},
			[]string{"docker.io/a/b:1", "docker.io/a/c:2"}},
		"an archive of OCI": {
			func(t *testing.T, image v1.Image) string {
				return ociArchive(t, mutate.IndexAddendum{Add: image, Descriptor: annotated(nameAnnotation, "localhost:5000/x:y")})
			},
			[]string{"localhost:5000/x:y"}},
		"one of containerd, with the tag alone where OCI has the name": {
			func(t *testing.T, image v1.Image) string {
				desc := annotated(containerdAnnotation, "docker.io/library/redis:7")
				desc.Annotations[nameAnnotation] = "7"
				return ociArchive(t, mutate.IndexAddendum{Add: image, Descriptor: desc})
			},
			[]string{"docker.io/library/redis:7"}},
		"one for several platforms": {
			func(t *testing.T, image v1.Image) string {
				index := mutate.AppendManifests(empty.Index,
					mutate.IndexAddendum{Add: platform(t, linux(t, 1), "plan9", "mips"), Descriptor: forPlatform("plan9", "mips")},
					mutate.IndexAddendum{Add: image, Descriptor: forPlatform("linux", runtime.GOARCH)})
				return ociArchive(t, mutate.IndexAddendum{Add: index, Descriptor: annotated(nameAnnotation, "nginx:1")})
			},
			[]string{"docker.io/library/nginx:1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			image, store := linux(t, 2), Store(filepath.Join(t.TempDir(), "images"))
			got, err := store.Load(t.Context(), test.archive(t, image))
			slices.Sort(got)
			if err != nil || !slices.Equal(got, test.want) {
				t.Fatalf("got %v, %v", got, err)
			}
			if names, err := store.Names(); err != nil || !slices.Equal(names, test.want) {
				t.Errorf("the store has %v, %v", names, err)
			}
			pulled := pull(t, test.want[0], store)
			if err := validate.Image(pulled); err != nil {
				t.Errorf("what was pulled is not whole: %v", err)
			}
			if got, want := configOf(t, pulled), configOf(t, image); got != want {
				t.Errorf("got image %s, want %s", got, want)
			}
		})
	}
}

// The manifests of a release name the image by the digest of this list.
func TestAnImageCanBePulledByTheDigestOfItsListOfPlatforms(t *testing.T) {
	store, image := Store(filepath.Join(t.TempDir(), "images")), linux(t, 1)
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: platform(t, linux(t, 1), "plan9", "mips"), Descriptor: forPlatform("plan9", "mips")},
		mutate.IndexAddendum{Add: image, Descriptor: forPlatform("linux", runtime.GOARCH)})
	archive := ociArchive(t, mutate.IndexAddendum{Add: index, Descriptor: annotated(nameAnnotation, "nginx:1")})
	if _, err := store.Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	pulled := pull(t, "nginx@sha256:"+digestOf(t, index), store)
	if err := validate.Image(pulled); err != nil || configOf(t, pulled) != configOf(t, image) {
		t.Errorf("got image %s, want %s, error %v", configOf(t, pulled), configOf(t, image), err)
	}
}

func TestANewImageTakesTheName(t *testing.T) {
	store := Store(t.TempDir())
	server := httptest.NewServer(Handler(store))
	defer server.Close()
	first, second := linux(t, 1), linux(t, 1)
	put(t, store, first, "app:1", "app:2")
	if got := configOf(t, pullFrom(t, server, "app:1")); got != configOf(t, first) {
		t.Errorf("got %s", got)
	}
	put(t, store, second, "app:1")
	if got := configOf(t, pullFrom(t, server, "app:1")); got != configOf(t, second) {
		t.Error("the name still has the first image")
	}
	if got := configOf(t, pullFrom(t, server, "app:2")); got != configOf(t, first) {
		t.Error("the first image lost its other name")
	}
	if names, _ := store.Names(); !slices.Equal(names, []string{"docker.io/library/app:1", "docker.io/library/app:2"}) {
		t.Errorf("got %v", names)
	}
	digest, err := first.Digest()
	must.Succeed(t, err)
	if got := configOf(t, pullFrom(t, server, "app@"+digest.String())); got != configOf(t, first) {
		t.Error("who has started to pull the first image cannot go on")
	}
}

func TestAStoreMayBeNamedInAnyWay(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, store := range []Store{"images", "./a//b/", "x/../y", Store(t.TempDir() + "/c/../d/.")} {
		put(t, store, linux(t, 1), "app")
		if err := validate.Image(pull(t, "app", store)); err != nil {
			t.Errorf("%s: %v", store, err)
		}
	}
}

func TestTheFirstStoreWins(t *testing.T) {
	first, second := Store(t.TempDir()), Store(t.TempDir())
	ours, theirs := linux(t, 1), linux(t, 1)
	put(t, second, theirs, "app", "other")
	if got := configOf(t, pull(t, "app", first, second)); got != configOf(t, theirs) {
		t.Error("an empty store hides the next one")
	}
	put(t, first, ours, "app")
	if got := configOf(t, pull(t, "app", first, second)); got != configOf(t, ours) {
		t.Error("the second store won")
	}
	if got := configOf(t, pull(t, "other", first, second)); got != configOf(t, theirs) {
		t.Error("the second store is not asked")
	}
}

func TestWritersDoNotLoseEachOthersImages(t *testing.T) {
	store := Store(t.TempDir())
	var group sync.WaitGroup
	var want []string
	for i := range 8 {
		image, app := linux(t, 1), fmt.Sprintf("docker.io/library/app:%d", i)
		want = append(want, app)
		group.Go(func() {
			if err := store.Put(t.Context(), image, app); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if names, err := store.Names(); err != nil || !slices.Equal(names, want) {
		t.Errorf("got %v, %v", names, err)
	}
	if left, _ := filepath.Glob(filepath.Join(string(store), "new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAStoreIsAnOCILayout(t *testing.T) {
	store := Store(t.TempDir())
	image := linux(t, 1)
	put(t, store, image, "app")
	data, err := os.ReadFile(filepath.Join(string(store), "oci-layout"))
	if err != nil || !strings.Contains(string(data), `"imageLayoutVersion":"1.0.0"`) {
		t.Errorf("oci-layout: %s, %v", data, err)
	}
	index, err := layout.ImageIndexFromPath(string(store))
	must.Succeed(t, err)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
}

func TestHalfABlobIsNeverTakenForAWholeOne(t *testing.T) {
	store := Store(t.TempDir())
	image := linux(t, 1)
	put(t, store, image, "app")
	config, err := image.ConfigName()
	must.Succeed(t, err)
	path := filepath.Join(string(store), "blobs", config.Algorithm, config.Hex)
	if err := os.Truncate(path, 3); err != nil { // as by a machine that went down
		t.Fatal(err)
	}
	put(t, store, image, "app")
	if err := validate.Image(pull(t, "app", store)); err != nil {
		t.Error(err)
	}
}

func TestLoadRefuses(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	tests := map[string]struct {
		file func(t *testing.T) string
		want string
	}{
		"no file":     {func(*testing.T) string { return "/none/app.tar" }, "load /none/app.tar: no such file or directory"},
		"a directory": {func(t *testing.T) string { return t.TempDir() }, "not a regular file"},
		"a pipe": {
			func(t *testing.T) string {
				file := filepath.Join(t.TempDir(), "pipe")
				must.Succeed(t, syscall.Mkfifo(file, 0o600))
				return file
			},
			"not a regular file"},
		"no tar": {
			func(t *testing.T) string { return write(t, strings.Repeat("no tar\n", 200)) }, "not an archive of images"},
		"an empty file": {func(t *testing.T) string { return write(t, "") }, "not an archive of images"},
		"no tar, compressed": {
			func(t *testing.T) string { return compressed(t, write(t, "no tar")) }, "not an archive of images"},
		"half of a compressed file": {
			func(t *testing.T) string {
				return half(t, compressed(t, dockerArchive(t, map[string]v1.Image{"a:1": linux(t, 1)})))
			},
			"unexpected EOF"},
		"half of an archive": {
			func(t *testing.T) string { return half(t, dockerArchive(t, map[string]v1.Image{"a:1": linux(t, 1)})) },
			"unexpected EOF"},
		"a tar of something else": {
			func(t *testing.T) string { return tarOf(t, map[string]string{"etc/passwd": "root"}) }, "not an archive of images"},
		"an image without a name": {
			func(t *testing.T) string {
				return tarOf(t, map[string]string{"manifest.json": `[{"Config":"blobs/sha256/abc","RepoTags":null,"Layers":[]}]`})
			},
			"an image in it (abc) has no name: save it by NAME:TAG"},
		"no image": {
			func(t *testing.T) string { return tarOf(t, map[string]string{"manifest.json": `[]`}) }, "there is no image in it"},
		"a list that is none": {
			func(t *testing.T) string { return tarOf(t, map[string]string{"manifest.json": `{`}) }, "read manifest.json: "},
		"an index that is none": {
			func(t *testing.T) string { return tarOf(t, map[string]string{"index.json": `[`}) }, "decode index.json: "},
		"an OCI image with but a tag": {
			func(t *testing.T) string {
				return ociArchive(t, mutate.IndexAddendum{Add: linux(t, 1), Descriptor: annotated(nameAnnotation, "latest")})
			},
			`must be NAME:TAG, and is "latest"`},
		"another architecture": {
			func(t *testing.T) string {
				return dockerArchive(t, map[string]v1.Image{"app:1": platform(t, linux(t, 1), "linux", other)})
			},
			"docker.io/library/app:1 is for linux/" + other + " and the node is linux/" + runtime.GOARCH + ": build it with --platform"},
		"several platforms, but not this one": {
			func(t *testing.T) string {
				index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: linux(t, 1), Descriptor: forPlatform("linux", other)})
				return ociArchive(t, mutate.IndexAddendum{Add: index, Descriptor: annotated(nameAnnotation, "nginx:1")})
			},
			"it is for other platforms than linux/" + runtime.GOARCH},
		"a blob with a path for a name": {
			func(t *testing.T) string {
				return tarOf(t, map[string]string{"blobs/sha256/../../../../x": "x", "index.json": `{"schemaVersion":2,"manifests":[]}`})
			},
			"there is no image in it"},
	}
	for name, damage := range damages() {
		tests[name] = struct {
			file func(t *testing.T) string
			want string
		}{func(t *testing.T) string { return damage.archive(t, linux(t, 2)) }, "image docker.io/a/bad:1 is damaged: " + damage.want}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := Store(filepath.Join(t.TempDir(), "images"))
			file := test.file(t)
			names, err := store.Load(t.Context(), file)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, %v, want %s", names, err, test.want)
			}
			if strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), file) > 1 {
				t.Errorf("more than one line, or file named twice: %v", err)
			}
			if _, err := os.Stat(string(store)); !errors.Is(err, fs.ErrNotExist) {
				t.Error("the store is not as it was")
			}
		})
	}
}

func TestHandlerRefuses(t *testing.T) {
	store := Store(t.TempDir())
	put(t, store, linux(t, 1), "busybox")
	secret := filepath.Join(filepath.Dir(string(store)), "secret")
	must.Succeed(t, os.WriteFile(secret, []byte("secret"), 0o600))
	absent := "sha256:" + strings.Repeat("0", 64)
	tests := map[string]struct {
		method, path string
		status       int
		code, want   string
	}{
		"an unknown tag": {"GET", "/v2/library/busybox/manifests/9", 404, "MANIFEST_UNKNOWN",
			`there is no image docker.io/library/busybox:9: \"devcluster load\" adds one from an archive of \"docker save\"; ` +
				`there is docker.io/library/busybox:latest`},
		"another registry":       {"GET", "/v2/a/manifests/latest?ns=quay.io", 404, "MANIFEST_UNKNOWN", "quay.io/a:latest"},
		"an unknown digest":      {"GET", "/v2/library/busybox/manifests/" + absent, 404, "MANIFEST_UNKNOWN", absent},
		"an unknown blob":        {"GET", "/v2/library/busybox/blobs/" + absent, 404, "BLOB_UNKNOWN", absent},
		"a path for a digest":    {"GET", "/v2/library/busybox/blobs/..%2f..%2f..%2fsecret", 400, "DIGEST_INVALID", ""},
		"a path in a digest":     {"GET", "/v2/library/busybox/blobs/sha256:..%2f..%2f..%2fsecret", 400, "DIGEST_INVALID", ""},
		"a path below the blobs": {"GET", "/v2/library/busybox/blobs/../../index.json", 400, "DIGEST_INVALID", ""},
		"a short digest":         {"GET", "/v2/library/busybox/manifests/sha256:00", 400, "DIGEST_INVALID", ""},
		"a bad name":             {"GET", "/v2/Library/busybox/manifests/latest", 400, "NAME_INVALID", ""},
		"a bad registry":         {"GET", "/v2/library/busybox/manifests/latest?ns=a%2f..%2fb", 400, "NAME_INVALID", ""},
		"a push":                 {"POST", "/v2/library/busybox/blobs/uploads/", 405, "UNSUPPORTED", "can only be pulled"},
		"something else":         {"GET", "/v2/_catalog", 404, "UNSUPPORTED", "/v2/_catalog"},
		"outside of the API":     {"GET", "/index.json", 404, "UNSUPPORTED", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := request(t, Handler(store), test.method, test.path, nil)
			if answer.Code != test.status || !strings.Contains(answer.Body.String(), test.want) {
				t.Errorf("got %d %s", answer.Code, answer.Body)
			}
			var body struct {
				Errors []struct{ Code, Message string }
			}
			if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || len(body.Errors) != 1 || body.Errors[0].Code != test.code {
				t.Errorf("got %s, want code %s", answer.Body, test.code)
			}
			if strings.Contains(answer.Body.String(), "secret") && !strings.Contains(test.path, "secret") {
				t.Error("it told the secret")
			}
		})
	}
}

func TestHandlerListsAtMostTwentyNames(t *testing.T) {
	store := Store(t.TempDir())
	if got := request(t, Handler(store), "GET", "/v2/a/manifests/b", nil).Body.String(); !strings.Contains(got, "there is no image at all") {
		t.Errorf("got %s", got)
	}
	var names []string
	for i := range 23 {
		names = append(names, fmt.Sprintf("app:%02d", i))
	}
	put(t, store, linux(t, 1), names...)
	got := request(t, Handler(store), "GET", "/v2/a/manifests/b", nil).Body.String()
	if !strings.Contains(got, "app:19 and 3 more") || strings.Contains(got, "app:20") {
		t.Errorf("got %s", got)
	}
}

func TestHandlerSaysWhenAStoreIsBroken(t *testing.T) {
	store := Store(t.TempDir())
	must.Succeed(t, os.WriteFile(filepath.Join(string(store), "index.json"), []byte("{"), 0o600))
	answer := request(t, Handler(store), "GET", "/v2/library/a/manifests/latest", nil)
	if answer.Code != http.StatusInternalServerError || !strings.Contains(answer.Body.String(), `"code":"UNKNOWN","message":"decode `) {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
}

func TestHandlerAnswersLikeARegistry(t *testing.T) {
	store := Store(t.TempDir())
	image := linux(t, 1)
	put(t, store, image, "quay.io/manifests/blobs:1") // a name that looks like the API's paths
	digest, _ := image.Digest()
	layers, err := image.Layers()
	must.Succeed(t, err)
	layer, _ := layers[0].Digest()
	size, _ := layers[0].Size()
	manifest := "/v2/manifests/blobs/manifests/1?ns=quay.io"
	blob := "/v2/manifests/blobs/blobs/" + layer.String() + "?ns=quay.io"
	tests := map[string]struct {
		method, path string
		header       http.Header
		status       int
		want         http.Header
		length       int
	}{
		"the API itself":         {"GET", "/v2/", nil, 200, http.Header{"Docker-Distribution-Api-Version": {"registry/2.0"}}, 2},
		"a manifest, asked for":  {"HEAD", manifest, nil, 200, http.Header{"Docker-Content-Digest": {digest.String()}}, 0},
		"a manifest":             {"GET", manifest, nil, 200, http.Header{"Content-Type": {string(types.DockerManifestSchema2)}}, -1},
		"a manifest by digest":   {"GET", "/v2/manifests/blobs/manifests/" + digest.String(), nil, 200, nil, -1},
		"a layer is no manifest": {"GET", "/v2/manifests/blobs/manifests/" + layer.String(), nil, 404, nil, -1},
		"a blob":                 {"GET", blob, nil, 200, http.Header{"Content-Type": {"application/octet-stream"}}, int(size)},
		"a blob's size":          {"HEAD", blob, nil, 200, http.Header{"Content-Length": {fmt.Sprint(size)}}, 0},
		"the rest of a blob": {"GET", blob, http.Header{"Range": {"bytes=100-"}}, 206,
			http.Header{"Content-Range": {fmt.Sprintf("bytes 100-%d/%d", size-1, size)}}, int(size) - 100},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := request(t, Handler(store), test.method, test.path, test.header)
			if answer.Code != test.status || test.length >= 0 && answer.Body.Len() != test.length {
				t.Errorf("got %d and %d bytes", answer.Code, answer.Body.Len())
			}
			for key, want := range test.want {
				if got := answer.Header()[key]; !slices.Equal(got, want) {
					t.Errorf("%s: got %v, want %v", key, got, want)
				}
			}
		})
	}
}

// linux returns a new image for this machine.
func linux(t *testing.T, layers int64) v1.Image {
	t.Helper()
	image, err := random.Image(1000, layers)
	must.Succeed(t, err)
	return platform(t, image, "linux", runtime.GOARCH)
}

func platform(t *testing.T, image v1.Image, os, arch string) v1.Image {
	t.Helper()
	config, err := image.ConfigFile()
	must.Succeed(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = os, arch
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// configOf identifies an image: the way through an archive may change its manifest, as it compresses the layers.
func configOf(t *testing.T, image v1.Image) string {
	t.Helper()
	digest, err := image.ConfigName()
	must.Succeed(t, err)
	return digest.String()
}

func annotated(annotation, name string) v1.Descriptor {
	return v1.Descriptor{Annotations: map[string]string{annotation: name}}
}

func forPlatform(os, arch string) v1.Descriptor {
	return v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch, Variant: map[string]string{"arm64": "v8"}[arch]}}
}

func put(t *testing.T, store Store, image v1.Image, names ...string) {
	t.Helper()
	must.Succeed(t, store.Put(t.Context(), image, names...))
}

func dockerArchive(t *testing.T, images map[string]v1.Image) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app.tar")
	tags := map[name.Tag]v1.Image{}
	for given, image := range images {
		tag, err := name.NewTag(given)
		must.Succeed(t, err)
		tags[tag] = image
	}
	must.Succeed(t, tarball.MultiWriteToFile(file, tags))
	return file
}

func ociArchive(t *testing.T, images ...mutate.IndexAddendum) string {
	t.Helper()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "oci.tar")
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, images...)); err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	archive := tar.NewWriter(&data)
	must.Succeed(t, archive.AddFS(os.DirFS(dir)))
	must.Succeed(t, errors.Join(archive.Close(), os.WriteFile(file, data.Bytes(), 0o600)))
	return file
}

func tarOf(t *testing.T, files map[string]string) string {
	t.Helper()
	var data bytes.Buffer
	archive := tar.NewWriter(&data)
	for name, content := range files {
		header := &tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, Typeflag: tar.TypeReg}
		must.Succeed(t, archive.WriteHeader(header))
		_, _ = io.WriteString(archive, content)
	}
	must.Succeed(t, archive.Close())
	return write(t, data.String())
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.tar")
	must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func compressed(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	must.Succeed(t, err)
	var data bytes.Buffer
	w := gzip.NewWriter(&data)
	_, _ = w.Write(content)
	w.Close()
	return write(t, data.String())
}

func half(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	must.Succeed(t, err)
	return write(t, string(content[:len(content)/2]))
}

// asMirror sends every request to a mirror, and says there which registry it was for, as containerd does.
type asMirror struct{ mirror *url.URL }

func (a asMirror) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Set("ns", strings.Replace(r.URL.Host, name.DefaultRegistry, dockerHub, 1))
	r.URL.Scheme, r.URL.Host, r.URL.RawQuery = a.mirror.Scheme, a.mirror.Host, query.Encode()
	r.Host = ""
	return http.DefaultTransport.RoundTrip(r)
}

func pull(t *testing.T, image string, stores ...Store) v1.Image {
	t.Helper()
	server := httptest.NewServer(Handler(stores...))
	t.Cleanup(server.Close)
	return pullFrom(t, server, image)
}

func pullFrom(t *testing.T, server *httptest.Server, image string) v1.Image {
	t.Helper()
	at, err := url.Parse(server.URL)
	must.Succeed(t, err)
	reference, err := name.ParseReference(image)
	must.Succeed(t, err)
	ours := v1.Platform{OS: "linux", Architecture: runtime.GOARCH} // of a list of platforms
	pulled, err := remote.Image(reference, remote.WithTransport(asMirror{at}), remote.WithContext(t.Context()), remote.WithPlatform(ours))
	must.Succeed(t, err)
	return pulled
}

func request(t *testing.T, handler http.Handler, method, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	maps.Copy(r.Header, header)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	return answer
}
