// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/glassback/glassback/hack/devcluster/images"
)

// nonroot is the user that runs the program, the same as in the images of distroless.
const nonroot = 65532

// certificates is the path at which programs look for trusted certificates.
const certificates = "etc/ssl/certs/ca-certificates.crt"

// binary makes an image of one program.
type binary struct {
	name       string
	output     string
	entrypoint string // "": / and the name of program
	program    string
}

func (b binary) make() error {
	full, err := images.FullName(b.name)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(strings.TrimPrefix(strings.TrimPrefix(full, "docker.io/"), "library/"))
	if err != nil {
		return fmt.Errorf("parse name %s: %w", full, err)
	}
	data, err := os.ReadFile(b.program)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	arch, err := staticArch(data)
	if err != nil {
		return fmt.Errorf("%s %w", b.program, err)
	}
	entrypoint := path.Join("/", b.entrypoint)
	if b.entrypoint == "" {
		entrypoint = "/" + filepath.Base(b.program)
	}
	files, err := rootOf(data, strings.TrimPrefix(entrypoint, "/"))
	if err != nil {
		return err
	}
	config := v1.Config{
		Entrypoint: []string{entrypoint},
		User:       fmt.Sprintf("%d:%d", nonroot, nonroot),
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		WorkingDir: "/home/nonroot",
	}
	image, err := assemble(empty.Image, files, config, arch, types.DockerManifestSchema2)
	if err != nil {
		return err
	}
	return writeArchive(b.output, tag, image)
}

// staticArch returns the architecture of a static Linux program, or an error if data is not such a program.
func staticArch(data []byte) (string, error) {
	const remedy = "build it with CGO_ENABLED=0 GOOS=linux"
	program, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return "", errors.New("is no Linux program: " + remedy)
	}
	needs, err := needsOf(data)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	if len(needs) > 0 {
		return "", fmt.Errorf("is linked dynamically (it needs %s), and the image has nothing but it: %s", strings.Join(needs, ", "), remedy)
	}
	switch {
	case program.Machine == elf.EM_X86_64:
		return "amd64", nil
	case program.Machine == elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("is for %s: build it with GOARCH=amd64 or arm64", program.Machine)
}

// rootOf returns the files of an image of a program.
func rootOf(program []byte, at string) (tree, error) {
	files := tree{}
	files.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"))
	files.file("etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n"))
	files.file("etc/nsswitch.conf", 0o644, []byte("hosts: files dns\n"))
	files.dir("tmp", 0o1777, 0)
	files.dir("root", 0o700, 0)
	files.dir("home/nonroot", 0o700, nonroot)
	trusted, err := os.ReadFile("/" + certificates)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	if err == nil {
		files.file(certificates, 0o644, trusted)
	}
	files.file(at, 0o755, program)
	return files, nil
}

// writeArchive writes an archive in the format of "docker save". A rename creates the file after it is complete.
func writeArchive(output string, tag name.Tag, image v1.Image) error {
	f, err := os.CreateTemp(filepath.Dir(output), filepath.Base(output)+".new-")
	if err != nil {
		return fmt.Errorf("create archive: %w", err)
	}
	defer os.Remove(f.Name()) // After the rename, this name is gone.
	if err := cmp.Or(tarball.Write(tag, image, f), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if err := os.Rename(f.Name(), output); err != nil {
		return fmt.Errorf("replace archive: %w", err)
	}
	return nil
}
