// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/glassback/glassback/hack/devcluster/images"
	"github.com/glassback/glassback/pkg/must"
)

// debian is a Debian in a directory: apt-get, apt-cache and dpkg-deb in PATH are scripts that know the packages in it.
type debian struct{ dir string }

// Its programs write their arguments to the file calls. A file named offline makes downloads fail. A file named lists-gone makes all
// packages unknown.
var programs = map[string]string{
	"apt-cache": `echo "apt-cache $1" >>"$D/calls"
case $1 in
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
	"apt-get": `echo apt-get >>"$D/calls"
if [ -e "$D/offline" ]; then
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

// calls returns how often apt was asked since the last time.
func (d debian) calls(t *testing.T) int {
	t.Helper()
	data, _ := os.ReadFile(filepath.Join(d.dir, "calls"))
	os.Remove(filepath.Join(d.dir, "calls"))
	return bytes.Count(data, []byte("\n"))
}

// newTestBase returns a base with an empty store, and its output.
func newTestBase(t *testing.T) (base, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	return base{store: images.Store(filepath.Join(t.TempDir(), "images")), pause: buildPause(t), out: out}, out
}

func buildPause(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pause")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", file, "../pause")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build pause: %v: %s", err, out)
	}
	return file
}

func TestBaseMakesWhatIsNeeded(t *testing.T) {
	const busybox = "mkimage: made docker.io/library/busybox:latest, docker.io/library/busybox:1.35.0\n"
	const all = busybox +
		"mkimage: made docker.io/library/nginx:latest, docker.io/library/nginx:1.22.1\n" +
		"mkimage: made docker.io/library/redis:latest, docker.io/library/redis:7.0.15\n"
	const nginx2 = "mkimage: made docker.io/library/nginx:latest, docker.io/library/nginx:1.24.0\n"
	update := func(t *testing.T, d debian, b base) { // as apt-get update, which brings a new nginx
		d.add(t, "nginx", "1.24.0-1", nil, map[string]string{"usr/sbin/nginx": "nginx 2"})
		os.Remove(b.seenFile())
	}
	tests := map[string]struct {
		change func(t *testing.T, d debian, b base)
		want   string
		asks   bool // whether apt is asked at all
	}{
		"nothing has changed":           {func(*testing.T, debian, base) {}, "", false},
		"nor after apt-get update":      {func(_ *testing.T, _ debian, b base) { os.Remove(b.seenFile()) }, "", true},
		"there is a new version":        {update, nginx2, true},
		"an image is missing":           {func(t *testing.T, _ debian, b base) { os.RemoveAll(string(b.store)) }, all, true},
		"an older recipe made an image": {func(t *testing.T, _ debian, b base) { forget(t, b) }, busybox, true},
		"there is a new version of what others stand on": {
			func(t *testing.T, d debian, b base) {
				d.add(t, "busybox-static", "1:1.35.0-5", nil, nil)
				os.Remove(b.seenFile())
			}, all, true},
		"apt's lists are gone": {
			func(t *testing.T, d debian, b base) {
				d.write(t, "lists-gone", "")
				os.Remove(b.seenFile())
			}, "", true},
		"the network is gone": {
			func(t *testing.T, d debian, b base) {
				d.write(t, "offline", "")
			}, "", false},
		"the network is gone, and there would be a new version": {
			func(t *testing.T, d debian, b base) {
				update(t, d, b)
				d.write(t, "offline", "")
			},
			"mkimage: kept the image nginx as it was: packages are not available: apt-get: Failed to fetch " +
				"http://deb.debian.org/x.deb  Could not resolve host: run apt-get update, and see whether this machine reaches its Debian mirror\n",
			true},
		"there is no apt": {
			func(t *testing.T, d debian, b base) {
				os.Remove(b.seenFile())
				t.Setenv("PATH", "")
			}, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDebian(t)
			b, out := newTestBase(t)
			must.Succeed(t, b.make(t.Context()))
			if got := sizeless(out); got != "mkimage: made registry.k8s.io/pause:3.10\n"+all {
				t.Fatalf("at first: got %s", got)
			}
			d.calls(t)
			out.Reset()
			test.change(t, d, b)
			must.Succeed(t, b.make(t.Context()))
			if got := strings.TrimPrefix(sizeless(out), "mkimage: made registry.k8s.io/pause:3.10\n"); got != test.want {
				t.Errorf("got %s", got)
			}
			if calls := d.calls(t); calls > 0 != test.asks {
				t.Errorf("apt was asked %d times", calls)
			}
			out.Reset()
			if err := b.make(t.Context()); err != nil || strings.Contains(out.String(), "made") {
				t.Errorf("the third time it still has to do: %s%v", out, err)
			}
		})
	}
}

// sizeless returns the output without the images' sizes.
func sizeless(out *bytes.Buffer) string {
	var lines strings.Builder
	for line := range strings.Lines(out.String()) {
		before, _, _ := strings.Cut(line, " (")
		lines.WriteString(strings.TrimRight(before, "\n") + "\n")
	}
	return lines.String()
}

func TestBaseMakesDamagedImagesAnew(t *testing.T) {
	const pause = "mkimage: made registry.k8s.io/pause:3.10\n"
	const busybox = "mkimage: made docker.io/library/busybox:latest, docker.io/library/busybox:1.35.0\n"
	const nginx = "mkimage: made docker.io/library/nginx:latest, docker.io/library/nginx:1.22.1\n"
	const redis = "mkimage: made docker.io/library/redis:latest, docker.io/library/redis:7.0.15\n"
	const anew = "mkimage: the image store STORE is damaged, so that all of it is made anew: decode index.json: "
	cut := func(file string) error { return os.Truncate(file, 10) }
	index := func(content string) func(t *testing.T, b base) error {
		return func(_ *testing.T, b base) error {
			return os.WriteFile(filepath.Join(string(b.store), "index.json"), []byte(content), 0o600)
		}
	}
	tests := map[string]struct {
		damage func(t *testing.T, b base) error
		want   string
	}{
		"a truncated layer": {func(t *testing.T, b base) error { return cut(parts(t, b, "nginx").layer) }, nginx},
		"a missing layer":   {func(t *testing.T, b base) error { return os.Remove(parts(t, b, "redis").layer) }, redis},
		"a truncated layer below others, which is the same when it is made anew": {
			func(t *testing.T, b base) error { return cut(parts(t, b, "busybox").layer) }, busybox},
		"a truncated configuration": {func(t *testing.T, b base) error { return cut(parts(t, b, "nginx").config) }, nginx},
		"a configuration that is none": {func(t *testing.T, b base) error {
			file := parts(t, b, "redis").config
			data, err := os.ReadFile(file)
			return errors.Join(err, os.WriteFile(file, bytes.Repeat([]byte("x"), len(data)), 0o600))
		}, redis},
		"a missing manifest":      {func(t *testing.T, b base) error { return os.Remove(parts(t, b, "nginx").manifest) }, nginx},
		"an empty manifest":       {func(t *testing.T, b base) error { return os.Truncate(parts(t, b, "redis").manifest, 0) }, redis},
		"a pause that was cut":    {func(t *testing.T, b base) error { return cut(parts(t, b, pauseImage).layer) }, pause},
		"an empty index.json":     {index(""), anew + "EOF\n" + pause + busybox + nginx + redis},
		"an index.json cut short": {index(`{"schemaVersion":2,`), anew + "unexpected EOF\n" + pause + busybox + nginx + redis},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			newDebian(t)
			b, out := newTestBase(t)
			must.Succeed(t, b.make(t.Context()))
			out.Reset()
			must.Succeed(t, test.damage(t, b))
			must.Succeed(t, b.make(t.Context()))
			if got := strings.ReplaceAll(sizeless(out), string(b.store), "STORE"); got != test.want {
				t.Errorf("got %s", got)
			}
			for _, name := range []string{pauseImage, "busybox", "nginx", "redis"} {
				if err := validate.Image(stored(t, b, name)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			out.Reset()
			if err := b.make(t.Context()); err != nil || out.Len() > 0 {
				t.Errorf("once more: %s, %v", out, err)
			}
		})
	}
}

// blobs is where the parts of an image are: of its layers, the one on top.
type blobs struct{ manifest, config, layer string }

func parts(t *testing.T, b base, name string) blobs {
	t.Helper()
	image := stored(t, b, name)
	digest, err := image.Digest()
	must.Succeed(t, err)
	manifest, err := image.Manifest()
	must.Succeed(t, err)
	at := func(digest v1.Hash) string {
		return filepath.Join(string(b.store), "blobs", digest.Algorithm, digest.Hex)
	}
	return blobs{at(digest), at(manifest.Config.Digest), at(manifest.Layers[len(manifest.Layers)-1].Digest)}
}

// forget gives busybox' image the label of an older recipe. Made again, the image is the same, so the images on top of it stay.
func forget(t *testing.T, b base) {
	t.Helper()
	image := stored(t, b, "busybox")
	config, err := image.ConfigFile()
	must.Succeed(t, err)
	config = config.DeepCopy()
	config.Config.Labels[recipeLabel] = "old"
	image, err = mutate.ConfigFile(image, config)
	must.Succeed(t, errors.Join(err, b.store.Put(t.Context(), image, "busybox")))
}

func stored(t *testing.T, b base, name string) v1.Image {
	t.Helper()
	image, err := b.store.Image(name)
	must.Succeed(t, err)
	return image
}

func TestBaseImages(t *testing.T) {
	newDebian(t)
	b, _ := newTestBase(t)
	must.Succeed(t, b.make(t.Context()))
	names, err := b.store.Names()
	if err != nil || !slices.Equal(names, []string{
		"docker.io/library/busybox:1", "docker.io/library/busybox:1.35", "docker.io/library/busybox:1.35.0", "docker.io/library/busybox:latest",
		"docker.io/library/nginx:1", "docker.io/library/nginx:1.22", "docker.io/library/nginx:1.22.1", "docker.io/library/nginx:latest",
		"docker.io/library/nginx:stable", "docker.io/library/redis:7", "docker.io/library/redis:7.0", "docker.io/library/redis:7.0.15",
		"docker.io/library/redis:latest", "registry.k8s.io/pause:3.10"}) {
		t.Errorf("got %v, %v", names, err)
	}
	for name, want := range map[string]map[string]string{
		"busybox": {"bin": "→usr/bin", "usr/bin/ls": "→busybox", "tmp": "1777", "root": "700", "var/run": "→/run"},
		"nginx": {"usr/sbin/nginx": "nginx 1", "var/log/nginx/access.log": "→/dev/stdout", "var/log/nginx/error.log": "→/dev/stderr",
			"usr/bin/sh": "→busybox", "usr/share/doc/nginx/copyright": ""},
		"redis": {"usr/bin/redis-server": "→redis-check-rdb", "usr/bin/redis-check-rdb": "r", "data": "755 999",
			"usr/local/bin/redis-cli": "→/usr/bin/redis-cli", "usr/bin/sh": "→busybox"},
	} {
		files := filesOf(t, stored(t, b, name))
		for file, content := range want {
			if files[file] != content {
				t.Errorf("%s: /%s: got %q, want %q", name, file, files[file], content)
			}
		}
	}
	config, err := stored(t, b, "redis").ConfigFile()
	if err != nil || config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Config.WorkingDir != "/data" ||
		config.Config.Labels[packagesLabel] != "redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10" {
		t.Errorf("got %+v, %v", config, err)
	}
}

// filesOf returns the files of an image: the content, → and the target of links, and directories' modes and owners.
func filesOf(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	files := map[string]string{}
	content := mutate.Extract(image)
	defer content.Close()
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.Succeed(t, err)
		data, err := io.ReadAll(archive)
		must.Succeed(t, err)
		name := strings.TrimSuffix(header.Name, "/")
		switch header.Typeflag {
		case tar.TypeSymlink:
			files[name] = "→" + header.Linkname
		case tar.TypeDir:
			files[name] = strings.TrimSuffix(fmt.Sprintf("%o %d", header.Mode, header.Uid), " 0")
		default:
			files[name] = string(data)
		}
	}
}

func TestBaseFails(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, d debian)
		want   string
	}{
		"with no apt": {
			func(t *testing.T, _ debian) { t.Setenv("PATH", "") },
			"make image busybox: packages are not available: there is no apt-get: images are made from Debian's packages, so make them on Debian"},
		"with no network": {
			func(t *testing.T, d debian) { d.write(t, "offline", "") }, "see whether this machine reaches its Debian mirror"},
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
			if names, err := b.store.Names(); err != nil || !slices.Equal(names, []string{pauseImage}) {
				t.Errorf("the store has %v, %v", names, err)
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

func TestDependencies(t *testing.T) {
	for printed, want := range map[string]string{
		"app\n":                                 "",
		"app\n  Depends: a\n  Depends: b\n":     "a b",
		"app\n  PreDepends: a\n  Suggests: b\n": "a",
		"app\n |Depends: a\n |Depends: b\n  Depends: c\n  Depends: d\n":     "a d",
		"app\n  Depends: <v>\n    p1\n    p2\n  Depends: a\n    p3\n":       "p1 a", // as libssl3 in Ubuntu 24.04
		"app\n |Depends: debconf\n  Depends: <debconf-2.0>\n    cdebconf\n": "debconf",
		"app\n  Depends: <virtual>\n  Depends: a\n    p\n":                  "a",
	} {
		if got := strings.Join(dependencies(printed), " "); got != want {
			t.Errorf("%q: got %s, want %s", printed, got, want)
		}
	}
}

func TestLibrariesAreFound(t *testing.T) {
	libc := "lib/" + triplet() + "/libc.so.6"
	tests := map[string]struct {
		packages func(t *testing.T, d debian)
		want     []string
		owners   string
		err      string
	}{
		"in the dependencies, through links": {
			func(t *testing.T, d debian) {
				d.add(t, "app", "1", []string{"  PreDepends: dpkg", " |Depends: libc6", "  Depends: libc7", "  Depends: <virtual>", "    dpkg"},
					map[string]string{"bin/app": program(t)})
				d.add(t, "dpkg", "1", nil, map[string]string{"usr/bin/dpkg": "not taken"})
				d.add(t, "libc6", "2", nil, map[string]string{
					"lib64/ld-linux-x86-64.so.2": "→/lib/ld.so", "lib/ld.so": "ld", libc: "→libc-2.so", "lib/" + triplet() + "/libc-2.so": "libc"})
			},
			[]string{"usr/bin/app", "usr/lib/" + triplet() + "/libc-2.so", "usr/lib/" + triplet() + "/libc.so.6", "usr/lib/ld.so",
				"usr/lib64/ld-linux-x86-64.so.2"},
			"app=1 libc6=2", ""},
		"in the dependencies of what needs them": {
			func(t *testing.T, d debian) {
				d.add(t, "app", "1", []string{"  Depends: app-core"}, map[string]string{"usr/bin/app": "→../lib/core"})
				d.add(t, "app-core", "1", []string{"  Depends: libc6"}, map[string]string{"usr/lib/core": program(t)})
				d.add(t, "libc6", "2", nil, map[string]string{"usr/lib64/ld-linux-x86-64.so.2": "ld", "usr/" + libc: "libc"})
			},
			[]string{"usr/bin/app", "usr/lib/core", "usr/lib/" + triplet() + "/libc.so.6", "usr/lib64/ld-linux-x86-64.so.2"},
			"app=1 app-core=1 libc6=2", ""},
		"or said to be missing": {
			func(t *testing.T, d debian) {
				d.add(t, "app", "1", []string{"  Depends: libc6", "  Depends: none"}, map[string]string{"usr/bin/app": program(t)})
				d.add(t, "libc6", "2", nil, map[string]string{"lib64/ld-linux-x86-64.so.2": "ld"})
			},
			nil, "", "/usr/bin/app needs libc.so.6: neither package app nor what it depends on has it"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDebian(t)
			test.packages(t, d)
			from, err := unpackAll(t.Context(), t.TempDir(), []string{"app"})
			must.Succeed(t, err)
			got := &taker{from: from, to: tree{}, owners: map[string]bool{}}
			err = got.take(t.Context(), "usr/bin/app", "app")
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			var files []string
			for file := range got.to {
				files = append(files, file)
			}
			slices.Sort(files)
			slices.Sort(test.want)
			if err != nil || !slices.Equal(files, test.want) {
				t.Errorf("got %v, %v, want %v", files, err, test.want)
			}
			if owners := strings.Join(from.contents(got.owners), " "); owners != test.owners {
				t.Errorf("they are of %s", owners)
			}
		})
	}
}

func TestVersionTags(t *testing.T) {
	for version, want := range map[string]string{
		"1.22.1-9+deb12u10": "1.22.1 1.22 1", "5:7.0.15-1~deb12u10": "7.0.15 7.0 7", "1:1.35.0-4+b1": "1.35.0 1.35 1",
		"1.18.0-6ubuntu14.4": "1.18.0 1.18 1", "8.0~rc1": "8.0 8", "x": "",
	} {
		if got := strings.Join(versionTags(version), " "); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

func TestTheSameFilesAreTheSameLayer(t *testing.T) {
	layer := func(content string) string {
		files := tree{}
		files.symlink("bin", "usr/bin")
		files.file("usr/bin/sh", 0o755, []byte(content))
		files.dir("tmp", 0o1777, 0)
		files.file("b/c/d", 0o644, nil)
		made, err := files.layer(types.OCILayer)
		must.Succeed(t, err)
		digest, err := made.Digest()
		must.Succeed(t, err)
		return digest.String()
	}
	first := layer("a")
	for range 20 { // maps have no order
		if layer("a") != first {
			t.Fatal("they are not")
		}
	}
	if layer("b") == first {
		t.Error("and other files are, too")
	}
}
