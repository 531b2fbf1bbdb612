/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package docs

import (
	"path/filepath"
	"testing"

	"github.com/glassback/glassback/hack/mutants"
)

// TestExperimentsBreakWhatTheySay runs the mutants in the documents: their tests must fail.
func TestExperimentsBreakWhatTheySay(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds what is changed")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range documents(t) {
		experiments, err := mutants.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, m := range experiments {
			t.Run(m.File+", "+m.Command, func(t *testing.T) {
				if result, output, err := m.Run(t.Context(), root, t.TempDir()); err != nil || result != mutants.Fails {
					t.Errorf("no test fails by it: %s, error %v\n%s", result, err, output)
				}
			})
		}
	}
}
