// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// platform is an operating system and an architecture, as in GOOS and GOARCH.
type platform struct{ os, arch string }

// platforms are the platforms that have an archive. The image is for those with Linux.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// String returns the platform as in "linux/amd64".
func (p platform) String() string { return p.os + "/" + p.arch }

// exe returns the name of a program on the platform.
func (p platform) exe(name string) string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

// program is the binary for one platform.
type program struct {
	platform

	data []byte
	info *buildinfo.BuildInfo
}

// source is the commit that a release is made from.
type source struct {
	root    string // the directory of the checkout
	version string // such as v0.2.0
	commit  string // its hash
	date    time.Time
}

// build builds the program for a platform. It uses dir for temporary files.
func (s source) build(ctx context.Context, p platform, dir string) (*program, error) {
	file := filepath.Join(dir, "program")
	flags := fmt.Sprintf("-s -w -X %[1]s.version=%[2]s -X %[1]s.commit=%[3]s -X %[1]s.date=%[4]s",
		mainModule+"/pkg/version", s.version, s.commit, s.date.Format(time.RFC3339))
	if _, err := s.run(ctx, p, "build", "-trimpath", "-ldflags", flags, "-o", file, "."); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the program for %s: %w", p, err)
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read the modules of the program for %s: %w", p, err)
	}
	return &program{p, data, info}, nil
}

// run runs a command of go in the checkout and returns its output. It overrides environment variables that would change a program.
func (s source) run(ctx context.Context, p platform, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = s.root
	command.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off", "CGO_ENABLED=0",
		"GOAMD64=v1", "GOARM64=v8.0", "GOTOOLCHAIN=local", "GOEXPERIMENT=", "GODEBUG=", "GOFIPS140=off")
	out, err := command.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("go %s for %s: %w", args[0], p, err)
	}
	return out, nil
}

// name returns the prefix of the names of all files for a platform.
func (s source) name(p platform) string { return "glassback-" + s.version + "-" + p.os + "-" + p.arch }
