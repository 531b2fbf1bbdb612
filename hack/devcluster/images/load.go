// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// containerdAnnotation holds the full name of an image in archives of containerd and BuildKit. In these, nameAnnotation holds only the tag.
const containerdAnnotation = "io.containerd.image.name"

var errNoArchive = errors.New(`not an archive of images: make one with "docker save -o FILE NAME:TAG"`)

var errNoFile = errors.New(`not a regular file: make one with "docker save -o FILE NAME:TAG"`)

// archived is an image of an archive.
type archived struct {
	image v1.Image
	list  v1.ImageIndex // the list of platforms; nil for an image of one platform
	names []string      // full names
}

// Load stores the images of an archive made by "docker save", or of a tar of an OCI image layout. Either may be compressed by gzip. After
// an error, it returns the full names of the images that it stored before.
func (s Store) Load(ctx context.Context, file string) ([]string, error) {
	unpacked, err := os.MkdirTemp("", "devcluster-load-")
	if err != nil {
		return nil, fmt.Errorf("create temporary directory: %w", err)
	}
	defer os.RemoveAll(unpacked) //nolint:errcheck // It is a temporary directory.
	var names []string
	found, err := readArchive(ctx, file, unpacked)
	for _, f := range found {
		if err = s.put(ctx, f.image, f.list, f.names); err != nil {
			break
		}
		names = append(names, f.names...)
	}
	if ctx.Err() != nil {
		err = ctx.Err() // The other error, such as an early end of a layer, is only a consequence.
	}
	if err != nil {
		return names, fmt.Errorf("load %s: %w", file, err)
	}
	return names, nil
}

// readArchive returns the images of an archive, which are for this platform. It unpacks files into the directory scratch, which must exist
// as long as the images are in use. The images cannot be read after ctx has ended.
func readArchive(ctx context.Context, file, scratch string) ([]archived, error) {
	file, err := decompress(ctx, file, filepath.Join(scratch, "archive.tar"))
	if err != nil {
		return nil, err
	}
	docker, oci, err := kindOf(ctx, file)
	if err != nil {
		return nil, err
	}
	var found []archived
	switch {
	case docker: // Since Docker 25, archives have both lists. Only Docker's list has the names.
		found, err = readDocker(file)
	case oci:
		found, err = readOCI(ctx, file, filepath.Join(scratch, "layout"))
	default:
		return nil, errNoArchive
	}
	if err == nil && len(found) == 0 {
		err = errors.New("there is no image in it")
	}
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		config, err := f.image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("read configuration of %s: %w", f.names[0], cause(err))
		}
		if config.OS != "linux" || config.Architecture != runtime.GOARCH {
			return nil, fmt.Errorf("%s is for %s/%s and the node is linux/%s: build it with --platform linux/%s",
				f.names[0], config.OS, config.Architecture, runtime.GOARCH, runtime.GOARCH)
		}
	}
	return found, nil
}

// decompress returns the path of a tar. For a file compressed by gzip, it writes the tar to the path to, and returns that. For another
// file, it returns the path of the file.
func decompress(ctx context.Context, file, to string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", cause(err)
	}
	if !info.Mode().IsRegular() { // Opening a pipe waits for its writer, and a pipe cannot be read twice.
		return "", errNoFile
	}
	from, err := os.Open(file)
	if err != nil {
		return "", cause(err)
	}
	defer from.Close()
	buffered := bufio.NewReader(until(ctx, from))
	if magic, _ := buffered.Peek(2); string(magic) != "\x1f\x8b" {
		return file, nil
	}
	plain, err := gzip.NewReader(buffered)
	if err != nil {
		return "", errNoArchive
	}
	if err := save(to, plain); err != nil {
		return "", fmt.Errorf("decompress: %w", cause(err))
	}
	return to, nil
}

// save writes a new file.
func save(file string, content io.Reader) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return cmp.Or(err, f.Close())
}

// kindOf reads a tar to its end. It reports whether the tar contains Docker's list of images, and whether it contains OCI's.
func kindOf(ctx context.Context, file string) (docker, oci bool, err error) {
	err = eachFile(ctx, file, func(name string, _ io.Reader) error {
		docker = docker || name == "manifest.json"
		oci = oci || name == "index.json"
		return nil
	})
	return docker, oci, err
}

// readSeeker is a file that can be read until a context ends. The tar reader seeks past the content of files that nobody reads.
type readSeeker struct {
	io.Reader
	io.Seeker
}

// eachFile calls visit for every regular file of a tar, until visit returns an error.
func eachFile(ctx context.Context, file string, visit func(name string, content io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	archive := tar.NewReader(readSeeker{until(ctx, f), f})
	for n := 0; ; n++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && n == 0 {
			return errNoArchive
		}
		if err != nil {
			return fmt.Errorf("read tar: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := visit(path.Clean(header.Name), archive); err != nil {
			return err
		}
	}
}

// readDocker returns the images of a tar with Docker's list of images.
func readDocker(file string) ([]archived, error) {
	opener := func() (io.ReadCloser, error) { return os.Open(file) }
	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, fmt.Errorf("read manifest.json: %w", err)
	}
	var found []archived
	for _, desc := range manifest {
		if len(desc.RepoTags) == 0 {
			return nil, fmt.Errorf("an image in it (%s) has no name: save it by NAME:TAG and not by its id", path.Base(desc.Config))
		}
		n := archived{}
		tag, err := name.NewTag(desc.RepoTags[0])
		if err == nil {
			n.image, err = tarball.Image(opener, &tag)
		}
		if err != nil {
			return nil, fmt.Errorf("read image %s: %w", desc.RepoTags[0], err)
		}
		for _, given := range desc.RepoTags {
			full, err := FullName(given)
			if err != nil {
				return nil, err
			}
			n.names = append(n.names, full)
		}
		found = append(found, n)
	}
	return found, nil
}

// readOCI returns the images of a tar of an OCI image layout. It unpacks the tar into dir.
func readOCI(ctx context.Context, file, dir string) ([]archived, error) {
	if err := unpackLayout(ctx, file, dir); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read index.json: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("decode index.json: %w", err)
	}
	var found []archived
	for _, desc := range manifest.Manifests {
		full, err := ociName(desc)
		if err != nil {
			return nil, err
		}
		n, err := ociImage(index, full, desc)
		if err != nil {
			return nil, err
		}
		found = append(found, n)
	}
	return found, nil
}

// unpackLayout unpacks the files of an OCI image layout from a tar. It accepts only digests as names of blobs, so no path leads out of dir.
func unpackLayout(ctx context.Context, file, dir string) error {
	return eachFile(ctx, file, func(name string, content io.Reader) error {
		if name != "index.json" && !isBlob(name) {
			return nil
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		if err := save(to, content); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		return nil
	})
}

// isBlob reports whether name is the path of a blob: "blobs/", an algorithm, and a digest.
func isBlob(name string) bool {
	algorithm, hex, _ := strings.Cut(strings.TrimPrefix(name, "blobs/"), "/")
	_, err := v1.NewHash(algorithm + ":" + hex)
	return err == nil && strings.HasPrefix(name, "blobs/")
}

// ociName returns the full name of an image in an archive. It does not accept a reference that is only a tag.
func ociName(desc v1.Descriptor) (string, error) {
	given := desc.Annotations[containerdAnnotation]
	if given == "" {
		given = desc.Annotations[nameAnnotation]
		if !strings.ContainsAny(given, "/:") {
			return "", fmt.Errorf("an image in it (%s) has no name: its annotation %s must be NAME:TAG, and is %q",
				desc.Digest, nameAnnotation, given)
		}
	}
	return FullName(given)
}

// ociImage returns the image of a descriptor. If it describes a list of platforms, it returns the image for this platform and the list.
func ociImage(index v1.ImageIndex, name string, desc v1.Descriptor) (archived, error) {
	n := archived{names: []string{name}}
	var err error
	if desc.MediaType.IsIndex() {
		if n.list, err = index.ImageIndex(desc.Digest); err != nil {
			return n, fmt.Errorf("read the list of platforms of image %s: %w", name, cause(err))
		}
		platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
		found, err := partial.FindManifests(n.list, func(d v1.Descriptor) bool {
			return d.MediaType.IsImage() && d.Platform != nil && d.Platform.Satisfies(platform)
		})
		if err != nil {
			return n, fmt.Errorf("read image %s: %w", name, err)
		}
		if len(found) == 0 {
			return n, fmt.Errorf("read image %s: it is for other platforms than %s: build it with --platform %s", name, platform, platform)
		}
		index, desc = n.list, found[0]
	}
	if n.image, err = index.Image(desc.Digest); err != nil {
		return n, fmt.Errorf("read image %s: %w", name, cause(err))
	}
	return n, nil
}
