// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package must ends a test at the first error of its set-up. It is for tests.
package must

import "testing"

// Succeed fails the test, and ends it, if there is an error.
func Succeed(t testing.TB, err error) {
	if err != nil {
		t.Helper() // Here, since it is slow: benchmarks call this function in their loops.
		t.Fatal(err)
	}
}
