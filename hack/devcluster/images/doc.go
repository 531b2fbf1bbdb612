// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images keeps container images on disk and serves them to containerd, so that a real node runs with no registry in reach.
//
//	Store.Put    an image made here                      → the store
//	Store.Load   an archive of "docker save" or of OCI   → the store
//	Handler      the store                               → clients that pull, such as containerd
//
// A Store is an OCI image layout (https://github.com/opencontainers/image-spec/blob/main/image-layout.md): index.json lists the images,
// each under its full name in the annotation org.opencontainers.image.ref.name, and blobs/ holds their manifests, configurations and
// layers. Readers need no lock: a rename replaces index.json after all blobs of a new image are in place. Blobs that no image uses any
// more stay, since a client may be pulling them.
//
// Handler implements the pull requests of the OCI distribution API
// (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull). containerd uses it as a mirror: the query parameter ns of a
// request names the registry that the mirror replaces.
package images
