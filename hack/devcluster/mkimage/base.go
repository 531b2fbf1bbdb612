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

// sources are the files that determine an image, besides the packages: after a change to one of them, all images are made again.
//
//go:embed base.go image.go debian.go elf.go tree.go rootfs
var sources embed.FS

// Labels of an image that identify its sources.
const (
	recipeLabel   = "dev.glassback.recipe"   // digest of sources, and of the other files of the image
	packagesLabel = "dev.glassback.packages" // NAME=VERSION of every package with a file in the image
)

// pauseImage is the image of the container that holds a Pod's namespaces. It contains no package.
const pauseImage = "registry.k8s.io/pause:3.10"

// recipe describes an image: files of packages and the files in rootfs/NAME, on top of another image.
type recipe struct {
	name     string   // docker.io/library/NAME
	tags     []string // in addition to latest and the version of the first package
	packages []string
	files    []string                                     // paths of files of the packages
	on       string                                       // the image below
	add      func(context.Context, tree, *packages) error // adds other files
	config   v1.Config
}

// recipes returns the recipes in the order in which to make them: an image comes after the image below it.
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

// base makes the images that a new real node has.
type base struct {
	store images.Store
	pause string // the path of the compiled program
	out   io.Writer
}

// make makes the images that are missing or out of date. If packages are not available, it keeps existing images.
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

// stamp returns the digest of all sources of an image but the packages.
func (b base) stamp(r recipe) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, r.name, runtime.GOARCH)
	err := fs.WalkDir(sources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := sources.ReadFile(name)
		fmt.Fprintln(h, name, len(data))
		_, _ = h.Write(data) // a hash never returns an error
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

// labels returns the labels of an image of the store, or nil if the image is missing or damaged: then it is made again.
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

// newer returns the names of the images with a package that apt would now install in another version, and the state of apt's lists. It runs
// apt only if the lists have changed, since apt takes almost a second.
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

// aptLists returns a text that changes when apt's lists change.
func aptLists() string {
	info, err := os.Stat("/var/lib/apt/lists")
	if err != nil {
		return "none\n"
	}
	return info.ModTime().UTC().Format(time.RFC3339Nano) + "\n"
}

func (b base) seenFile() string { return filepath.Join(string(b.store), "apt-lists") }

// remember records that the images are up to date with this state of apt's lists.
func (b base) remember(seen string) error {
	if last, err := os.ReadFile(b.seenFile()); err == nil && string(last) == seen {
		return nil
	}
	if err := os.WriteFile(b.seenFile(), []byte(seen), 0o644); err != nil {
		return fmt.Errorf("note state of apt's lists: %w", err)
	}
	return nil
}
