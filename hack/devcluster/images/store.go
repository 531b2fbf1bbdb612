// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
)

// nameAnnotation holds the name of an image in index.json.
const nameAnnotation = "org.opencontainers.image.ref.name"

// dockerHub is the default registry in names of Docker and containerd. The library replaces it by the registry's address.
const dockerHub = "docker.io"

// lockPoll is the interval at which a writer tries to get the lock.
const lockPoll = 20 * time.Millisecond

// ErrNotFound is the error for a name that no image of a store has.
var ErrNotFound = errors.New("no such image")

// Store is a directory that holds images under their full names, such as docker.io/library/busybox:latest. A directory that does not
// exist is an empty store; Put creates it.
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
	entries, err := s.entries()
	return slices.Sorted(maps.Keys(entries)), err
}

// Image returns the image of a name, or ErrNotFound.
func (s Store) Image(image string) (v1.Image, error) {
	full, err := FullName(image)
	if err != nil {
		return nil, err
	}
	desc, err := s.entry(full)
	if err != nil {
		return nil, err
	}
	found, err := layout.Path(s).Image(desc.Digest)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", full, err)
	}
	return found, nil
}

// Put stores an image under the given names. Other images lose these names. It returns an error if the content of a part does not match
// its digest.
func (s Store) Put(ctx context.Context, image v1.Image, names ...string) error {
	return s.put(ctx, image, nil, names)
}

// put is Put for an image of several platforms. The store keeps the image of one platform. It also keeps the list of platforms, unless
// that is nil, since a Pod may name the image by the digest of the list.
func (s Store) put(ctx context.Context, image v1.Image, list v1.ImageIndex, names []string) error {
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
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err = s.addBlobs(ctx, image, list); err == nil {
		err = s.addEntries(image, full)
	}
	if err != nil {
		return fmt.Errorf("store image %s: %w", strings.Join(full, ", "), cause(err))
	}
	return nil
}

// lock makes this process the only writer until the returned function is called. It polls, since a wait in the kernel could not be
// interrupted.
func (s Store) lock(ctx context.Context) (func(), error) {
	f, err := os.OpenFile(filepath.Join(string(s), "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock of image store: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock image store %s: %w", s, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for another writer of image store %s: %w", s, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

// addBlobs adds the blobs of an image, and its list of platforms unless that is nil. It adds the layers in parallel, since some must still
// be compressed.
func (s Store) addBlobs(ctx context.Context, image v1.Image, list v1.ImageIndex) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, layer := range layers {
		group.Go(func() error {
			desc, err := partial.Descriptor(layer)
			if err != nil {
				return err
			}
			return s.addBlob(ctx, desc, layer.Compressed)
		})
	}
	manifest, manifestErr := image.Manifest()
	desc, descErr := partial.Descriptor(image)
	if err := cmp.Or(group.Wait(), manifestErr, descErr); err != nil {
		return err
	}
	err = cmp.Or(s.addBlob(ctx, &manifest.Config, opener(image.RawConfigFile)), s.addBlob(ctx, desc, opener(image.RawManifest)))
	if err != nil || list == nil {
		return err
	}
	if desc, err = partial.Descriptor(list); err != nil {
		return err
	}
	return s.addBlob(ctx, desc, opener(list.RawManifest))
}

func opener(get func() ([]byte, error)) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		data, err := get()
		return io.NopCloser(bytes.NewReader(data)), err
	}
}

// addBlob adds a blob, unless the store has it. It returns an error if the content does not match the digest. A rename puts the blob in
// place after all of it is on the disk, so a crash of the process or the machine leaves no partial blob.
func (s Store) addBlob(ctx context.Context, blob *v1.Descriptor, open func() (io.ReadCloser, error)) error {
	to := s.blobPath(blob.Digest)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	f, err := os.CreateTemp(string(s), "new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // After the rename, this name is gone.
	defer f.Close()
	hash, err := v1.Hasher(blob.Digest.Algorithm)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(f, hash), until(ctx, content)); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != blob.Digest.Hex {
		return fmt.Errorf("it is damaged: the content of %s has the digest %s", blob.Digest, got)
	}
	if err := cmp.Or(f.Chmod(0o644), f.Sync(), os.MkdirAll(filepath.Dir(to), 0o755)); err != nil {
		return err
	}
	return os.Rename(f.Name(), to)
}

// blobPath returns the path of a blob. A valid digest cannot lead out of the store.
func (s Store) blobPath(digest v1.Hash) string {
	return filepath.Join(string(s), "blobs", digest.Algorithm, digest.Hex)
}

// addEntries adds an image to index.json under the given full names. The image's blobs are in the store. The caller holds the lock.
func (s Store) addEntries(image v1.Image, names []string) error {
	desc, err := partial.Descriptor(image)
	if err != nil {
		return err
	}
	entries, err := s.entries()
	if err != nil {
		return err
	}
	for _, name := range names {
		entries[name] = *desc
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry := entries[name]
		entry.Annotations = map[string]string{nameAnnotation: name}
		index.Manifests = append(index.Manifests, entry)
	}
	data, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return err
	}
	// The layout file names the format of the directory for other tools. This package does not read it.
	if err := os.WriteFile(filepath.Join(string(s), "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	// After a rename, a reader sees the old file or the new one, never a part.
	f, err := os.Create(s.indexFile() + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err := cmp.Or(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.indexFile())
}

func (s Store) indexFile() string { return filepath.Join(string(s), "index.json") }

// entries maps the full names of the store to the descriptors of their images. A store without index.json is empty.
func (s Store) entries() (map[string]v1.Descriptor, error) {
	data, err := os.ReadFile(s.indexFile())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]v1.Descriptor{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index of image store: %w", err)
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w: remove the directory, and make its images again", s.indexFile(), err)
	}
	entries := map[string]v1.Descriptor{}
	for _, desc := range index.Manifests {
		entries[desc.Annotations[nameAnnotation]] = desc
	}
	return entries, nil
}

// entry returns the entry of a full name, or ErrNotFound.
func (s Store) entry(fullName string) (v1.Descriptor, error) {
	entries, err := s.entries()
	if err != nil {
		return v1.Descriptor{}, err
	}
	if desc, ok := entries[fullName]; ok {
		return desc, nil
	}
	return v1.Descriptor{}, fmt.Errorf("%w: %s", ErrNotFound, fullName)
}

// until returns a reader of r that fails when ctx ends.
func until(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// cause returns the cause of an error about a file, without the path: the caller adds the path that the user knows.
func cause(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
