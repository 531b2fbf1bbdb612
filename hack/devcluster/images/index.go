// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Entries maps the full names of a store to the descriptors of their images.
type Entries map[string]v1.Descriptor

// Entries returns the current entries of the store. Restore can bring them back.
func (s Store) Entries() (Entries, error) {
	index, err := s.index()
	if err != nil {
		return nil, err
	}
	entries := Entries{}
	for _, desc := range index.Manifests {
		if name := desc.Annotations[nameAnnotation]; name != "" {
			entries[name] = desc
		}
	}
	return entries, nil
}

// Restore sets the entries of the given full names to those in before. It removes a name that is not in before. Other names do not change.
func (s Store) Restore(ctx context.Context, before Entries, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	entries := map[string]*v1.Descriptor{}
	for _, name := range names {
		entries[name] = nil
		if desc, ok := before[name]; ok {
			entries[name] = &desc
		}
	}
	if err := s.rewrite(entries); err != nil {
		return fmt.Errorf("restore entries of image store %s: %w", s, err)
	}
	return nil
}

// Repair removes index.json if it cannot be decoded, so that the store is empty. It returns the error of decoding as damage, or nil for a
// store without damage. Use Repair only for a store whose images can be built again.
func (s Store) Repair(ctx context.Context) (damage, err error) {
	_, err = s.index()
	if _, damaged := errors.AsType[decodeError](err); !damaged {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another process may have repaired it since.
	_, err = s.index()
	cause, damaged := errors.AsType[decodeError](err)
	if !damaged {
		return nil, err
	}
	if err := os.Remove(s.indexFile()); err != nil {
		return nil, fmt.Errorf("remove damaged index of image store: %w", err)
	}
	return fmt.Errorf("decode index.json: %w", cause), nil
}

// addEntries adds an image to index.json under the given full names. The image's blobs are in the store. The caller holds the lock.
func (s Store) addEntries(image v1.Image, names []string) error {
	desc, err := partial.Descriptor(image)
	if err != nil {
		return err
	}
	entries := map[string]*v1.Descriptor{}
	for _, name := range names {
		entry := *desc
		entry.Annotations = map[string]string{nameAnnotation: name}
		entries[name] = &entry
	}
	return s.rewrite(entries)
}

// rewrite replaces entries of index.json by full name. A nil entry removes the name. The caller holds the lock.
func (s Store) rewrite(entries map[string]*v1.Descriptor) error {
	index, err := s.index()
	if err != nil {
		return err
	}
	manifests := []v1.Descriptor{} // A nil slice would be null in JSON.
	for _, desc := range index.Manifests {
		if _, replaced := entries[desc.Annotations[nameAnnotation]]; !replaced {
			manifests = append(manifests, desc)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if entry := entries[name]; entry != nil {
			manifests = append(manifests, *entry)
		}
	}
	index.SchemaVersion, index.MediaType, index.Manifests = 2, types.OCIImageIndex, manifests
	data, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return err
	}
	// The layout file names the format of the directory for other tools. This package does not read it.
	if err := os.WriteFile(filepath.Join(string(s), "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	return s.replaceIndex(append(data, '\n'))
}

// replaceIndex replaces index.json by a rename: a reader sees the old file or the new one, never a part.
func (s Store) replaceIndex(data []byte) error {
	f, err := os.Create(s.indexFile() + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := cmp.Or(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.indexFile())
}

func (s Store) indexFile() string { return filepath.Join(string(s), "index.json") }

// decodeError is the error of decoding index.json. Repair distinguishes it from an error of reading the file.
type decodeError struct{ error }

// index returns the content of index.json. A store without that file is empty.
func (s Store) index() (*v1.IndexManifest, error) {
	data, err := os.ReadFile(s.indexFile())
	if errors.Is(err, fs.ErrNotExist) {
		return &v1.IndexManifest{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index of image store: %w", err)
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", s.indexFile(), decodeError{err})
	}
	return index, nil
}

// entry returns the entry of a full name, or ErrNotFound.
func (s Store) entry(fullName string) (v1.Descriptor, error) {
	entries, err := s.Entries()
	if err != nil {
		return v1.Descriptor{}, err
	}
	if desc, ok := entries[fullName]; ok {
		return desc, nil
	}
	return v1.Descriptor{}, fmt.Errorf("%w: %s", ErrNotFound, fullName)
}
