// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// check returns an error if an image does not match its digests, or if it is for another platform. go-containerregistry does not compare
// the content of an archive with its digests. Its package validate supports only layers compressed by gzip.
func (n archived) check(ctx context.Context) error {
	damaged := func(err error) error { return fmt.Errorf("image %s is damaged: %w", n.names[0], err) }
	config, err := n.checkConfig()
	if err != nil {
		return damaged(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		return fmt.Errorf("%s is for %s/%s and the node is linux/%s: build it with --platform linux/%s",
			n.names[0], config.OS, config.Architecture, runtime.GOARCH, runtime.GOARCH)
	}
	if err := n.checkLayers(ctx, config.RootFS.DiffIDs); err != nil {
		return damaged(err)
	}
	return nil
}

// checkConfig checks the manifest and the configuration. It returns the configuration.
func (n archived) checkConfig() (*v1.ConfigFile, error) {
	raw, err := n.image.RawManifest()
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", cause(err))
	}
	if n.manifest != (v1.Hash{}) {
		if err := verify(bytes.NewReader(raw), n.manifest, -1); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	manifest, err := n.image.Manifest()
	if err != nil {
		return nil, fmt.Errorf("decode manifest: %w", err)
	}
	config, err := n.image.RawConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", cause(err))
	}
	want := manifest.Config.Digest
	if n.config != (v1.Hash{}) {
		want = n.config
	}
	if err := verify(bytes.NewReader(config), want, manifest.Config.Size); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	file, err := n.image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("decode configuration: %w", err)
	}
	return file, nil
}

// checkLayers checks the digests of the uncompressed layers. If the archive has digests of compressed layers, it checks these, too.
func (n archived) checkLayers(ctx context.Context, diffIDs []v1.Hash) error {
	layers, err := n.image.Layers()
	if err != nil {
		return fmt.Errorf("find layers: %w", cause(err))
	}
	if len(layers) != len(diffIDs) {
		return fmt.Errorf("it has %d layers, and its configuration names %d", len(layers), len(diffIDs))
	}
	for i, layer := range layers {
		if n.hasLayerDigests {
			if err := checkCompressed(ctx, layer); err != nil {
				return fmt.Errorf("layer %d: %w", i+1, cause(err))
			}
		}
		content, err := layer.Uncompressed()
		if err != nil {
			return fmt.Errorf("layer %d: %w", i+1, cause(err))
		}
		err = verify(until(ctx, content), diffIDs[i], -1)
		content.Close()
		if err != nil {
			return fmt.Errorf("layer %d without compression: %w", i+1, cause(err))
		}
	}
	return nil
}

func checkCompressed(ctx context.Context, layer v1.Layer) error {
	desc, err := partial.Descriptor(layer)
	if err != nil {
		return err
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	return verify(until(ctx, content), desc.Digest, desc.Size)
}

// verify reads content to its end. It returns an error if the digest or the size differs. A size of -1 is not compared.
func verify(content io.Reader, want v1.Hash, size int64) error {
	hash, err := v1.Hasher(want.Algorithm)
	if err != nil {
		return err
	}
	n, err := io.Copy(hash, content)
	if err != nil {
		return err
	}
	if size >= 0 && n != size {
		return fmt.Errorf("it has %d bytes, want %d", n, size)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want.Hex {
		return fmt.Errorf("its digest is %s:%s, want %s", want.Algorithm, got, want)
	}
	return nil
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

// open opens a file that can be read until ctx ends. It can seek: the tar reader then skips the content of files that it does not need.
func open(ctx context.Context, file string) (io.ReadSeekCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Seeker
		io.Closer
	}{until(ctx, f), f, f}, nil
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
