// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "testing"

func TestNothingAboutAGreetingIsUnwise(t *testing.T) {
	a := &ApiExampleA{}
	a.Default()
	if warnings := a.Warnings(); warnings != nil {
		t.Errorf("got %q", warnings)
	}
}
