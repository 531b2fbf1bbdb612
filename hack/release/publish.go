// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// publication publishes the files of a release.
type publication struct {
	source

	image  string // the name that the image is pushed to, without a tag
	dist   string
	dryRun bool
	gh     func(ctx context.Context, args ...string) error // runs GitHub's program
	out    io.Writer
}

// run checks the files, pushes the image, and uploads all files to a release at GitHub. A dry run only prints what it would do.
func (p *publication) run(ctx context.Context) error {
	files, err := p.check()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "glassback-release-")
	if err != nil {
		return fmt.Errorf("make a directory for the image: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // It is a temporary directory.
	index, err := p.index(ctx, dir)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest of the image: %w", err)
	}
	args := []string{"release", "create", p.version, "--verify-tag", "--title", p.version, "--notes-file", filepath.Join(p.dist, notesFile)}
	p.tell("push %s:%s@%s", p.image, p.version, digest)
	for _, file := range files {
		p.tell("upload %s", file)
		args = append(args, filepath.Join(p.dist, file))
	}
	if !slices.Contains(files, signatureFile) {
		p.tell("unsigned: there is no %s", signatureFile)
	}
	if p.dryRun {
		return nil
	}
	tag, err := name.NewTag(p.image + ":" + p.version)
	if err != nil {
		return fmt.Errorf("parse the name of the image: %w", err)
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push the image: %w", err)
	}
	return p.gh(ctx, args...)
}

// runGitHub runs gh, which GitHub's runners have.
func runGitHub(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, "gh", args...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("gh %s: %w", args[0], err)
	}
	return nil
}

// tell prints one step.
func (p *publication) tell(format string, args ...any) {
	if p.dryRun {
		format = "dry run: " + format
	}
	fmt.Fprintf(p.out, format+"\n", args...)
}

// check returns the names of the files in dist. It returns an error unless they are exactly those that the checksums name.
func (p *publication) check() ([]string, error) {
	entries, err := os.ReadDir(p.dist)
	if err != nil {
		return nil, fmt.Errorf("look for the files, run make release first: %w", err)
	}
	sums, files, want := map[string]string{}, []string{}, ""
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(p.dist, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read a file: %w", err)
		}
		files = append(files, entry.Name())
		switch entry.Name() {
		case signatureFile:
		case checksumsFile:
			want = string(data)
		default:
			sums[entry.Name()] = sha256Of(data)
		}
	}
	both := string(checksums(sums)) + want
	for line := range strings.Lines(both) {
		if strings.Count(both, line) != 2 {
			return nil, fmt.Errorf("%s and the files in %s differ, run make release again: %s", checksumsFile, p.dist, strings.TrimSpace(line))
		}
	}
	return files, nil
}

// index returns the image. It is read from dir, to which its archive is unpacked.
func (p *publication) index(ctx context.Context, dir string) (v1.ImageIndex, error) {
	archive := filepath.Join(p.dist, p.imageFile())
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-C", dir, "-f", archive).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("unpack %s, is it of %s? %w: %s", archive, p.version, err, out)
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read the image: %w", err)
	}
	manifest, err := all.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has not exactly one image: %w", archive, err)
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, fmt.Errorf("read the image: %w", err)
	}
	return index, nil
}
