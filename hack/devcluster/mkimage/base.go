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
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/glassback/glassback/hack/devcluster/images"
)

// sources are all that decides what an image is, but for the packages: a change to any of them makes all images anew.
//
//go:embed base.go image.go debian.go elf.go tree.go rootfs
var sources embed.FS

// Labels of an image, which say what it was made from.
const (
	recipeLabel   = "dev.glassback.recipe"   // digest of sources, and of whatever else went into it
	packagesLabel = "dev.glassback.packages" // NAME=VERSION of every package that has a file in it
)

// pauseImage is what containerd is to run in a Pod's own container. It is made of no package.
const pauseImage = "registry.k8s.io/pause:3.10"

// recipe is how an image is made: of files of packages and of the files in rootfs/NAME, on top of another image.
type recipe struct {
	name     string   // docker.io/library/NAME
	tags     []string // beside latest and the version, which is that of the first package
	packages []string
	files    []string                                     // of the packages, by path
	on       string                                       // the image below it
	add      func(context.Context, tree, *packages) error // what else it needs
	config   v1.Config
}

// recipes are in the order in which they are made: an image comes after the one below it.
func recipes() []recipe {
	path := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return []recipe{{
		name:     "busybox",
		packages: []string{"busybox-static"},
		files:    []string{"usr/bin/busybox"},
		add:      addBusybox,
		config:   v1.Config{Cmd: []string{"sh"}, Env: path},
	}, {
		name:     "nginx",
		tags:     []string{"stable"},
		packages: []string{"nginx", "nginx-common"},
		files: []string{"usr/sbin/nginx", "etc/nginx/mime.types", "etc/nginx/fastcgi.conf", "etc/nginx/fastcgi_params",
			"etc/nginx/scgi_params", "etc/nginx/uwsgi_params"},
		on:  "busybox",
		add: addNginx,
		config: v1.Config{
			Cmd: []string{"nginx", "-g", "daemon off;"}, Env: path,
			ExposedPorts: map[string]struct{}{"80/tcp": {}}, StopSignal: "SIGQUIT",
		},
	}, {
		name:     "redis",
		packages: []string{"redis-server", "redis-tools"},
		files: []string{"usr/bin/redis-server", "usr/bin/redis-cli", "usr/bin/redis-benchmark", "usr/bin/redis-check-aof",
			"usr/bin/redis-check-rdb"},
		on:  "busybox",
		add: addRedis,
		config: v1.Config{
			Entrypoint: []string{"docker-entrypoint.sh"}, Cmd: []string{"redis-server"}, Env: path, WorkingDir: "/data",
			ExposedPorts: map[string]struct{}{"6379/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
		},
	}}
}

// base makes the images that a real node starts with.
type base struct {
	store images.Store
	pause string // the program, built
	out   io.Writer
}

// make makes those images that are missing or not as they would be made now. If the packages cannot be had, it leaves an image as it is.
func (b base) make(ctx context.Context) error {
	damage, err := b.store.Repair(ctx)
	if err != nil {
		return err
	}
	if damage != nil {
		fmt.Fprintf(b.out, "mkimage: the image store %s is damaged, so that all of it is made anew: %v\n", b.store, damage)
	}
	if err := b.makePause(ctx); err != nil {
		return err
	}
	newer, seen, err := b.newer(ctx)
	if err != nil {
		return err
	}
	complete := true
	for _, r := range recipes() {
		stamp, err := b.stamp(r)
		if err != nil {
			return err
		}
		labels := b.labels(r.fullName("latest"))
		if labels[recipeLabel] == stamp && !newer[r.name] {
			continue
		}
		err = b.build(ctx, r, stamp)
		if errors.Is(err, errPackages) && labels != nil {
			fmt.Fprintf(b.out, "mkimage: kept the image %s as it was: %v\n", r.name, err)
			complete = false
			continue
		}
		if err != nil {
			return fmt.Errorf("make image %s: %w", r.name, err)
		}
	}
	if !complete {
		return nil
	}
	return b.remember(seen)
}

// stamp returns the digest of what the image is made from, but for the packages.
func (b base) stamp(r recipe) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, r.name, runtime.GOARCH)
	err := fs.WalkDir(sources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := sources.ReadFile(name)
		fmt.Fprintln(h, name, len(data))
		_, _ = h.Write(data) // it never fails
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read own sources: %w", err)
	}
	if r.on != "" {
		below, err := b.store.Image(r.on)
		if err != nil {
			return "", err
		}
		digest, err := below.Digest()
		if err != nil {
			return "", fmt.Errorf("read image %s: %w", r.on, err)
		}
		fmt.Fprintln(h, digest)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// labels returns the labels of an image of the store, or nil if there is no such image. One that is not whole is none: whatever is wrong
// with it, it is made anew.
func (b base) labels(name string) map[string]string {
	if b.store.Check(name) != nil {
		return nil
	}
	image, err := b.store.Image(name)
	if err != nil {
		return nil
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil
	}
	if config.Config.Labels == nil {
		return map[string]string{}
	}
	return config.Config.Labels
}

// newer returns the names of the images of which apt would now install a package in another version, and the state of apt's lists that
// this is true of. To ask apt may take most of a second, so it is only asked if the lists have changed.
func (b base) newer(ctx context.Context) (newer map[string]bool, seen string, err error) {
	seen = aptLists()
	if last, err := os.ReadFile(b.seenFile()); err == nil && string(last) == seen {
		return nil, seen, nil
	}
	versions := map[string]map[string]string{} // by image and package
	var names []string
	for _, r := range recipes() {
		labels := b.labels(r.fullName("latest"))
		versions[r.name] = map[string]string{}
		for word := range strings.FieldsSeq(labels[packagesLabel]) {
			name, version, _ := strings.Cut(word, "=")
			versions[r.name][name] = version
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, seen, nil
	}
	now, err := candidates(ctx, names)
	if err != nil && !errors.Is(err, errPackages) {
		return nil, "", err
	}
	newer = map[string]bool{}
	for image, have := range versions {
		for name, version := range have {
			if now[name] != "" && now[name] != version {
				newer[image] = true
			}
		}
	}
	return newer, seen, nil
}

// aptLists returns what changes when apt's lists do.
func aptLists() string {
	info, err := os.Stat("/var/lib/apt/lists")
	if err != nil {
		return "none\n"
	}
	return info.ModTime().UTC().Format(time.RFC3339Nano) + "\n"
}

func (b base) seenFile() string { return filepath.Join(string(b.store), "apt-lists") }

// remember notes that the images are up to date with apt's lists in the given state.
func (b base) remember(seen string) error {
	if last, err := os.ReadFile(b.seenFile()); err == nil && string(last) == seen {
		return nil
	}
	if err := os.WriteFile(b.seenFile(), []byte(seen), 0o644); err != nil {
		return fmt.Errorf("note state of apt's lists: %w", err)
	}
	return nil
}
