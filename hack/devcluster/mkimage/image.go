// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func (r recipe) fullName(tag string) string { return "docker.io/library/" + r.name + ":" + tag }

// names returns the names of the image. version is the version of its first package.
func (r recipe) names(version string) []string {
	var names []string
	if !r.extra {
		names = append(names, r.fullName("latest"))
	}
	for _, tag := range slices.Concat(versionTags(version), r.tags) {
		names = append(names, r.fullName(tag))
	}
	return names
}

// upstream matches the program's own version in a Debian version: without the epoch, and without Debian's suffix.
var upstream = regexp.MustCompile(`^(?:[0-9]+:)?([0-9]+(?:\.[0-9]+)*)`)

// versionTags returns the usual tags of a version: 1.2.3, 1.2 and 1.
func versionTags(version string) []string {
	match := upstream.FindStringSubmatch(version)
	if match == nil {
		return nil
	}
	var tags []string
	for tag := match[1]; tag != ""; {
		tags = append(tags, tag)
		tag = tag[:max(strings.LastIndex(tag, "."), 0)]
	}
	return tags
}

// build makes the image of a recipe and puts it into the store.
func (b base) build(ctx context.Context, r recipe) error {
	scratch, err := os.MkdirTemp("", "mkimage-")
	if err != nil {
		return fmt.Errorf("create temporary directory: %w", err)
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // It is a temporary directory.
	from, err := unpackAll(ctx, scratch, r.packages)
	if err != nil {
		return fmt.Errorf("make image %s: %w", r.name, err)
	}
	files := tree{}
	t := &taker{from: from, to: files}
	for _, file := range r.files {
		if err := t.take(ctx, file, r.packages[0]); err != nil {
			return fmt.Errorf("make image %s: %w", r.name, err)
		}
	}
	if err := addRootfs(files, cmp.Or(r.rootfs, r.name)); err != nil {
		return err
	}
	if err := r.add(ctx, files, from); err != nil {
		return err
	}
	below := empty.Image
	if r.on != "" {
		if below, err = b.store.Image(r.on); err != nil {
			return err
		}
	}
	return b.put(ctx, below, files, r.config, r.names(from.versions[r.packages[0]])...)
}

// makePause makes the image of the pause program.
func (b base) makePause(ctx context.Context, program []byte) error {
	files := tree{}
	files.file("pause", 0o755, program)
	// The original image has the same user.
	return b.put(ctx, empty.Image, files, v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"}, pauseImage)
}

// put stores an image of files on top of another image, and prints its names and size.
func (b base) put(ctx context.Context, below v1.Image, files tree, config v1.Config, names ...string) error {
	image, err := assemble(below, files, config)
	if err != nil {
		return err
	}
	if err := b.store.Put(ctx, image, names...); err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	size := int64(0)
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	fmt.Fprintf(b.out, "mkimage: made %s (%.1f MB)\n", strings.Join(names[:min(len(names), 2)], ", "), float64(size)/1e6)
	return nil
}

// assemble returns an image of files on top of another image.
func assemble(below v1.Image, files tree, config v1.Config) (v1.Image, error) {
	layer, err := files.layer()
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(below, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer})
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	whole, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	whole = whole.DeepCopy()
	whole.OS, whole.Architecture, whole.Config = "linux", runtime.GOARCH, config
	if image, err = mutate.ConfigFile(image, whole); err != nil {
		return nil, fmt.Errorf("set configuration: %w", err)
	}
	return image, nil
}

// addRootfs adds the files of rootfs/NAME. Scripts are executable.
func addRootfs(files tree, name string) error {
	root := path.Join("rootfs", name)
	return fs.WalkDir(sources, root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := sources.ReadFile(file)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if bytes.HasPrefix(data, []byte("#!")) {
			mode = 0o755
		}
		files.file(strings.TrimPrefix(file, root+"/"), mode, data)
		return nil
	})
}

// addBusybox adds the directories of every image, and links to busybox with the names of its commands.
func addBusybox(ctx context.Context, files tree, from *packages) error {
	applets, err := run(ctx, "", from.files["usr/bin/busybox"].path, "--list")
	if err != nil {
		return err
	}
	for applet := range strings.FieldsSeq(applets) {
		if applet != "busybox" {
			files.symlink("usr/bin/"+applet, "busybox")
		}
	}
	if _, ok := files["usr/bin/sh"]; !ok {
		return errors.New("busybox has no sh")
	}
	for _, dir := range mergedDirs() {
		files.dir("usr/"+dir, 0o755, 0)
		files.symlink(dir, "usr/"+dir)
	}
	files.symlink("var/run", "/run")
	files.dir("tmp", 0o1777, 0)
	files.dir("var/tmp", 0o1777, 0)
	for _, dir := range []string{"dev", "home", "proc", "run", "sys"} {
		files.dir(dir, 0o755, 0)
	}
	files.dir("root", 0o700, 0)
	return nil
}

// addNginx adds the directories that nginx writes to. Its logs are links to the container's output.
func addNginx(_ context.Context, files tree, _ *packages) error {
	files.dir("var/cache/nginx", 0o755, 0)
	files.dir("var/lib/nginx", 0o755, 0)
	files.symlink("var/log/nginx/access.log", "/dev/stdout")
	files.symlink("var/log/nginx/error.log", "/dev/stderr")
	return nil
}

// redisUser owns /data, for Pods that do not run as root.
const redisUser = 999

// redisPrograms are the programs of redis-server's packages, without "redis-".
var redisPrograms = []string{"server", "cli", "benchmark", "check-aof", "check-rdb"}

// addRedis adds the directory of redis' data, and the programs at the paths of Docker's image, for valkey with redis' names. redis-server
// is in rootfs.
func addRedis(files tree, name string) error {
	files.dir("data", 0o755, redisUser)
	for _, program := range redisPrograms {
		if program != "server" {
			files.symlink("usr/local/bin/redis-"+program, "/usr/bin/"+name+"-"+program)
		}
		if name != "redis" {
			files.symlink("usr/bin/redis-"+program, name+"-"+program)
		}
	}
	files.symlink("usr/local/bin/redis-sentinel", "/usr/bin/redis-server")
	return nil
}
