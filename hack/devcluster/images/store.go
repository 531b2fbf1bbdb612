// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
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
	entries, err := s.Entries()
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

// Check returns an error if the image of a name is missing (ErrNotFound) or incomplete. It compares only the sizes of the blobs with the
// manifest, which is fast.
func (s Store) Check(image string) error {
	found, err := s.Image(image)
	if err != nil {
		return err
	}
	manifest, err := found.Manifest()
	if err != nil {
		return fmt.Errorf("read manifest of %s: %w", image, err)
	}
	for _, part := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
		if err := s.checkSize(part); err != nil {
			return fmt.Errorf("check %s: %w", image, err)
		}
	}
	return nil
}

func (s Store) checkSize(desc v1.Descriptor) error {
	info, err := os.Stat(s.blobPath(desc.Digest))
	if err != nil {
		return err
	}
	if info.Size() != desc.Size {
		return fmt.Errorf("blob %s has %d bytes, want %d", desc.Digest, info.Size(), desc.Size)
	}
	return nil
}

// Put stores an image under the given names. Other images lose these names.
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
	if err := s.addBlobs(ctx, image); err != nil {
		return fmt.Errorf("store image %s: %w", strings.Join(full, ", "), err)
	}
	if err := s.addList(ctx, list); err != nil {
		return fmt.Errorf("store the list of platforms of image %s: %w", strings.Join(full, ", "), err)
	}
	if err := s.addEntries(image, full); err != nil {
		return fmt.Errorf("enter image %s into the store: %w", strings.Join(full, ", "), err)
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

// addBlobs adds the blobs of an image. It adds the layers in parallel, since some must still be compressed.
func (s Store) addBlobs(ctx context.Context, image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	errs := make([]error, len(layers))
	var group sync.WaitGroup
	for i, layer := range layers {
		group.Go(func() {
			desc, err := partial.Descriptor(layer)
			if err == nil {
				err = s.addBlob(ctx, desc, layer.Compressed)
			}
			errs[i] = err
		})
	}
	group.Wait()
	manifest, manifestErr := image.Manifest()
	desc, descErr := partial.Descriptor(image)
	if err := cmp.Or(append(errs, manifestErr, descErr)...); err != nil {
		return err
	}
	if err := s.addBlob(ctx, &manifest.Config, opener(image.RawConfigFile)); err != nil {
		return err
	}
	return s.addBlob(ctx, desc, opener(image.RawManifest))
}

// addList adds the list of an image's platforms, unless it is nil.
func (s Store) addList(ctx context.Context, list v1.ImageIndex) error {
	if list == nil {
		return nil
	}
	desc, err := partial.Descriptor(list)
	if err != nil {
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

// addBlob adds a blob, unless the store has it undamaged. It returns an error if the content does not match the digest. A rename puts the
// blob in place after all of it is on the disk, so a crash of the process or the machine leaves no partial blob.
func (s Store) addBlob(ctx context.Context, blob *v1.Descriptor, open func() (io.ReadCloser, error)) error {
	if s.holds(ctx, blob) {
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
	if err := verify(io.TeeReader(until(ctx, content), f), blob.Digest, blob.Size); err != nil {
		return fmt.Errorf("blob %s: %w", blob.Digest, err)
	}
	to := s.blobPath(blob.Digest)
	if err := cmp.Or(f.Chmod(0o644), f.Sync(), os.MkdirAll(filepath.Dir(to), 0o755)); err != nil {
		return err
	}
	return os.Rename(f.Name(), to)
}

// holds reports whether the store has an undamaged blob.
func (s Store) holds(ctx context.Context, blob *v1.Descriptor) bool {
	if s.checkSize(*blob) != nil {
		return false
	}
	f, err := s.blob(blob.Digest)
	if err != nil {
		return false
	}
	defer f.Close()
	return verify(until(ctx, f), blob.Digest, blob.Size) == nil
}

// blob opens a blob, or fails with fs.ErrNotExist.
func (s Store) blob(digest v1.Hash) (*os.File, error) { return os.Open(s.blobPath(digest)) }

// blobPath returns the path of a blob. A valid digest cannot lead out of the store.
func (s Store) blobPath(digest v1.Hash) string {
	return filepath.Join(string(s), "blobs", digest.Algorithm, digest.Hex)
}
