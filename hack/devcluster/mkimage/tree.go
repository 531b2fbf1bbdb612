// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// tree is the files of a layer by path, such as usr/bin/nginx.
type tree map[string]node

// node is a file, a directory or a symbolic link.
type node struct {
	kind   byte // the type of a tar header
	mode   int64
	owner  int // user and group
	target string
	data   []byte
}

func (t tree) file(name string, mode int64, data []byte) {
	t[name] = node{kind: tar.TypeReg, mode: mode, data: data}
}

func (t tree) dir(name string, mode int64, owner int) {
	t[name] = node{kind: tar.TypeDir, mode: mode, owner: owner}
}

func (t tree) symlink(name, target string) {
	t[name] = node{kind: tar.TypeSymlink, mode: 0o777, target: target}
}

// layer makes a layer of the tree. Root owns directories that the tree does not name. All times are zero, so the same tree always gives
// the same layer.
func (t tree) layer() (v1.Layer, error) {
	for name := range maps.Clone(t) {
		for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
			if _, ok := t[parent]; !ok {
				t.dir(parent, 0o755, 0)
			}
		}
	}
	var data bytes.Buffer
	archive := tar.NewWriter(&data)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		n := t[name]
		header := &tar.Header{
			Typeflag: n.kind, Name: name, Linkname: n.target, Mode: n.mode, Uid: n.owner, Gid: n.owner,
			Size: int64(len(n.data)), ModTime: time.Unix(0, 0),
		}
		if n.kind == tar.TypeDir {
			header.Name += "/"
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write %s to layer: %w", name, err)
		}
		if _, err := archive.Write(n.data); err != nil {
			return nil, fmt.Errorf("write %s to layer: %w", name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return layer, nil
}
