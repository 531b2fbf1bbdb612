// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"
)

// taker copies files of packages into a tree, each with the files that it needs: the targets of links, and the libraries of programs.
type taker struct {
	from *packages
	to   tree
}

// take copies a file, given by its path in the image. If no unpacked package has the file, take first unpacks the dependencies of the
// package whose name is from.
func (t *taker) take(ctx context.Context, name, from string) error {
	if _, done := t.to[name]; done {
		return nil
	}
	file, ok := t.from.files[name]
	if !ok {
		if err := t.from.expand(ctx, from); err != nil {
			return err
		}
		if file, ok = t.from.files[name]; !ok {
			return fmt.Errorf("neither package %s nor what it depends on has /%s", from, name)
		}
	}
	info, err := os.Lstat(file.path)
	if err != nil {
		return fmt.Errorf("look at /%s: %w", name, err)
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(file.path)
		if err != nil {
			return fmt.Errorf("read link /%s: %w", name, err)
		}
		t.to.symlink(name, target)
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		return t.take(ctx, merged(target), file.owner)
	}
	data, err := os.ReadFile(file.path)
	if err != nil {
		return fmt.Errorf("read /%s: %w", name, err)
	}
	t.to.file(name, int64(info.Mode().Perm()), data)
	needs, err := needsOf(data)
	if err != nil {
		return fmt.Errorf("read /%s: %w", name, err)
	}
	for _, need := range needs {
		if err := t.takeLibrary(ctx, need, file.owner); err != nil {
			return fmt.Errorf("/%s needs %s: %w", name, need, err)
		}
	}
	return nil
}

// takeLibrary copies a library by its name, or an interpreter by its path. A Debian package depends on all packages that its files need
// directly.
func (t *taker) takeLibrary(ctx context.Context, need, from string) error {
	if path.IsAbs(need) {
		return t.take(ctx, merged(need), from)
	}
	dirs := []string{"usr/lib/" + triplet(), "usr/lib"}
	for range 2 {
		for _, dir := range dirs {
			if _, ok := t.from.files[dir+"/"+need]; ok {
				return t.take(ctx, dir+"/"+need, from)
			}
		}
		if err := t.from.expand(ctx, from); err != nil {
			return err
		}
	}
	return fmt.Errorf("neither package %s nor what it depends on has it", from)
}

// triplet returns Debian's name of this machine's architecture.
func triplet() string {
	if runtime.GOARCH == "arm64" {
		return "aarch64-linux-gnu"
	}
	return "x86_64-linux-gnu"
}

// needsOf returns the path of the interpreter and the names of the libraries that a program or a library needs.
func needsOf(data []byte) ([]string, error) {
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return nil, nil
	}
	program, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decode ELF: %w", err)
	}
	var needs []string
	for _, segment := range program.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		interpreter, err := io.ReadAll(segment.Open())
		if err != nil {
			return nil, fmt.Errorf("read interpreter: %w", err)
		}
		needs = append(needs, strings.TrimRight(string(interpreter), "\x00"))
	}
	libraries, err := program.ImportedLibraries()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("read needed libraries: %w", err)
	}
	return append(needs, libraries...), nil
}
