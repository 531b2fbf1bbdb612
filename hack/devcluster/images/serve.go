// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxManifest is how large a manifest may be: what the specification asks registries to accept.
const maxManifest = 4 << 20

// maxNames is how many names an answer lists at most.
const maxNames = 20

// Handler serves the images of the stores to whoever pulls: GET and HEAD of /v2/, and of the manifests and blobs below it. The first store
// that has something wins, and index.json is read at every request, so that a new image is there at once.
func Handler(stores ...Store) http.Handler { return mirror(stores) }

type mirror []Store

// refusal is an answer that is no success, as the distribution specification wants it.
type refusal struct {
	status  int
	code    string
	message string
}

func (r *refusal) Error() string { return r.message }

func (m mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	err := m.serve(w, r)
	if err == nil {
		return
	}
	answer, ok := errors.AsType[*refusal](err)
	if !ok {
		answer = &refusal{http.StatusInternalServerError, "UNKNOWN", err.Error()}
	}
	type item struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	// Whoever does not want to hear it has gone.
	_ = json.NewEncoder(w).Encode(map[string][]item{"errors": {{answer.code, answer.message}}})
}

// serve answers a request, unless it returns an error.
func (m mirror) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return &refusal{http.StatusMethodNotAllowed, "UNSUPPORTED", r.Method + " is not supported: images can only be pulled from here"}
	}
	if r.URL.Path == "/v2/" || r.URL.Path == "/v2" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
		return nil
	}
	registry := r.URL.Query().Get("ns")
	if registry == "" {
		registry = dockerHub
	}
	if _, err := name.NewRegistry(registry); err != nil {
		return invalidName(registry)
	}
	parts := pulled.FindStringSubmatch(r.URL.Path)
	if parts == nil {
		return &refusal{http.StatusNotFound, "UNSUPPORTED", r.URL.Path + " is nothing that can be pulled from here"}
	}
	repo, blob, reference := registry+"/"+parts[1], parts[2] == "blobs", parts[3]
	if _, err := name.NewRepository(repo); err != nil {
		return invalidName(repo)
	}
	digest, err := m.resolve(repo, reference, blob)
	if err != nil {
		return err
	}
	f, err := m.open(digest)
	switch {
	case err != nil:
		return err
	case f == nil && blob:
		return &refusal{http.StatusNotFound, "BLOB_UNKNOWN", "there is no blob " + reference}
	case f == nil:
		return m.unknown(repo + "@" + reference)
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
		return m.unknown(repo + "@" + reference)
	}
	serveContent(w, r, digest, string(mediaType), bytes.NewReader(data))
	return nil
}

// pulled is the path of a manifest or a blob: a repository's name may hold "manifests" too.
var pulled = regexp.MustCompile(`^/v2/(.*)/(manifests|blobs)/(.*)$`)

// serveContent sends what a digest stands for, or the range of it that is asked for.
func serveContent(w http.ResponseWriter, r *http.Request, digest v1.Hash, mediaType string, content io.ReadSeeker) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("ETag", `"`+digest.String()+`"`)
	http.ServeContent(w, r, "", time.Time{}, content)
}

// resolve returns the digest that a reference stands for. It is a digest or, of a manifest, a tag.
func (m mirror) resolve(repo, reference string, blob bool) (v1.Hash, error) {
	if blob || strings.Contains(reference, ":") {
		digest, err := v1.NewHash(reference)
		if err != nil {
			return digest, &refusal{http.StatusBadRequest, "DIGEST_INVALID", fmt.Sprintf("%q is not a digest", reference)}
		}
		return digest, nil
	}
	full, err := FullName(repo + ":" + reference)
	if err != nil {
		return v1.Hash{}, invalidName(repo + ":" + reference)
	}
	for _, store := range m {
		desc, err := store.entry(full)
		if !errors.Is(err, ErrNotFound) {
			return desc.Digest, err
		}
	}
	return v1.Hash{}, m.unknown(full)
}

// open opens the blob of a digest, or returns nil.
func (m mirror) open(digest v1.Hash) (*os.File, error) {
	for _, store := range m {
		f, err := store.blob(digest)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open blob: %w", err)
		}
	}
	return nil, nil
}

// manifestType returns what a manifest says that it is, which is nothing in some that the OCI made. Not every blob is a manifest.
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

func invalidName(image string) error {
	return &refusal{http.StatusBadRequest, "NAME_INVALID", fmt.Sprintf("%q is not the name of an image", image)}
}

// unknown says that there is no such image, which ones there are, and how to get more. Not all who pull pass that on: containerd asks by
// HEAD first, whose answer has no body, and says but "not found".
func (m mirror) unknown(image string) error {
	var names []string
	for _, store := range m {
		more, err := store.Names()
		if err != nil {
			return err
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	have := "no image at all"
	if len(names) > maxNames {
		have = fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	} else if len(names) > 0 {
		have = strings.Join(names, ", ")
	}
	message := fmt.Sprintf("there is no image %s: \"devcluster load\" adds one from an archive of \"docker save\"; there is %s", image, have)
	return &refusal{http.StatusNotFound, "MANIFEST_UNKNOWN", message}
}
