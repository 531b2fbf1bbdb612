// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/glassback/glassback/hack/devcluster/images"
	"github.com/glassback/glassback/pkg/must"
)

// debian is a Debian in a directory: apt-get, apt-cache and dpkg-deb in PATH are scripts that know the packages in it.
type debian struct{ dir string }

// A file named offline makes downloads fail. A file named lists-gone makes all
// packages unknown.
var programs = map[string]string{
	"apt-cache": `case $1 in
policy)
	shift
	for name; do
		version='(none)'
		[ -e "$D/lists-gone" ] || [ ! -e "$D/version/$name" ] || version=$(cat "$D/version/$name")
		printf '%s:\n  Installed: (none)\n  Candidate: %s\n  Version table:\n     %s 500\n' "$name" "$version" "$version"
	done
	;;
depends) cat "$D/depends/$3" ;;
esac`,
	"apt-get": `if [ -e "$D/offline" ]; then
	echo "E: Failed to fetch http://deb.debian.org/x.deb  Could not resolve host" >&2
	echo "E: Failed to fetch http://deb.debian.org/x.deb  Could not resolve host" >&2
	exit 100
fi
while [ "$1" != download ]; do shift; done
shift
for word; do
	tar -cf "${word%%=*}_$(echo "${word#*=}" | sed s/:/%3a/g)_all.deb" -C "$D/files/${word%%=*}" .
done`,
	"dpkg-deb": `mkdir -p "$3" && tar -xf "$2" -C "$3"`,
}

func newDebian(t *testing.T) debian {
	t.Helper()
	d := debian{t.TempDir()}
	for name, script := range programs {
		d.write(t, "bin/"+name, "#!/bin/sh\nD="+d.dir+"\n"+script+"\n")
	}
	t.Setenv("PATH", filepath.Join(d.dir, "bin")+":"+os.Getenv("PATH"))
	d.add(t, "busybox-static", "1:1.35.0-4+b1", nil, map[string]string{"bin/busybox": "#!/bin/sh\necho sh; echo ls; echo busybox\n"})
	nginx := map[string]string{"usr/sbin/nginx": "nginx 1"}
	for _, name := range []string{"mime.types", "fastcgi.conf", "fastcgi_params", "scgi_params", "uwsgi_params"} {
		nginx["etc/nginx/"+name] = name
	}
	nginx["usr/share/doc/nginx/copyright"] = "not taken"
	d.add(t, "nginx", "1.22.1-9+deb12u10", nil, nginx)
	d.add(t, "nginx-common", "1.22.1-9+deb12u10", nil, nil)
	d.add(t, "redis-server", "5:7.0.15-1~deb12u10", nil, map[string]string{"usr/bin/redis-server": "→redis-check-rdb"})
	d.add(t, "redis-tools", "5:7.0.15-1~deb12u10", nil, map[string]string{
		"usr/bin/redis-cli": "cli", "usr/bin/redis-benchmark": "b", "usr/bin/redis-check-rdb": "r",
		"usr/bin/redis-check-aof": "→redis-check-rdb"})
	return d
}

// add adds a package, or another version of it. Files that begin with → are symbolic links. depends is as apt-cache prints it.
func (d debian) add(t *testing.T, name, version string, depends []string, files map[string]string) {
	t.Helper()
	d.write(t, "version/"+name, version)
	d.write(t, "depends/"+name, name+"\n"+strings.Join(depends, "\n")+"\n")
	must.Succeed(t, os.MkdirAll(filepath.Join(d.dir, "files", name), 0o755))
	for file, content := range files {
		d.write(t, "files/"+name+"/"+file, content)
	}
}

func (d debian) write(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(d.dir, filepath.FromSlash(name))
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
	var err error
	if target, link := strings.CutPrefix(content, "→"); link {
		err = os.Symlink(target, file)
	} else {
		err = os.WriteFile(file, []byte(content), 0o755)
	}
	must.Succeed(t, err)
}

// newTestBase returns a base with an empty store, and its output.
func newTestBase(t *testing.T) (base, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	return base{store: images.Store(filepath.Join(t.TempDir(), "images")), pause: buildPause(t), out: out}, out
}

// pause is the program of that image, built once.
var pause = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "mkimage-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, "pause"), "../pause")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build pause: %w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "pause"))
})

func buildPause(t *testing.T) string {
	t.Helper()
	data, err := pause()
	must.Succeed(t, err)
	file := filepath.Join(t.TempDir(), "pause")
	must.Succeed(t, os.WriteFile(file, data, 0o700))
	return file
}

// What is said when images are made, without their sizes.
const (
	madePause   = "mkimage: made registry.k8s.io/pause:3.10\n"
	madeBusybox = "mkimage: made docker.io/library/busybox:latest, docker.io/library/busybox:1.35.0\n"
	madeNginx   = "mkimage: made docker.io/library/nginx:latest, docker.io/library/nginx:1.22.1\n"
	madeRedis   = "mkimage: made docker.io/library/redis:latest, docker.io/library/redis:7.0.15\n"
	madeAll     = madePause + madeBusybox + madeNginx + madeRedis
)

func TestBaseMakesWhatIsNeeded(t *testing.T) {
	update := func(t *testing.T, d debian, _ base) { // as apt-get update, which brings a new nginx
		d.add(t, "nginx", "1.24.0-1", nil, map[string]string{"usr/sbin/nginx": "nginx 2"})
	}
	const kept = "mkimage: kept the images as they were: "
	for name, test := range map[string]struct {
		change func(t *testing.T, d debian, b base)
		want   string
	}{
		"nothing has changed":    {func(*testing.T, debian, base) {}, ""},
		"there is a new version": {update, strings.Replace(madeAll, "1.22.1", "1.24.0", 1)},
		"the images are missing": {func(_ *testing.T, _ debian, b base) { os.RemoveAll(string(b.store)) }, madeAll},
		"their index is missing": {func(_ *testing.T, _ debian, b base) { os.Remove(filepath.Join(string(b.store), "index.json")) }, madeAll},
		"other sources made them": {
			func(t *testing.T, _ debian, b base) {
				must.Succeed(t, os.WriteFile(b.stampFile(), []byte("old"), 0o600))
			}, madeAll},
		"apt's lists are gone": {func(t *testing.T, d debian, _ base) { d.write(t, "lists-gone", "") },
			madePause + kept + "make image busybox: packages are not available: there is no package busybox-static: run apt-get update " +
				"(on Ubuntu, it is in universe)\n"},
		"the network is gone": {func(t *testing.T, d debian, _ base) { d.write(t, "offline", "") }, ""},
		"the network is gone, and there would be a new version": {func(t *testing.T, d debian, b base) {
			update(t, d, b)
			d.write(t, "offline", "")
		}, madePause + kept + "make image busybox: packages are not available: apt-get: Failed to fetch " +
			"http://deb.debian.org/x.deb  Could not resolve host: run apt-get update, and see whether this machine " +
			"reaches its Debian mirror\n"},
		"there is no apt": {func(t *testing.T, _ debian, _ base) { t.Setenv("PATH", "") },
			kept + "packages are not available: there is no apt-cache: images are made from Debian's packages, so make them on Debian or Ubuntu\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDebian(t)
			b, out := newTestBase(t)
			must.Succeed(t, b.make(t.Context()))
			sizes := regexp.MustCompile(` \([0-9].*`)
			if got := sizes.ReplaceAllString(out.String(), ""); got != madeAll {
				t.Fatalf("at first: got %s", got)
			}
			out.Reset()
			test.change(t, d, b)
			must.Succeed(t, b.make(t.Context()))
			if got := sizes.ReplaceAllString(out.String(), ""); got != test.want {
				t.Errorf("got %s", got)
			}
			for _, name := range []string{pauseImage, "busybox", "nginx", "redis"} {
				if err := validate.Image(stored(t, b, name)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

func stored(t *testing.T, b base, name string) v1.Image {
	t.Helper()
	image, err := b.store.Image(name)
	must.Succeed(t, err)
	return image
}

func TestBaseFails(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, d debian)
		want   string
	}{
		"with no apt": {
			func(t *testing.T, _ debian) { t.Setenv("PATH", "") },
			"packages are not available: there is no apt-cache: images are made from Debian's packages, so make them on Debian"},
		"with no lists": {
			func(t *testing.T, d debian) { d.write(t, "lists-gone", "") }, "there is no package busybox-static: run apt-get update"},
		"with a package that lacks a file": {
			func(t *testing.T, d debian) { os.Remove(filepath.Join(d.dir, "files/busybox-static/bin/busybox")) },
			"neither package busybox-static nor what it depends on has /usr/bin/busybox"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDebian(t)
			b, _ := newTestBase(t)
			test.change(t, d)
			err := b.make(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			if _, err := os.Stat(b.stampFile()); err == nil {
				t.Error("the images count as made")
			}
		})
	}
}

// program is a Linux program that needs an interpreter and libc.so.6. It is Go's own test data.
func program(t *testing.T) string {
	t.Helper()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	must.Succeed(t, err)
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "src/debug/elf/testdata/gcc-amd64-linux-exec"))
	if err != nil {
		t.Skipf("this Go comes without its test data: %v", err)
	}
	return string(data)
}

// TestLibrariesAreFound has a program whose libraries are in its dependencies, through links; then one of them is missing.
func TestLibrariesAreFound(t *testing.T) {
	d, lib := newDebian(t), "lib/"+triplet()
	d.add(t, "app", "1", []string{"  PreDepends: dpkg", " |Depends: libc6", "  Depends: libc7", "  Depends: <virtual>", "    dpkg"},
		map[string]string{"bin/app": program(t)})
	d.add(t, "dpkg", "1", nil, map[string]string{"usr/bin/dpkg": "not taken"})
	d.add(t, "libc6", "2", nil, map[string]string{
		"lib64/ld-linux-x86-64.so.2": "→/lib/ld.so", "lib/ld.so": "ld", lib + "/libc.so.6": "→libc-2.so", lib + "/libc-2.so": "libc"})
	take := func() (*taker, error) {
		from, err := unpackAll(t.Context(), t.TempDir(), []string{"app"})
		must.Succeed(t, err)
		got := &taker{from: from, to: tree{}}
		return got, got.take(t.Context(), "usr/bin/app", "app")
	}
	got, err := take()
	want := []string{"usr/bin/app", "usr/" + lib + "/libc-2.so", "usr/" + lib + "/libc.so.6", "usr/lib/ld.so",
		"usr/lib64/ld-linux-x86-64.so.2"}
	slices.Sort(want)
	if files := slices.Sorted(maps.Keys(got.to)); err != nil || !slices.Equal(files, want) {
		t.Errorf("got %v, %v, want %v", files, err, want)
	}
	must.Succeed(t, os.Remove(filepath.Join(d.dir, "files/libc6", lib, "libc.so.6")))
	_, err = take()
	if err == nil || err.Error() != "/usr/bin/app needs libc.so.6: neither package app nor what it depends on has it" {
		t.Errorf("without libc: %v", err)
	}
}
