// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// nameAnnotation is where index.json has an image's name.
const nameAnnotation = "org.opencontainers.image.ref.name"

// dockerHub is what Docker and containerd call the registry of names without one. The library calls it by its address.
const dockerHub = "docker.io"

// ErrNotFound says that a store has no image of a name.
var ErrNotFound = errors.New("no such image")

// Store is a directory that holds images under their full names, such as docker.io/library/busybox:latest. The directory need not exist: it
// is then an empty store, and Put makes it.
type Store string

// FullName returns the full name of an image as Docker understands it: busybox is docker.io/library/busybox:latest.
func FullName(image string) (string, error) {
	tag, err := name.NewTag(image)
	if err != nil {
		return "", fmt.Errorf("image name %q: want [REGISTRY/]NAME[:TAG], in lower case but for the tag", image)
	}
	registry := tag.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = dockerHub
	}
	return registry + "/" + tag.RepositoryStr() + ":" + tag.TagStr(), nil
}

// Names lists the full names of the store's images in alphabetical order.
func (s Store) Names() ([]string, error) {
	index, err := s.index()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, desc := range index.Manifests {
		if name := desc.Annotations[nameAnnotation]; name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Image returns the image of a name, or ErrNotFound.
func (s Store) Image(image string) (v1.Image, error) {
	full, err := FullName(image)
	if err != nil {
		return nil, err
	}
	digest, err := s.digest(full)
	if err != nil {
		return nil, err
	}
	found, err := layout.Path(s).Image(digest)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", full, err)
	}
	return found, nil
}

// Put stores an image under the given names, and takes them from the images that had them.
func (s Store) Put(image v1.Image, names ...string) error {
	full := make([]string, len(names))
	for i, name := range names {
		var err error
		if full[i], err = FullName(name); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(string(s), 0o755); err != nil {
		return fmt.Errorf("create image store: %w", err)
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.addBlobs(image); err != nil {
		return fmt.Errorf("store image %s: %w", strings.Join(full, ", "), err)
	}
	if err := s.enter(image, full); err != nil {
		return fmt.Errorf("enter image %s into the store: %w", strings.Join(full, ", "), err)
	}
	return nil
}

// lock makes this process the only writer. The lock lasts until the returned function is called.
func (s Store) lock() (func(), error) {
	f, err := os.OpenFile(filepath.Join(string(s), "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock of image store: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock image store %s: %w", s, err)
	}
	return func() { f.Close() }, nil
}

// addBlobs adds what an image is made of. The library writes blobs in place and takes one that is there for whole, so it writes them beside
// the store, and each comes into it by a rename: a process that dies leaves no half of one.
func (s Store) addBlobs(image v1.Image) error {
	stage, err := os.MkdirTemp(string(s), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage) //nolint:errcheck // What is left is not in the store.
	if err := layout.Path(stage).WriteImage(image); err != nil {
		return err
	}
	made, err := filepath.Glob(filepath.Join(stage, "blobs", "*", "*"))
	if err != nil {
		return err
	}
	for _, from := range made {
		name, err := filepath.Rel(stage, from)
		if err != nil {
			return err
		}
		to := filepath.Join(string(s), name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Chmod(from, 0o644); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return nil
}

// enter puts an image, whose blobs are there, into index.json under the given full names.
func (s Store) enter(image v1.Image, names []string) error {
	var index v1.ImageIndex = empty.Index
	if _, err := s.index(); err != nil {
		return err
	} else if stored, err := layout.ImageIndexFromPath(string(s)); err == nil {
		index = stored
	}
	taken := match.Matcher(func(desc v1.Descriptor) bool { return slices.Contains(names, desc.Annotations[nameAnnotation]) })
	index = mutate.RemoveManifests(index, taken)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		annotations := map[string]string{nameAnnotation: name}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Annotations: annotations}})
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	if err := s.replace("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	return s.replace("index.json", append(data, '\n'))
}

// replace replaces a file of the store in one step. The caller holds the lock.
func (s Store) replace(name string, data []byte) error {
	path := filepath.Join(string(s), name)
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// index returns what index.json says now. A store without one is empty.
func (s Store) index() (*v1.IndexManifest, error) {
	f, err := os.Open(filepath.Join(string(s), "index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &v1.IndexManifest{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open index of image store: %w", err)
	}
	defer f.Close()
	index, err := v1.ParseIndexManifest(f)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", f.Name(), err)
	}
	return index, nil
}

// digest returns the digest of the manifest of a full name, or ErrNotFound.
func (s Store) digest(fullName string) (v1.Hash, error) {
	index, err := s.index()
	if err != nil {
		return v1.Hash{}, err
	}
	for _, desc := range index.Manifests {
		if desc.Annotations[nameAnnotation] == fullName {
			return desc.Digest, nil
		}
	}
	return v1.Hash{}, fmt.Errorf("%w: %s", ErrNotFound, fullName)
}

// blob opens a blob, or fails with fs.ErrNotExist. The digest is a valid one, so that its path stays in the store.
func (s Store) blob(digest v1.Hash) (*os.File, error) {
	return os.Open(filepath.Join(string(s), "blobs", digest.Algorithm, digest.Hex))
}
