// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// errPackages is the error if Debian's packages are not available. An existing image is then kept.
var errPackages = errors.New("packages are not available")

// packages are Debian packages, unpacked for one image.
type packages struct {
	dir      string
	versions map[string]string   // of the unpacked packages, by name
	files    map[string]packaged // by path as in an image
	expanded map[string]bool     // the packages with unpacked dependencies
}

// packaged is a file of a package.
type packaged struct {
	path  string // on this machine
	owner string // its package
}

// unpackAll unpacks packages into an empty directory.
func unpackAll(ctx context.Context, dir string, names []string) (*packages, error) {
	p := &packages{dir: dir, versions: map[string]string{}, files: map[string]packaged{}, expanded: map[string]bool{}}
	known, err := candidates(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if known[name] == "" {
			return nil, fmt.Errorf("%w: there is no package %s: run apt-get update (on Ubuntu, it is in universe)", errPackages, name)
		}
	}
	return p, p.unpack(ctx, known)
}

// unpack downloads and unpacks packages in the given versions. It skips packages that are unpacked already.
func (p *packages) unpack(ctx context.Context, versions map[string]string) error {
	var wanted []string
	for name, version := range versions {
		if _, done := p.versions[name]; !done {
			wanted = append(wanted, name+"="+version)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	slices.Sort(wanted)
	downloads, err := os.MkdirTemp(p.dir, "download-")
	if err != nil {
		return fmt.Errorf("create directory for packages: %w", err)
	}
	args := []string{"-qq", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30"}
	if os.Geteuid() == 0 {
		args = append(args, "-o", "APT::Sandbox::User=root") // no other user may write to the directory
	}
	if _, err := run(ctx, downloads, "apt-get", append(append(args, "download"), wanted...)...); err != nil {
		return fmt.Errorf("%w: run apt-get update, and see whether this machine reaches its Debian mirror", err)
	}
	archives, err := filepath.Glob(filepath.Join(downloads, "*.deb"))
	if err != nil || len(archives) != len(wanted) {
		return fmt.Errorf("%w: apt-get download brought %d of %d packages", errPackages, len(archives), len(wanted))
	}
	for _, archive := range archives {
		name, _, _ := strings.Cut(filepath.Base(archive), "_")
		root := filepath.Join(p.dir, name)
		if _, err := run(ctx, p.dir, "dpkg-deb", "-x", archive, root); err != nil {
			return err
		}
		if err := p.list(name, root); err != nil {
			return fmt.Errorf("list files of package %s: %w", name, err)
		}
		p.versions[name] = versions[name]
	}
	return nil
}

// list adds the files of a package that was unpacked into root.
func (p *packages) list(name, root string) error {
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		p.files[merged(filepath.ToSlash(rel))] = packaged{path: file, owner: name}
		return nil
	})
}

// expand unpacks the direct dependencies of a package.
func (p *packages) expand(ctx context.Context, name string) error {
	if p.expanded[name] {
		return nil
	}
	p.expanded[name] = true
	depends, err := run(ctx, p.dir, "apt-cache", "depends", "--important", name)
	if err != nil {
		return err
	}
	names := dependencies(depends)
	if len(names) == 0 {
		return nil
	}
	known, err := candidates(ctx, names)
	if err != nil {
		return err
	}
	return p.unpack(ctx, known)
}

// dependencies parses the output of apt-cache depends. A line with | has an alternative in the next line: dependencies returns the first
// alternative. <…> is a virtual package: dependencies returns its first provider, from the next line.
func dependencies(printed string) []string {
	var names []string
	alternative := false // the line before began with |
	provided := false    // the line before was a virtual package
	for line := range strings.Lines(printed) {
		relation, name, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			if provided {
				names = append(names, relation)
			}
			provided = false
			continue
		}
		provided = false
		more := strings.HasPrefix(relation, "|")
		relation = strings.TrimPrefix(relation, "|")
		if relation != "Depends" && relation != "PreDepends" {
			continue
		}
		if !alternative {
			provided = strings.HasPrefix(name, "<")
			if !provided {
				names = append(names, name)
			}
		}
		alternative = more
	}
	return names
}

// candidates returns the versions that apt would install. It leaves out packages that apt does not know.
func candidates(ctx context.Context, names []string) (map[string]string, error) {
	printed, err := run(ctx, "", "apt-cache", append([]string{"policy"}, names...)...)
	versions := map[string]string{}
	name := ""
	for line := range strings.Lines(printed) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, " ") {
			name = strings.TrimSuffix(line, ":")
		} else if version, ok := strings.CutPrefix(line, "  Candidate: "); ok && version != "(none)" {
			versions[name] = version
		}
	}
	return versions, err
}

// run runs a program of Debian and returns its output. The error is one line with the program's error output.
func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	if _, err := exec.LookPath(program); err != nil {
		return "", fmt.Errorf("%w: there is no %s: images are made from Debian's packages, so make them on Debian or Ubuntu",
			errPackages, program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LANGUAGE=C")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		var complaints []string
		for line := range strings.Lines(stderr.String()) {
			complaint, ok := strings.CutPrefix(strings.TrimSpace(line), "E: ")
			if ok && !slices.Contains(complaints, complaint) {
				complaints = append(complaints, complaint)
			}
		}
		if len(complaints) == 0 {
			complaints = []string{strings.Join(strings.Fields(stderr.String()), " "), err.Error()}
		}
		return "", fmt.Errorf("%w: %s: %s", errPackages, program, strings.Join(complaints, "; "))
	}
	return stdout.String(), nil
}

// merged returns the path in an image for the path of a package. In an image, as in Debian, /bin and similar directories are links to
// those in /usr.
func merged(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(mergedDirs(), first) {
		return "usr/" + name
	}
	return name
}

func mergedDirs() []string { return []string{"bin", "sbin", "lib", "lib64"} }
