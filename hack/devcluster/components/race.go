// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package components

// Main replaces Kubernetes in builds with the race detector, as in "go test -race ./...": no test here needs Kubernetes, and compiling it
// for the race detector takes a quarter of an hour.
func Main(string) func() {
	panic("devcluster was built with -race, which leaves Kubernetes out: build it without")
}
