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

// maxManifest is the largest manifest that is served. The distribution specification recommends support for at least 4 MB.
const maxManifest = 4 << 20

// maxNames is the largest number of images that the error for an unknown image lists.
const maxNames = 20

// Handler serves the images of the stores to clients that pull: GET and HEAD of /v2/, and of the manifests and blobs below it. It takes an
// image or a blob from the first store that has it. It reads index.json for every tag, so it serves a new image at once.
func Handler(stores ...Store) http.Handler { return mirror(stores) }

type mirror []Store

// refusal is an error in an answer, as the distribution specification defines it.
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
	// An error means that the client has closed the connection.
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
	registry := r.URL.Query().Get("ns") // containerd names the registry of an image in this parameter when it asks a mirror.
	if registry == "" {
		registry = dockerHub
	}
	if _, err := name.NewRegistry(registry); err != nil {
		return invalidName(registry)
	}
	parts := contentPath.FindStringSubmatch(r.URL.Path)
	if parts == nil {
		return &refusal{http.StatusNotFound, "UNSUPPORTED", r.URL.Path + " is not the path of a manifest or a blob"}
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
		return m.unknown(repo + "@" + digest.String())
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
		return m.unknown(repo + "@" + digest.String())
	}
	serveContent(w, r, digest, string(mediaType), bytes.NewReader(data))
	return nil
}

// contentPath matches the path of a manifest or a blob. Its first group is greedy: the name of a repository may contain "/manifests/".
var contentPath = regexp.MustCompile(`^/v2/(.*)/(manifests|blobs)/(.*)$`)

// serveContent sends the content of a digest, or the requested range of it.
func serveContent(w http.ResponseWriter, r *http.Request, digest v1.Hash, mediaType string, content io.ReadSeeker) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("ETag", `"`+digest.String()+`"`)
	http.ServeContent(w, r, "", time.Time{}, content)
}

// resolve returns the digest of a reference. A reference is a digest or, for a manifest, a tag.
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

func invalidName(image string) error {
	return &refusal{http.StatusBadRequest, "NAME_INVALID", fmt.Sprintf("%q is not the name of an image", image)}
}

// unknown returns an error that lists the available images and explains how to add one. Not every client prints it: containerd sends a HEAD
// first, whose answer has no body, and prints only "not found".
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
