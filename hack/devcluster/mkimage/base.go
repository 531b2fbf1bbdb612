// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/glassback/glassback/hack/devcluster/images"
)

// sources are the files that determine the images, besides the packages: after a change to one of them, all images are made again.
//
//go:embed base.go image.go debian.go elf.go tree.go rootfs
var sources embed.FS

// pauseImage is the image of the container that holds a Pod's namespaces. It contains no package.
const pauseImage = "registry.k8s.io/pause:3.10"

// recipe describes an image: files of packages and the files in rootfs/NAME, on top of another image.
type recipe struct {
	name     string   // docker.io/library/NAME
	tags     []string // in addition to latest and the version of the first package
	packages []string
	files    []string                                     // paths of files of the packages
	on       string                                       // the image below
	rootfs   string                                       // the directory of rootfs, if it is not name
	add      func(context.Context, tree, *packages) error // adds other files
	config   v1.Config
	extra    bool // another image has the tag latest
}

// redisLike is the recipe of an image like Docker's of redis, and of valkey, which has links with the names of redis.
func redisLike(name string) recipe {
	files := []string{}
	for _, program := range redisPrograms {
		files = append(files, "usr/bin/"+name+"-"+program)
	}
	return recipe{
		name: name, packages: []string{name + "-server", name + "-tools"}, files: files, on: "busybox", rootfs: "redis",
		add: func(_ context.Context, files tree, _ *packages) error { return addRedis(files, name) },
		config: v1.Config{
			Entrypoint: []string{"docker-entrypoint.sh"}, Cmd: []string{"redis-server"}, Env: searchPath, WorkingDir: "/data",
			ExposedPorts: map[string]struct{}{"6379/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
		},
	}
}

// searchPath is the environment of the images.
var searchPath = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// recipes returns the recipes in the order in which to make them: an image comes after the image below it.
func recipes() []recipe {
	return []recipe{{
		name:     "busybox",
		packages: []string{"busybox-static"},
		files:    []string{"usr/bin/busybox"},
		add:      addBusybox,
		config:   v1.Config{Cmd: []string{"sh"}, Env: searchPath},
	}, {
		name:     "nginx",
		tags:     []string{"stable"},
		packages: []string{"nginx", "nginx-common"},
		files: []string{"usr/sbin/nginx", "etc/nginx/mime.types", "etc/nginx/fastcgi.conf", "etc/nginx/fastcgi_params",
			"etc/nginx/scgi_params", "etc/nginx/uwsgi_params"},
		on:  "busybox",
		add: addNginx,
		config: v1.Config{
			Cmd: []string{"nginx", "-g", "daemon off;"}, Env: searchPath,
			ExposedPorts: map[string]struct{}{"80/tcp": {}}, StopSignal: "SIGQUIT",
		},
	}, redisLike("redis")}
}

// base makes the images that a new real node has.
type base struct {
	store images.Store
	pause string // the path of the compiled program
	out   io.Writer
}

// add makes one more image, redis or valkey in another version, such as valkey:8, unless it is there and of these sources and
// packages. Its packages are those of APT_CONFIG in the environment. It is not the latest of its name.
func (b base) add(ctx context.Context, image string) error {
	name, _, _ := strings.Cut(image, ":")
	r := redisLike(name)
	r.extra = true
	file := b.stampFile() + "-" + name
	stamp, err := b.stamp(ctx, nil, r)
	_, missing := b.store.Image(image)
	if last, _ := os.ReadFile(file); err == nil && string(last) == stamp && missing == nil {
		return nil
	}
	if err == nil {
		err = b.build(ctx, r)
	}
	if errors.Is(err, errPackages) && missing == nil {
		fmt.Fprintf(b.out, "mkimage: kept %s as it was: %v\n", image, err)
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := b.store.Image(image); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(stamp), 0o644)
}

// make makes the images, unless they are there and of these sources and packages. If packages are not available, it keeps existing images.
func (b base) make(ctx context.Context) error {
	pause, err := os.ReadFile(b.pause)
	if err != nil {
		return fmt.Errorf("read pause program: %w", err)
	}
	stamp, err := b.stamp(ctx, pause, recipes()...)
	if last, _ := os.ReadFile(b.stampFile()); err == nil && string(last) == stamp && b.complete() {
		return nil
	}
	if err == nil {
		err = b.makePause(ctx, pause)
	}
	for _, r := range recipes() {
		if err == nil {
			err = b.build(ctx, r)
		}
	}
	if errors.Is(err, errPackages) && b.complete() {
		fmt.Fprintf(b.out, "mkimage: kept the images as they were: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(b.stampFile(), []byte(stamp), 0o644)
}

func (b base) stampFile() string { return filepath.Join(string(b.store), "stamp") }

// complete returns whether the store has all images.
func (b base) complete() bool {
	_, err := b.store.Image(pauseImage)
	for _, r := range recipes() {
		if err == nil {
			_, err = b.store.Image(r.fullName("latest"))
		}
	}
	return err == nil
}

// stamp returns the digest of all that images are made of: the sources, the pause program, and the versions of the packages that apt
// would install now.
func (b base) stamp(ctx context.Context, pause []byte, all ...recipe) (string, error) {
	h := sha256.New()
	add := func(name string, data []byte) {
		fmt.Fprintln(h, name, len(data))
		_, _ = h.Write(data) // a hash never returns an error
	}
	err := fs.WalkDir(sources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := sources.ReadFile(name)
		add(name, data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read own sources: %w", err)
	}
	add("pause", pause)
	for _, r := range all {
		versions, err := candidates(ctx, r.packages)
		if err != nil {
			return "", err
		}
		add(runtime.GOARCH, fmt.Append(nil, versions)) // in the order of the names
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
