// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestTheTemplatesThatAreMadeOfOtherFilesAreUpToDate(t *testing.T) {
	want, err := generate(artifacts)
	succeed(t, err)
	got, err := existing(artifacts)
	succeed(t, err)
	const remedy = `run "go run ." in hack/chart, and commit the result`
	for path, text := range want {
		if got[path] != text {
			t.Errorf("artifacts/%s is out of date: %s", path, remedy)
		}
	}
	for path := range got {
		if _, made := want[path]; !made {
			t.Errorf("artifacts/%s is no longer made: %s", path, remedy)
		}
	}
}
