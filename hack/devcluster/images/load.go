// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// containerdAnnotation has the full name of an image in the archives of containerd and BuildKit, where nameAnnotation has but the tag.
const containerdAnnotation = "io.containerd.image.name"

var errNoArchive = errors.New(`not an archive of images: make one with "docker save -o FILE NAME:TAG"`)

// named is an image of an archive and the full names that it has there.
type named struct {
	image v1.Image
	names []string
}

// Load stores the images of an archive made by "docker save", or of a tar of an OCI image layout, either of them as it is or compressed by
// gzip. It returns their full names. All of the archive is checked before any of it is stored.
func (s Store) Load(file string) ([]string, error) {
	unpacked, err := os.MkdirTemp("", "devcluster-load-")
	if err != nil {
		return nil, fmt.Errorf("create temporary directory: %w", err)
	}
	defer os.RemoveAll(unpacked) //nolint:errcheck // It is a temporary one.
	found, err := readArchive(file, unpacked)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", file, err)
	}
	var names []string
	for _, f := range found {
		if err := s.Put(f.image, f.names...); err != nil {
			return nil, err
		}
		names = append(names, f.names...)
	}
	return names, nil
}

// readArchive returns the images of an archive. It puts what it has to unpack for that into scratch, which must last as long as they do.
func readArchive(file, scratch string) ([]named, error) {
	file, err := inflate(file, filepath.Join(scratch, "archive.tar"))
	if err != nil {
		return nil, err
	}
	docker, oci, err := kindOf(file)
	if err != nil {
		return nil, err
	}
	var found []named
	switch {
	case docker: // Docker's are both since version 25, with the names in Docker's part.
		found, err = readDocker(file)
	case oci:
		found, err = readOCI(file, filepath.Join(scratch, "layout"))
	default:
		return nil, errNoArchive
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("there is no image in it")
	}
	for _, f := range found {
		if err := checkPlatform(f); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// inflate returns the path of a tar: of the given file, or of what it holds compressed, which it puts at the path to.
func inflate(file, to string) (string, error) {
	from, err := os.Open(file)
	if err != nil {
		return "", cause(err)
	}
	defer from.Close()
	if info, err := from.Stat(); err != nil || info.IsDir() {
		return "", errNoArchive
	}
	buffered := bufio.NewReader(from)
	if magic, _ := buffered.Peek(2); string(magic) != "\x1f\x8b" {
		return file, nil
	}
	plain, err := gzip.NewReader(buffered)
	if err != nil {
		return "", errNoArchive
	}
	w, err := os.Create(to)
	if err != nil {
		return "", fmt.Errorf("decompress: %w", cause(err))
	}
	_, err = io.Copy(w, plain)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("decompress: %w", err)
	}
	return to, nil
}

// cause returns what is wrong with a file, without its name, which the caller says.
func cause(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// kindOf reads a tar to its end, and reports whether Docker's and OCI's lists of images are in it.
func kindOf(file string) (docker, oci bool, err error) {
	err = eachFile(file, func(name string, _ io.Reader) error {
		docker = docker || name == "manifest.json"
		oci = oci || name == "index.json"
		return nil
	})
	return docker, oci, err
}

// eachFile calls visit for every regular file of a tar.
func eachFile(file string, visit func(name string, content io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	archive := tar.NewReader(f)
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

func readDocker(file string) ([]named, error) {
	opener := func() (io.ReadCloser, error) { return os.Open(file) }
	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, fmt.Errorf("read manifest.json: %w", err)
	}
	var found []named
	for _, desc := range manifest {
		if len(desc.RepoTags) == 0 {
			return nil, fmt.Errorf("an image in it (%s) has no name: save it by NAME:TAG and not by its id", path.Base(desc.Config))
		}
		tag, err := name.NewTag(desc.RepoTags[0])
		if err != nil {
			return nil, fmt.Errorf("%q in it is not the name of an image", desc.RepoTags[0])
		}
		image, err := tarball.Image(opener, &tag)
		if err != nil {
			return nil, fmt.Errorf("read image %s: %w", desc.RepoTags[0], err)
		}
		n := named{image: image}
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

func readOCI(file, dir string) ([]named, error) {
	if err := unpackLayout(file, dir); err != nil {
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
	var found []named
	for _, desc := range manifest.Manifests {
		full, err := ociName(desc)
		if err != nil {
			return nil, err
		}
		image, err := ociImage(index, desc)
		if err != nil {
			return nil, fmt.Errorf("read image %s: %w", full, err)
		}
		found = append(found, named{image, []string{full}})
	}
	return found, nil
}

// unpackLayout unpacks from a tar what belongs to an OCI image layout. The names of blobs are digests, so that none leads out of dir.
func unpackLayout(file, dir string) error {
	return eachFile(file, func(name string, content io.Reader) error {
		if name != "index.json" && !isBlob(name) {
			return nil
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		f, err := os.Create(to)
		if err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		_, err = io.Copy(f, content)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
		return nil
	})
}

func isBlob(name string) bool {
	algorithm, hex, _ := strings.Cut(strings.TrimPrefix(name, "blobs/"), "/")
	_, err := v1.NewHash(algorithm + ":" + hex)
	return err == nil && strings.HasPrefix(name, "blobs/")
}

// ociName returns the full name of an image in an archive. A reference that is but a tag is none.
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

// ociImage returns the image of a descriptor: of several for different platforms, that for this one.
func ociImage(index v1.ImageIndex, desc v1.Descriptor) (v1.Image, error) {
	if !desc.MediaType.IsIndex() {
		return index.Image(desc.Digest)
	}
	platforms, err := index.ImageIndex(desc.Digest)
	if err != nil {
		return nil, err
	}
	ours := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	images, err := partial.FindImages(platforms, func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.Satisfies(ours) })
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("it is for other platforms than %s: build it with --platform %s", ours, ours)
	}
	return images[0], nil
}

// checkPlatform refuses an image that no container of this machine could run.
func checkPlatform(f named) error {
	config, err := f.image.ConfigFile()
	if err != nil {
		return fmt.Errorf("read configuration of %s: %w", f.names[0], err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		return fmt.Errorf("%s is for %s/%s and the node is linux/%s: build it with --platform linux/%s",
			f.names[0], config.OS, config.Architecture, runtime.GOARCH, runtime.GOARCH)
	}
	return nil
}
