// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxManifest is the largest manifest that is served. The distribution specification recommends support for at least 4 MB.
const maxManifest = 4 << 20

// Handler serves the images of the stores to clients that pull: GET and HEAD of /v2/, and of the manifests and blobs below it. It takes an
// image or a blob from the first store that has it. It reads index.json for every tag, so it serves a new image at once.
func Handler(stores ...Store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{content...}", func(w http.ResponseWriter, r *http.Request) {
		content := r.PathValue("content")
		if content == "" { // The client asks whether this is a registry.
			fmt.Fprintln(w, "{}")
			return
		}
		if err := serve(stores, w, r, content); errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFound) {
			http.Error(w, err.Error(), http.StatusNotFound)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// serve answers a request for a manifest or a blob, unless it returns an error.
func serve(stores []Store, w http.ResponseWriter, r *http.Request, content string) error {
	parts := contentPath.FindStringSubmatch(content)
	if parts == nil {
		return fmt.Errorf("%w: %s is not the path of a manifest or a blob", ErrNotFound, content)
	}
	repo, blob, reference := parts[1], parts[2] == "blobs", parts[3]
	digest, err := v1.NewHash(reference)
	switch {
	case err != nil && blob:
		return fmt.Errorf("%w: %q is not a digest", ErrNotFound, reference)
	case err != nil: // containerd names the registry of an image in the parameter ns when it asks a mirror.
		if digest, err = tagged(stores, cmp.Or(r.URL.Query().Get("ns"), dockerHub)+"/"+repo+":"+reference); err != nil {
			return err
		}
	}
	f, err := open(stores, digest)
	if err != nil {
		return err
	}
	defer f.Close()
	if blob {
		serveContent(w, r, digest, "application/octet-stream", f)
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	mediaType, ok := manifestType(data)
	if !ok {
		return fmt.Errorf("%w: %s is no manifest", ErrNotFound, digest)
	}
	serveContent(w, r, digest, string(mediaType), bytes.NewReader(data))
	return nil
}

// contentPath matches the path of a manifest or a blob. Its first group is greedy: the name of a repository may contain "/manifests/".
var contentPath = regexp.MustCompile(`^(.*)/(manifests|blobs)/(.*)$`)

// serveContent sends the content of a digest, or the requested range of it.
func serveContent(w http.ResponseWriter, r *http.Request, digest v1.Hash, mediaType string, content io.ReadSeeker) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("ETag", `"`+digest.String()+`"`)
	http.ServeContent(w, r, "", time.Time{}, content)
}

// tagged returns the digest of the image with a full name.
func tagged(stores []Store, name string) (v1.Hash, error) {
	for _, store := range stores {
		if desc, err := store.entry(name); !errors.Is(err, ErrNotFound) {
			return desc.Digest, err
		}
	}
	return v1.Hash{}, fmt.Errorf("%w: %s: \"devcluster load\" adds one from an archive of \"docker save\"", ErrNotFound, name)
}

// open opens the blob of a digest, or fails with fs.ErrNotExist.
func open(stores []Store, digest v1.Hash) (f *os.File, err error) {
	for _, store := range stores {
		if f, err = os.Open(store.blobPath(digest)); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, err
}

// manifestType returns the media type of a manifest, or false if data is no manifest. OCI manifests need not state their media type.
func manifestType(data []byte) (types.MediaType, bool) {
	manifest, err := v1.ParseIndexManifest(bytes.NewReader(data))
	switch {
	case err != nil || manifest.SchemaVersion == 0:
		return "", false
	case manifest.MediaType != "":
		return manifest.MediaType, manifest.MediaType.IsImage() || manifest.MediaType.IsIndex()
	case manifest.Manifests != nil:
		return types.OCIImageIndex, true
	}
	return types.OCIManifestSchema1, true
}
