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
	"path"
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
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/glassback/glassback/pkg/must"
)

func TestFullName(t *testing.T) {
	for given, want := range map[string]string{
		"busybox":                         "docker.io/library/busybox:latest",
		"index.docker.io/library/busybox": "docker.io/library/busybox:latest",
		"glassback/glassback:dev":         "docker.io/glassback/glassback:dev",
		"localhost:5000/a/b/c":            "localhost:5000/a/b/c:latest",
	} {
		if got, err := FullName(given); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", given, got, err, want)
		}
	}
	for _, given := range []string{"", "Busybox", "a/../b:$", "a@sha256:" + strings.Repeat("0", 64)} {
		if got, err := FullName(given); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %s, %v", given, got, err)
		}
	}
}

func TestWhatIsLoadedCanBePulled(t *testing.T) {
	for name, test := range map[string]struct {
		archive func(t *testing.T, image v1.Image) string
		want    []string
	}{
		"an archive of docker save, compressed, with two images": {func(t *testing.T, image v1.Image) string {
			return compressed(t, dockerArchive(t, map[string]v1.Image{"a/b": image, "quay.io/a/c:2": linux(t, 1)}))
		}, []string{"docker.io/a/b:latest", "quay.io/a/c:2"}},
		"an archive of docker save, whose layers are not compressed": {plainDocker, []string{"docker.io/a/bad:1"}},
		"an archive of OCI": {ociOf, []string{"docker.io/a/bad:1"}},
		"one of containerd, with the tag alone where OCI has the name": {func(t *testing.T, image v1.Image) string {
			return ociArchive(t, image, map[string]string{containerdAnnotation: "docker.io/library/redis:7", nameAnnotation: "7"})
		}, []string{"docker.io/library/redis:7"}},
		"one for several platforms": {func(t *testing.T, image v1.Image) string {
			return ociArchive(t, severalPlatforms(t, image), named("nginx:1"))
		}, []string{"docker.io/library/nginx:1"}},
	} {
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
			if err := validate.Image(pulled); err != nil || configOf(t, pulled) != configOf(t, image) {
				t.Errorf("got image %s, want %s, error %v", configOf(t, pulled), configOf(t, image), err)
			}
		})
	}
}

// The manifests of a release name the image by the digest of this list.
func TestAnImageCanBePulledByTheDigestOfItsListOfPlatforms(t *testing.T) {
	store, image := Store(filepath.Join(t.TempDir(), "images")), linux(t, 1)
	index := severalPlatforms(t, image)
	archive := ociArchive(t, index, named("nginx:1"))
	if _, err := store.Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	pulled := pull(t, "nginx@sha256:"+digestOf(t, index), store)
	if err := validate.Image(pulled); err != nil || configOf(t, pulled) != configOf(t, image) {
		t.Errorf("got image %s, want %s, error %v", configOf(t, pulled), configOf(t, image), err)
	}
}

func severalPlatforms(t *testing.T, image v1.Image) v1.ImageIndex {
	t.Helper()
	return mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: platform(t, linux(t, 1), "plan9", "mips"), Descriptor: forPlatform("plan9", "mips")},
		mutate.IndexAddendum{Add: image, Descriptor: forPlatform("linux", runtime.GOARCH)})
}

func TestANewImageTakesTheName(t *testing.T) {
	store, first, second := Store(t.TempDir()), linux(t, 1), linux(t, 1)
	put(t, store, first, "app:1", "app:2")
	put(t, store, second, "app:1")
	for name, want := range map[string]v1.Image{
		"app:1": second, "app:2": first, "app@sha256:" + digestOf(t, first): first, // who has started to pull the first image can go on
	} {
		if got := configOf(t, pull(t, name, store)); got != configOf(t, want) {
			t.Errorf("%s is %s", name, got)
		}
	}
	if names, _ := store.Names(); !slices.Equal(names, []string{"docker.io/library/app:1", "docker.io/library/app:2"}) {
		t.Errorf("got %v", names)
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

func TestLoadRefuses(t *testing.T) {
	content := func(text string) func(t *testing.T) string {
		return func(t *testing.T) string { return write(t, text) }
	}
	files := func(name, text string) func(t *testing.T) string {
		return func(t *testing.T) string { return tarOf(t, map[string]string{name: text}) }
	}
	docker := func(t *testing.T) string { return dockerArchive(t, map[string]v1.Image{"a:1": linux(t, 1)}) }
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for name, test := range map[string]struct {
		file func(t *testing.T) string
		want string
	}{
		"no file":     {func(*testing.T) string { return "/none/app.tar" }, "load /none/app.tar: no such file or directory"},
		"a directory": {func(t *testing.T) string { return t.TempDir() }, "not a regular file"},
		"a pipe": {func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "pipe")
			must.Succeed(t, syscall.Mkfifo(file, 0o600))
			return file
		}, "not a regular file"},
		"no tar":                    {content(strings.Repeat("no tar\n", 200)), "not an archive of images"},
		"an empty file":             {content(""), "not an archive of images"},
		"no tar, compressed":        {func(t *testing.T) string { return compressed(t, write(t, "no tar")) }, "not an archive of images"},
		"half of a compressed file": {func(t *testing.T) string { return half(t, compressed(t, docker(t))) }, "unexpected EOF"},
		"half of an archive":        {func(t *testing.T) string { return half(t, docker(t)) }, "unexpected EOF"},
		"a tar of something else":   {files("etc/passwd", "root"), "not an archive of images"},
		"an image without a name": {files("manifest.json", `[{"Config":"blobs/sha256/abc","RepoTags":null,"Layers":[]}]`),
			"an image in it (abc) has no name: save it by NAME:TAG"},
		"no image":              {files("manifest.json", `[]`), "there is no image in it"},
		"a list that is none":   {files("manifest.json", `{`), "read manifest.json: "},
		"an index that is none": {files("index.json", `[`), "decode index.json: "},
		"an OCI image with but a tag": {func(t *testing.T) string {
			return ociArchive(t, linux(t, 1), named("latest"))
		}, `must be NAME:TAG, and is "latest"`},
		"another architecture": {func(t *testing.T) string {
			return dockerArchive(t, map[string]v1.Image{"app:1": platform(t, linux(t, 1), "linux", other)})
		}, "docker.io/library/app:1 is for linux/" + other + " and the node is linux/" + runtime.GOARCH + ": build it with --platform"},
		"several platforms, but not this one": {func(t *testing.T) string {
			index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: linux(t, 1), Descriptor: forPlatform("linux", other)})
			return ociArchive(t, index, named("nginx:1"))
		}, "it is for other platforms than linux/" + runtime.GOARCH},
		"a blob with a path for a name": {func(t *testing.T) string {
			return tarOf(t, map[string]string{"blobs/sha256/../../../../x": "x", "index.json": `{"schemaVersion":2,"manifests":[]}`})
		}, "there is no image in it"},
	} {
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
	store := Store(filepath.Join(t.TempDir(), "images"))
	put(t, store, linux(t, 1), "busybox")
	must.Succeed(t, os.WriteFile(filepath.Join(filepath.Dir(string(store)), "secret"), nil, 0o600))
	absent := "sha256:" + strings.Repeat("0", 64)
	const busybox = "/v2/library/busybox/"
	for name, test := range map[string]struct {
		method, path string
		status       int
		want         string
	}{
		"an unknown tag": {"GET", busybox + "manifests/9", 404,
			`no such image: docker.io/library/busybox:9: "devcluster load" adds one from an archive of "docker save"`},
		"another registry":    {"GET", "/v2/library/busybox/manifests/latest?ns=quay.io", 404, "quay.io/library/busybox:latest"},
		"an unknown digest":   {"GET", busybox + "manifests/" + absent, 404, "no such file"},
		"an unknown blob":     {"GET", busybox + "blobs/" + absent, 404, "no such file"},
		"a path for a digest": {"GET", busybox + "blobs/..%2f..%2f..%2fsecret", 404, "is not a digest"},
		"a path in a digest":  {"GET", busybox + "blobs/sha256:..%2f..%2f..%2fsecret", 404, "is not a digest"},
		"a short digest":      {"GET", busybox + "blobs/sha256:00", 404, "is not a digest"},
		"a push":              {"POST", busybox + "blobs/uploads/", 405, ""},
		"outside of the API":  {"GET", "/index.json", 404, ""},
	} {
		answer := request(t, Handler(store), test.method, test.path, nil)
		if answer.Code != test.status || !strings.Contains(answer.Body.String(), test.want) {
			t.Errorf("%s: got %d %s", name, answer.Code, answer.Body)
		}
	}
}

func TestARangeOfABlobCanBePulled(t *testing.T) { // as containerd does
	store, image := Store(t.TempDir()), linux(t, 1)
	put(t, store, image, "quay.io/manifests/blobs:1") // a name that looks like the API's paths
	size, err := layerOf(t, image).Size()
	must.Succeed(t, err)
	blob := "/v2/manifests/blobs/blobs/sha256:" + digestOf(t, layerOf(t, image)) + "?ns=quay.io"
	answer := request(t, Handler(store), "GET", blob, http.Header{"Range": {"bytes=100-"}})
	if answer.Code != http.StatusPartialContent || answer.Body.Len() != int(size)-100 {
		t.Errorf("got %d and %d bytes", answer.Code, answer.Body.Len())
	}
	if answer := request(t, Handler(store), "GET", strings.Replace(blob, "/blobs/sha", "/manifests/sha", 1), nil); answer.Code != 404 {
		t.Errorf("a layer is no manifest, and it answered %d", answer.Code)
	}
}

func TestADamagedArchiveLeavesWhatIsThere(t *testing.T) {
	layer := func(t *testing.T, image v1.Image) string { return digestOf(t, layerOf(t, image)) }
	config := func(t *testing.T, image v1.Image) string { return strings.TrimPrefix(configOf(t, image), "sha256:") }
	for name, test := range map[string]struct {
		part   func(t *testing.T, image v1.Image) string // of its name
		change func([]byte) []byte
		want   string
	}{
		"a flipped byte in a layer": {layer, flip, "it is damaged: the content of sha256:"},
		"no layer":                  {layer, func([]byte) []byte { return nil }, "no such file or directory"},
		"a longer configuration":    {config, func(b []byte) []byte { return append(b, ' ') }, "it is damaged: the content of sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			image, store := linux(t, 2), Store(t.TempDir())
			put(t, store, linux(t, 2), "good")
			before := read(t, store.indexFile())
			names, err := store.Load(t.Context(), edit(t, ociOf(t, image), test.part(t, image), test.change))
			want := "store image docker.io/a/bad:1: " + test.want
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("loaded %v: %v", names, err)
			}
			if after := read(t, store.indexFile()); after != before {
				t.Errorf("the store's index is now %s", after)
			}
			if err := validate.Image(pull(t, "good", store)); err != nil {
				t.Error(err)
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
	image, err = mutate.ConfigFile(image, config)
	must.Succeed(t, err)
	return image
}

// configOf identifies an image: the way through an archive may change its manifest, as it compresses the layers.
func configOf(t *testing.T, image v1.Image) string {
	t.Helper()
	digest, err := image.ConfigName()
	must.Succeed(t, err)
	return digest.String()
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

// ociArchive returns an archive of OCI with an image, or a list of images for platforms.
func ociArchive(t *testing.T, image mutate.Appendable, annotations map[string]string) string {
	t.Helper()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "oci.tar")
	addendum := mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Annotations: annotations}}
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, addendum)); err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	archive := tar.NewWriter(&data)
	must.Succeed(t, archive.AddFS(os.DirFS(dir)))
	must.Succeed(t, errors.Join(archive.Close(), os.WriteFile(file, data.Bytes(), 0o600)))
	return file
}

func named(name string) map[string]string { return map[string]string{nameAnnotation: name} }

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
	var data bytes.Buffer
	w := gzip.NewWriter(&data)
	_, _ = io.WriteString(w, read(t, file))
	must.Succeed(t, w.Close())
	return write(t, data.String())
}

func half(t *testing.T, file string) string {
	t.Helper()
	content := read(t, file)
	return write(t, content[:len(content)/2])
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

func ociOf(t *testing.T, image v1.Image) string {
	t.Helper()
	return ociArchive(t, image, named("a/bad:1"))
}

// plainDocker returns an archive as Docker makes it, with layers that are not compressed: 1.tar and so on.
func plainDocker(t *testing.T, image v1.Image) string {
	t.Helper()
	config, err := image.RawConfigFile()
	must.Succeed(t, err)
	name := strings.TrimPrefix(configOf(t, image), "sha256:") + ".json"
	layers, err := image.Layers()
	must.Succeed(t, err)
	desc, files := tarball.Descriptor{Config: name, RepoTags: []string{"a/bad:1"}}, map[string]string{name: string(config)}
	for i, layer := range layers {
		content, err := layer.Uncompressed()
		must.Succeed(t, err)
		data, err := io.ReadAll(content)
		must.Succeed(t, err)
		file := string(rune('1'+i)) + ".tar"
		desc.Layers = append(desc.Layers, file)
		files[file] = string(data)
	}
	manifest, err := json.Marshal([]tarball.Descriptor{desc})
	must.Succeed(t, err)
	files["manifest.json"] = string(manifest)
	return tarOf(t, files)
}

// edit changes a file of an archive, of which the name has a part, or leaves it out if change returns nil.
func edit(t *testing.T, archive, part string, change func([]byte) []byte) string {
	t.Helper()
	files, found := map[string]string{}, false
	reader := tar.NewReader(strings.NewReader(read(t, archive)))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Succeed(t, err)
		data, err := io.ReadAll(reader)
		must.Succeed(t, err)
		if strings.Contains(path.Base(header.Name), part) {
			found = true
			data = change(data)
		}
		if header.Typeflag == tar.TypeReg && data != nil {
			files[header.Name] = string(data)
		}
	}
	if !found {
		t.Fatalf("there is no %s in %s", part, archive)
	}
	return tarOf(t, files)
}

func flip(data []byte) []byte {
	data = bytes.Clone(data)
	data[len(data)/2] ^= 1
	return data
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	must.Succeed(t, err)
	return string(data)
}

func layerOf(t *testing.T, image v1.Image) v1.Layer {
	t.Helper()
	layers, err := image.Layers()
	must.Succeed(t, err)
	return layers[0]
}

func digestOf(t *testing.T, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	digest, err := of.Digest()
	must.Succeed(t, err)
	return digest.Hex
}
