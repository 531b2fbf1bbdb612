// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsModule is the module that has the certificates of the image.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// rootsLicense is the licence of this module. The programs do not contain the module, so classify does not find the licence.
const rootsLicense = "BSD-3-Clause"

// nonroot is the user that runs the program, the same as in the images of distroless.
const nonroot = 65532

// certificates returns the certificate authorities of Mozilla that have no constraint: a file cannot express constraints.
func certificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return all.Bytes()
}

// rootFiles returns the files of the image that are the same for all platforms. The image has no shell and no package.
func rootFiles(legal []entry) []entry {
	files := []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: "etc/nsswitch.conf", mode: 0o644, data: []byte("hosts: files dns\n")},
		{name: "etc/passwd", mode: 0o644,
			data: []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates()},
		{name: "home/", mode: 0o755},
		{name: "home/nonroot/", mode: 0o700, user: nonroot},
		{name: "licenses/", mode: 0o755},
	}
	for _, e := range legal {
		e.name = "licenses/" + e.name
		files = append(files, e)
	}
	return append(files, entry{name: "tmp/", mode: 0o1777})
}

// labels returns the labels of the images, which are also the annotations of the index.
func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "Glassback",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   home,
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.commit,
	}
}

// layer returns a layer with some files.
func (r *release) layer(files []entry) (v1.Layer, error) {
	var out bytes.Buffer
	if err := writeTar(&out, r.date, files); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// platformImage returns the image for one platform: a layer that all share, and one with the program.
func (r *release) platformImage(p *program, shared v1.Layer) (v1.Image, error) {
	own, err := r.layer([]entry{{name: "glassback", mode: 0o755, data: p.data}})
	if err != nil {
		return nil, err
	}
	date := v1.Time{Time: r.date}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: shared, History: v1.History{Created: date, CreatedBy: "hack/release: files"}},
		mutate.Addendum{Layer: own, History: v1.History{Created: date, CreatedBy: "hack/release: program"}})
	if err != nil {
		return nil, fmt.Errorf("assemble the image for %s: %w", p.platform, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure the image for %s: %w", p.platform, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, date
	config.Config = v1.Config{
		Entrypoint: []string{"/glassback"}, User: fmt.Sprintf("%d:%d", nonroot, nonroot), WorkingDir: "/home/nonroot",
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Labels: r.labels(),
	}
	return mutate.ConfigFile(image, config)
}

// index returns the image for all platforms of the programs, which are for Linux.
func (r *release) index(programs []*program, legal []entry) (v1.ImageIndex, error) {
	shared, err := r.layer(rootFiles(legal))
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		image, err := r.platformImage(p, shared)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	annotated, ok := mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotate the index: it is of the type %T", index)
	}
	return annotated, nil
}

// imageArchive returns a tar file of an OCI layout that has the image under its name. It uses dir for temporary files.
func (r *release) imageArchive(index v1.ImageIndex, dir string) ([]byte, error) {
	at, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err == nil {
		err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{
			"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": r.image + ":" + r.version,
		}))
	}
	if err != nil {
		return nil, fmt.Errorf("write the image: %w", err)
	}
	var entries []entry
	err = fs.WalkDir(os.DirFS(string(at)), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if e.IsDir() {
			entries = append(entries, entry{name: name + "/", mode: 0o755})
			return nil
		}
		data, err := os.ReadFile(filepath.Join(string(at), name))
		entries = append(entries, entry{name: name, mode: 0o644, data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the image: %w", err)
	}
	var out bytes.Buffer
	err = writeTar(&out, r.date, entries)
	return out.Bytes(), err
}

// programArchive writes an archive of an image of one program, for docker load. The image is as in a release, but has no licences and one
// platform. The program has to be a static one for Linux, which Go has built. For users without a release, "make image" does this.
func (r *release) programArchive(file, output string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s is no program of Go: %w", file, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != "linux" || settings["CGO_ENABLED"] != "0" {
		return fmt.Errorf("%s was built with GOOS=%s and CGO_ENABLED=%s: build it with GOOS=linux and CGO_ENABLED=0",
			file, settings["GOOS"], settings["CGO_ENABLED"])
	}
	tag, err := name.NewTag(r.image)
	if err != nil {
		return fmt.Errorf("parse the name of the image: %w", err)
	}
	r.date = time.Unix(0, 0)
	shared, err := r.layer(rootFiles(nil))
	if err != nil {
		return err
	}
	image, err := r.platformImage(&program{platform{"linux", settings["GOARCH"]}, data, info}, shared)
	if err != nil {
		return err
	}
	if err := tarball.WriteToFile(output+".new", tag, image); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return os.Rename(output+".new", output)
}
