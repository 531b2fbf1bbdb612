// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/glassback/glassback/pkg/must"
)

// damage is how an archive of an image, a/bad:1, came to be another one.
type damage struct {
	archive func(t *testing.T, image v1.Image) string
	want    string
}

func damages() map[string]damage {
	return map[string]damage{
		"a flipped byte in a layer of OCI": {func(t *testing.T, image v1.Image) string {
			return edit(t, ociOf(t, image), digestOf(t, layerOf(t, image)), flip)
		}, "layer 1: its digest is sha256:"},
		"half a layer of OCI": {func(t *testing.T, image v1.Image) string {
			return edit(t, ociOf(t, image), digestOf(t, layerOf(t, image)), func(b []byte) []byte { return b[:len(b)/2] })
		}, "layer 1: it has "},
		"no layer of OCI": {func(t *testing.T, image v1.Image) string {
			return edit(t, ociOf(t, image), digestOf(t, layerOf(t, image)), func([]byte) []byte { return nil })
		}, "layer 1: no such file or directory"},
		"a flipped byte in a configuration of OCI": {func(t *testing.T, image v1.Image) string {
			return edit(t, ociOf(t, image), hexOf(configOf(t, image)), flip)
		}, "configuration: its digest is sha256:"},
		"no configuration of OCI": {func(t *testing.T, image v1.Image) string {
			return edit(t, ociOf(t, image), hexOf(configOf(t, image)), func([]byte) []byte { return nil })
		}, "read configuration: no such file or directory"},
		"a change in a manifest of OCI": {func(t *testing.T, image v1.Image) string {
			return edit(t, ociOf(t, image), digestOf(t, image), func(b []byte) []byte { return append(b, ' ') })
		}, "manifest: its digest is sha256:"},
		"a change in the list of platforms": {func(t *testing.T, image v1.Image) string {
			index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: forPlatform("linux", runtime.GOARCH)})
			archive := ociArchive(t, mutate.IndexAddendum{Add: index, Descriptor: annotated(nameAnnotation, "a/bad:1")})
			return edit(t, archive, digestOf(t, index), func(b []byte) []byte { return append(b, ' ') })
		}, "list of platforms: it has "},
		"layers that are not the configuration's": {func(t *testing.T, image v1.Image) string {
			config, err := image.ConfigFile()
			must.Succeed(t, err)
			config = config.DeepCopy()
			slices.Reverse(config.RootFS.DiffIDs)
			if image, err = mutate.ConfigFile(image, config); err != nil {
				t.Fatal(err)
			}
			return ociOf(t, image)
		}, "layer 1 without compression: its digest is sha256:"},
		"a flipped byte in a layer of docker save": {func(t *testing.T, image v1.Image) string {
			return edit(t, plainDocker(t, image), "1.tar", flip)
		}, "layer 1 without compression: its digest is sha256:"},
		"a flipped byte in a compressed layer of Docker's": {func(t *testing.T, image v1.Image) string {
			return edit(t, dockerArchive(t, map[string]v1.Image{"a/bad:1": image}), digestOf(t, layerOf(t, image)), flip)
		}, "layer 1 without compression: "},
		"a flipped byte in a configuration of docker save": {func(t *testing.T, image v1.Image) string {
			return edit(t, plainDocker(t, image), hexOf(configOf(t, image)), flip)
		}, "configuration: "},
		"a digest of Docker's that is another layer's": {func(t *testing.T, image v1.Image) string {
			file := dockerArchive(t, map[string]v1.Image{"a/bad:1": image})
			return edit(t, file, "manifest.json", func(b []byte) []byte {
				var manifest []tarball.Descriptor
				must.Succeed(t, json.Unmarshal(b, &manifest))
				layer := layerOf(t, image)
				diffID, _ := layer.DiffID()
				size, _ := layer.Size()
				wrong := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
				manifest[0].LayerSources = map[v1.Hash]v1.Descriptor{diffID: {MediaType: types.DockerLayer, Size: size, Digest: wrong}}
				data, err := json.Marshal(manifest)
				must.Succeed(t, err)
				return data
			})
		}, "layer 1: its digest is sha256:"},
	}
}

func TestADamagedArchiveLeavesWhatIsThere(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			image, store := linux(t, 2), Store(t.TempDir())
			put(t, store, image, "good") // of the same layers
			before := read(t, store.indexFile())
			if names, err := store.Load(t.Context(), damage.archive(t, image)); err == nil {
				t.Fatalf("loaded %v", names)
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

func TestAStoreTakesNoBlobThatIsAnother(t *testing.T) {
	store, image := Store(t.TempDir()), linux(t, 1)
	err := store.Put(t.Context(), lying{image, linux(t, 1)}, "app")
	if err == nil || !strings.Contains(err.Error(), "store image docker.io/library/app:latest: blob sha256:") {
		t.Errorf("got %v", err)
	}
	if names, err := store.Names(); len(names) > 0 || err != nil {
		t.Errorf("the store has %v, %v", names, err)
	}
	if left, _ := filepath.Glob(filepath.Join(string(store), "new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// lying is an image with the layers of another one under its own digests.
type lying struct {
	v1.Image
	other v1.Image
}

func (l lying) Layers() ([]v1.Layer, error) {
	own, err := l.Image.Layers()
	if err != nil {
		return nil, err
	}
	others, err := l.other.Layers()
	if err != nil {
		return nil, err
	}
	return []v1.Layer{lyingLayer{own[0], others[0]}}, nil
}

type lyingLayer struct {
	v1.Layer
	content v1.Layer
}

func (l lyingLayer) Compressed() (io.ReadCloser, error) { return l.content.Compressed() }

func TestAGoodBlobIsNotReplaced(t *testing.T) {
	store, image := Store(t.TempDir()), linux(t, 1)
	put(t, store, image, "app")
	path := filepath.Join(string(store), "blobs", "sha256", digestOf(t, layerOf(t, image)))
	before, err := os.Stat(path)
	must.Succeed(t, err)
	put(t, store, image, "app:2")
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("it is another file now, %v", err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), int(before.Size())), 0o600); err != nil { // as by a bad disk
		t.Fatal(err)
	}
	put(t, store, image, "app:3")
	if err := validate.Image(pull(t, "app", store)); err != nil {
		t.Errorf("a bad one of the same size stays: %v", err)
	}
}

func TestRestore(t *testing.T) {
	store := Store(t.TempDir())
	first, second := linux(t, 1), linux(t, 1)
	put(t, store, first, "old", "kept")
	before, err := store.Entries()
	must.Succeed(t, err)
	put(t, store, second, "old", "new", "other")
	must.Succeed(t, store.Restore(t.Context(), before, "docker.io/library/old:latest", "docker.io/library/new:latest"))
	names, err := store.Names()
	if err != nil || !slices.Equal(names, []string{
		"docker.io/library/kept:latest", "docker.io/library/old:latest", "docker.io/library/other:latest"}) {
		t.Errorf("the store has %v, %v", names, err)
	}
	for name, want := range map[string]v1.Image{"old": first, "kept": first, "other": second} {
		if got := configOf(t, pull(t, name, store)); got != configOf(t, want) {
			t.Errorf("%s is %s", name, got)
		}
	}
}

func TestRepair(t *testing.T) {
	for content, want := range map[string]string{"": "decode index.json: EOF", "{": "decode index.json: unexpected EOF", "{}": ""} {
		store := Store(t.TempDir())
		must.Succeed(t, os.WriteFile(store.indexFile(), []byte(content), 0o600))
		damage, err := store.Repair(t.Context())
		if err != nil || want == "" && damage != nil || want != "" && (damage == nil || damage.Error() != want) {
			t.Errorf("%q: got %v, %v", content, damage, err)
		}
		put(t, store, linux(t, 1), "app")
		if damage, err := store.Repair(t.Context()); damage != nil || err != nil {
			t.Errorf("a whole store: %v, %v", damage, err)
		}
		if err := validate.Image(pull(t, "app", store)); err != nil {
			t.Error(err)
		}
	}
	none := Store(filepath.Join(t.TempDir(), "none"))
	if damage, err := none.Repair(t.Context()); damage != nil || err != nil {
		t.Errorf("no store: %v, %v", damage, err)
	}
}

func TestCheck(t *testing.T) {
	store, image := Store(t.TempDir()), linux(t, 2)
	if err := store.Check("app"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	for part, digest := range map[string]string{
		"manifest": digestOf(t, image), "configuration": hexOf(configOf(t, image)), "layer": digestOf(t, layerOf(t, image)),
	} {
		path := filepath.Join(string(store), "blobs", "sha256", digest)
		for damage, do := range map[string]func() error{
			"half": func() error { return os.Truncate(path, 100) }, "empty": func() error { return os.Truncate(path, 0) },
			"missing": func() error { return os.Remove(path) },
		} {
			put(t, store, image, "app")
			must.Succeed(t, store.Check("app"))
			must.Succeed(t, do())
			if err := store.Check("app"); err == nil {
				t.Errorf("%s %s: it is whole", damage, part)
			}
		}
	}
}

func TestLoadCanBeInterruptedAnywhere(t *testing.T) {
	image, store := linux(t, 2), Store(t.TempDir())
	put(t, store, image, "app")
	before := read(t, store.indexFile())
	for name, file := range map[string]string{
		"of OCI": ociOf(t, linux(t, 2)), "of Docker": plainDocker(t, linux(t, 2)),
		"compressed": compressed(t, dockerArchive(t, map[string]v1.Image{"a/bad:1": linux(t, 2)})),
	} {
		for reads := int64(0); ; reads++ {
			ctx := &short{Context: t.Context()}
			ctx.left.Store(reads)
			_, err := store.Load(ctx, file)
			if err == nil && reads > 5 {
				break
			}
			if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "\n") || read(t, store.indexFile()) != before {
				t.Fatalf("%s, after %d reads: %v", name, reads, err)
			}
		}
		before = read(t, store.indexFile())
	}
}

// short is a context that ends when it was asked often enough.
type short struct {
	context.Context
	left atomic.Int64
}

func (s *short) Err() error {
	if s.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestAWaitForAnotherWriterCanBeInterrupted(t *testing.T) {
	store := Store(t.TempDir())
	unlock, err := store.lock(t.Context())
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	if err := store.Put(ctx, linux(t, 1), "app"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	time.AfterFunc(lockPoll, unlock)
	put(t, store, linux(t, 1), "app")
}

func ociOf(t *testing.T, image v1.Image) string {
	t.Helper()
	return ociArchive(t, mutate.IndexAddendum{Add: image, Descriptor: annotated(nameAnnotation, "a/bad:1")})
}

// plainDocker returns an archive as Docker makes it, with layers that are not compressed: 1.tar and so on.
func plainDocker(t *testing.T, image v1.Image) string {
	t.Helper()
	config, err := image.RawConfigFile()
	must.Succeed(t, err)
	name := hexOf(configOf(t, image)) + ".json"
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

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }
