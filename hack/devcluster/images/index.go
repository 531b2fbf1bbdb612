// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
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

// Entries is what the full names of a store stand for.
type Entries map[string]v1.Descriptor

// Entries returns what the store's names stand for now, for Restore.
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

// Restore makes full names stand for what they stood for before, or for nothing if they did not. Other names stay as they are.
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

// Repair makes a store whose index.json is none an empty one, and returns what was wrong with it, or nil. That is for a store of which the
// images can be made again.
func (s Store) Repair(ctx context.Context) (damage, err error) {
	if damage, err := s.damage(); damage == nil || err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another process may have repaired it since.
	damage, err = s.damage()
	if damage == nil || err != nil {
		return nil, err
	}
	if err := os.Remove(s.indexFile()); err != nil {
		return nil, fmt.Errorf("remove damaged index of image store: %w", err)
	}
	return damage, nil
}

// damage returns what is wrong with the content of index.json, and an error if that cannot be told.
func (s Store) damage() (damage, err error) {
	data, err := os.ReadFile(s.indexFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index of image store: %w", err)
	}
	if _, err := v1.ParseIndexManifest(bytes.NewReader(data)); err != nil {
		return fmt.Errorf("decode index.json: %w", err), nil
	}
	return nil, nil
}

// enter puts an image, whose blobs are there, into index.json under the given full names. The caller holds the lock.
func (s Store) enter(image v1.Image, names []string) error {
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

// rewrite replaces the entries of names in index.json, and removes those that are nil. The caller holds the lock.
func (s Store) rewrite(entries map[string]*v1.Descriptor) error {
	index, err := s.index()
	if err != nil {
		return err
	}
	manifests := []v1.Descriptor{} // and not nil, which is null in JSON
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
	if err := s.mark(); err != nil {
		return err
	}
	return s.replaceIndex(append(data, '\n'))
}

// mark writes the file that tells other tools the directory's format. This package does not read it.
func (s Store) mark() error {
	const content = `{"imageLayoutVersion":"1.0.0"}`
	path := filepath.Join(string(s), "oci-layout")
	if have, err := os.ReadFile(path); err == nil && string(have) == content {
		return nil
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// replaceIndex replaces index.json in one step, as it does blobs: see addBlob.
func (s Store) replaceIndex(data []byte) error {
	f, err := os.Create(s.indexFile() + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), s.indexFile())
}

func (s Store) indexFile() string { return filepath.Join(string(s), "index.json") }

// index returns what index.json says now. A store without one is empty.
func (s Store) index() (*v1.IndexManifest, error) {
	f, err := os.Open(s.indexFile())
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

// entry returns what a full name stands for, or ErrNotFound.
func (s Store) entry(fullName string) (v1.Descriptor, error) {
	index, err := s.index()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, desc := range index.Manifests {
		if desc.Annotations[nameAnnotation] == fullName {
			return desc, nil
		}
	}
	return v1.Descriptor{}, fmt.Errorf("%w: %s", ErrNotFound, fullName)
}
