// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package must has what every test checks: that there is no unexpected error, such as one of its set-up, and no credential in an output.
package must

import "testing"

// Succeed fails the test, and ends it, if there is an error.
func Succeed(t testing.TB, err error) {
	if err != nil {
		t.Helper() // Not before the if: Helper is slow, and benchmarks call Succeed in their loops.
		t.Fatal(err)
	}
}
