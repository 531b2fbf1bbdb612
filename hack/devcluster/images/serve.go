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
	path, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if repo, reference, found := cutLast(path, "/manifests/"); ok && found {
		return m.serveManifest(w, r, registry+"/"+repo, reference)
	}
	if repo, reference, found := cutLast(path, "/blobs/"); ok && found {
		return m.serveBlob(w, r, registry+"/"+repo, reference)
	}
	return &refusal{http.StatusNotFound, "UNSUPPORTED", r.URL.Path + " is nothing that can be pulled from here"}
}

// cutLast splits s around the last sep: a repository's name may hold "manifests" too.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+len(sep):], true
}

func (m mirror) serveManifest(w http.ResponseWriter, r *http.Request, repo, reference string) error {
	digest, err := m.resolve(repo, reference)
	if err != nil {
		return err
	}
	f, err := m.open(digest)
	if err != nil {
		return err
	}
	if f == nil {
		return m.unknown(repo + "@" + reference)
	}
	defer f.Close()
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

func (m mirror) serveBlob(w http.ResponseWriter, r *http.Request, repo, reference string) error {
	if _, err := name.NewRepository(repo); err != nil {
		return invalidName(repo)
	}
	digest, err := v1.NewHash(reference)
	if err != nil {
		return invalidDigest(reference)
	}
	f, err := m.open(digest)
	if err != nil {
		return err
	}
	if f == nil {
		return &refusal{http.StatusNotFound, "BLOB_UNKNOWN", "there is no blob " + reference}
	}
	defer f.Close()
	serveContent(w, r, digest, "application/octet-stream", f)
	return nil
}

// serveContent sends what a digest stands for, or the range of it that is asked for.
func serveContent(w http.ResponseWriter, r *http.Request, digest v1.Hash, mediaType string, content io.ReadSeeker) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("ETag", `"`+digest.String()+`"`)
	http.ServeContent(w, r, "", time.Time{}, content)
}

// resolve returns the digest that a reference, which is a tag or a digest, stands for.
func (m mirror) resolve(repo, reference string) (v1.Hash, error) {
	if strings.Contains(reference, ":") {
		if _, err := name.NewRepository(repo); err != nil {
			return v1.Hash{}, invalidName(repo)
		}
		digest, err := v1.NewHash(reference)
		if err != nil {
			return v1.Hash{}, invalidDigest(reference)
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
	var manifest struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     types.MediaType `json:"mediaType"`
		Manifests     json.RawMessage `json:"manifests"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil || manifest.SchemaVersion == 0 {
		return "", false
	}
	if manifest.MediaType != "" {
		return manifest.MediaType, manifest.MediaType.IsImage() || manifest.MediaType.IsIndex()
	}
	if manifest.Manifests != nil {
		return types.OCIImageIndex, true
	}
	return types.OCIManifestSchema1, true
}

func invalidName(image string) error {
	return &refusal{http.StatusBadRequest, "NAME_INVALID", fmt.Sprintf("%q is not the name of an image", image)}
}

func invalidDigest(digest string) error {
	return &refusal{http.StatusBadRequest, "DIGEST_INVALID", fmt.Sprintf("%q is not a digest", digest)}
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
