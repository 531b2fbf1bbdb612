// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// home is the address of the project, and mainModule its module.
const (
	home       = "https://" + mainModule
	mainModule = "github.com/glassback/glassback"
)

// Names of files of a release.
const (
	thirdPartyFile = "THIRD_PARTY_LICENSES"
	checksumsFile  = "SHA256SUMS"
	signatureFile  = checksumsFile + ".sig"
	publicKeyFile  = "glassback.pub" // also in the checkout
	notesFile      = "release-notes.md"
	examplesFile   = "examples.tar.gz"
)

// release makes the files of a release.
type release struct {
	source

	image     string // the name of the image, without a tag
	baseURL   string // the archives are at BASE/VERSION/NAME
	platforms []platform
	key       string // a PEM file; empty if unsigned
	unsigned  bool

	dir          string            // that the files are written to
	sums         map[string]string // of the written files, by name
	rootsVersion string            // of rootsModule
	out          io.Writer         // messages for the user
}

// make makes all files in the directory dist, which must not exist. The directory appears when all files are complete.
func (r *release) make(ctx context.Context, dist string) error {
	if err := errors.Join(r.checkVersion(), r.checkKey()); err != nil {
		return err
	}
	if _, err := os.Stat(dist); err == nil {
		return fmt.Errorf("%s exists: remove it first", dist)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(dist), ".release-")
	if err != nil {
		return fmt.Errorf("make a directory for the files: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }() // It is ignored by git.
	r.dir, r.sums, r.rootsVersion = filepath.Join(temporary, "dist"), map[string]string{}, versionOf(rootsModule)
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		return fmt.Errorf("make a directory for the files: %w", err)
	}
	if err := r.makeFiles(ctx, temporary); err != nil {
		return err
	}
	if err := os.Rename(r.dir, dist); err != nil {
		return fmt.Errorf("complete %s: %w", dist, err)
	}
	fmt.Fprintf(r.out, "%s: %d files of %s\n", dist, len(r.sums), r.version)
	return nil
}

// makeFiles makes the files in the order in which they depend on each other.
func (r *release) makeFiles(ctx context.Context, temporary string) error {
	programs, modules, err := r.makePrograms(ctx, temporary)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("read the licence: %w", err)
	}
	legal := []entry{{name: "LICENSE", mode: 0o644, data: license}, {name: thirdPartyFile, mode: 0o644, data: thirdParty(modules)}}
	if err := r.write(thirdPartyFile)(legal[1].data, nil); err != nil {
		return err
	}
	archives := map[platform]string{}
	for _, p := range programs {
		archives[p.platform] = r.name(p.platform) + ".tar.gz"
		if err := r.write(archives[p.platform])(p.archive(r.date, legal)); err != nil {
			return err
		}
		if err := r.write(r.name(p.platform) + ".spdx.json")(r.describe(r.name(p.platform), "", modules, p)); err != nil {
			return err
		}
	}
	if err := r.write("krew.yaml")(r.krew(archives)); err != nil {
		return err
	}
	digest, err := r.makeImage(slices.DeleteFunc(programs, func(p *program) bool { return p.os != "linux" }), modules, legal, temporary)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		if err := r.write(name)(r.manifest(variants[name], digest)); err != nil {
			return err
		}
	}
	return r.complete(digest)
}

// makePrograms builds all programs, and finds the modules in them.
func (r *release) makePrograms(ctx context.Context, temporary string) ([]*program, []*module, error) {
	var programs []*program
	found := map[string]*module{}
	for _, p := range r.platforms {
		fmt.Fprintf(r.out, "build %s\n", p)
		program, err := r.build(ctx, p, temporary)
		if err != nil {
			return nil, nil, err
		}
		if err := r.licenses(ctx, program, found); err != nil {
			return nil, nil, err
		}
		programs = append(programs, program)
	}
	modules, err := classify(found)
	return programs, modules, err
}

// makeImage makes the image and its SPDX document, and returns the digest of its index.
func (r *release) makeImage(programs []*program, modules []*module, legal []entry, temporary string) (string, error) {
	index, err := r.index(programs, legal)
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of the image: %w", err)
	}
	if err := r.write(r.imageFile())(r.imageArchive(index, temporary)); err != nil {
		return "", err
	}
	name := "glassback-" + r.version + "-image"
	return digest.String(), r.write(name + ".spdx.json")(r.describe(name, digest.String(), modules, programs...))
}

// imageFile returns the name of the archive of the image.
func (s source) imageFile() string { return "glassback-" + s.version + "-image.tar" }

// complete makes the package of the chart, the examples, the configuration of kube-state-metrics, and the files about all others.
func (r *release) complete(digest string) error {
	if err := r.write(examplesFile)(r.examples()); err != nil {
		return err
	}
	if err := r.write(stateMetricsFile)(r.stateMetrics()); err != nil {
		return err
	}
	if err := r.write("glassback-" + strings.TrimPrefix(r.version, "v") + ".tgz")(r.chart(digest)); err != nil {
		return err
	}
	if err := r.write(notesFile)(r.notes()); err != nil {
		return err
	}
	if !r.unsigned {
		if err := r.write(publicKeyFile)(os.ReadFile(filepath.Join(r.root, publicKeyFile))); err != nil {
			return err
		}
	}
	if err := r.write("provenance.intoto.json")(r.provenance(digest)); err != nil {
		return err
	}
	sums := checksums(r.sums)
	if err := r.write(checksumsFile)(sums, nil); err != nil {
		return err
	}
	if r.unsigned {
		fmt.Fprintf(r.out, "unsigned: there is no %s\n", signatureFile)
		return nil
	}
	return r.write(signatureFile)(sign(r.key, sums))
}

// write returns a function that writes a file and remembers its sum, unless there is an error.
func (r *release) write(name string) func(data []byte, err error) error {
	return func(data []byte, err error) error {
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dir, name), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		r.sums[name] = sha256Of(data)
		return nil
	}
}

// versionOf returns the version of a module in this program.
func versionOf(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == path {
				return dep.Version
			}
		}
	}
	return "unknown"
}
