// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// patches are the worked examples: sixth.md wires a controller in, and from-kubebuilder.md adds a field to ApiExampleA.
var patches = []string{"sixth/wiring.patch", "from-kubebuilder.patch"}

// workedExamples are the tests that run with the patches, by the directory of their package.
var workedExamples = map[string][]string{
	"pkg/kinds":       {"TestTheTableIsSorted", "TestEachDefinitionHasADescriptor"},
	"pkg/permissions": {"TestTheRolesGrantWhatIsNeededAndNothingElse"},

	"pkg/apis/groupa/v1":         {"TestDefault", "TestGreeting", "TestValidate"},
	"pkg/controller/apiexamplea": {"TestSync", "TestStatus"},
	"pkg/controller/golden":      {"TestApiExampleA"}, // An upgrade writes the same: the patch changes no golden file.
	"artifacts/crd": {
		"TestTheAPIServerTakesEveryDefinition", "TestADefinitionThatChangesGetsANewRevision", "TestTheSchemaAcceptsTheExamples",
		"TestTheSchemaAcceptsEveryStatusField", "TestWords",
	},
}

// TestWorkedExamples applies the patches to one copy of the operator, and runs its tests. The compiler takes the patched
// files of the copy in place of the originals, so it compiles only the packages that the patches change.
//
// If a patch no longer applies, the operator has changed: apply it by hand, run make generate, and write the output of git diff into it.
func TestWorkedExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the operator")
	}
	root, err := filepath.Abs("..")
	must.Succeed(t, err)
	patched := t.TempDir()
	for _, dir := range []string{"pkg", "artifacts"} {
		must.Succeed(t, os.CopyFS(filepath.Join(patched, dir), os.DirFS(filepath.Join(root, dir))))
	}
	run := func(t *testing.T, dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GIT_CEILING_DIRECTORIES="+patched)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	for _, patch := range patches {
		run(t, patched, "git", "apply", filepath.Join(root, "docs", patch))
	}
	overlay := filepath.Join(patched, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": changedFiles(t, root, patched)})
	if err == nil {
		err = os.WriteFile(overlay, replace, 0o644)
	}
	must.Succeed(t, err)
	for dir, tests := range workedExamples {
		t.Run(dir, func(t *testing.T) {
			binary := filepath.Join(patched, strings.ReplaceAll(dir, "/", "-")+".test")
			run(t, root, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "./"+dir)
			out := run(t, filepath.Join(patched, dir), binary, "-test.run", "^("+strings.Join(tests, "|")+")$", "-test.v")
			for _, test := range tests {
				if !strings.Contains(out, "--- PASS: "+test+" ") {
					t.Errorf("%s did not run:\n%s", test, out)
				}
			}
		})
	}
}

// changedFiles returns the files that the patches change: the path of the original, and the path of the copy.
func changedFiles(t *testing.T, root, patched string) map[string]string {
	t.Helper()
	changed := map[string]string{}
	for _, patch := range patches {
		data, err := os.ReadFile(patch)
		must.Succeed(t, err)
		for _, file := range regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`).FindAllSubmatch(data, -1) {
			path := filepath.FromSlash(string(file[1]))
			changed[filepath.Join(root, path)] = filepath.Join(patched, path)
		}
	}
	return changed
}
