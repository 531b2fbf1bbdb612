// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package components

// Main replaces the components of Kubernetes in builds with the race detector, such as "go test -race ./...". To compile Kubernetes for the
// race detector takes a quarter of an hour, and the tests of this module do not need it.
func Main(string) func() {
	panic("this devcluster contains no Kubernetes, because it was built with -race: build it without -race")
}
