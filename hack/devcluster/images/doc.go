// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images keeps container images on disk and serves them to containerd, so that a real node runs with no registry in reach.
//
//	Store.Put    an image made here                      → the store
//	Store.Load   an archive of "docker save" or of OCI   → the store
//	Handler      the store                               → whoever pulls, such as containerd
//
// A Store is an OCI image layout (https://github.com/opencontainers/image-spec/blob/main/image-layout.md): index.json lists the images,
// each under its full name in the annotation org.opencontainers.image.ref.name, and blobs/ holds what they are made of. Readers need no
// lock: index.json is replaced by a rename, and what it leads to is there before it is. Blobs that no name leads to any more
// stay, since a client may be pulling them.
//
// Handler is the pull half of the OCI distribution API (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull) as
// containerd asks a mirror for it: with the name of the registry that it stands in for in the query parameter ns.
package images
