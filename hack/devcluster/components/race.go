// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package components

// Main stands in for Kubernetes where the race detector is on, as in "go test -race ./...": nothing of Kubernetes is tested here, and
// compiling it anew for the race detector takes a quarter of an hour.
func Main(string) func() {
	panic("devcluster was built with -race, which leaves Kubernetes out: build it without")
}
