/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheWiringOfTheSixthController wires docs/sixth into the operator, as docs/sixth.md
// says, and runs the tests that compare what is wired. The patch is applied to copies,
// which the compiler takes for the files themselves.
//
// Where it no longer applies, what it is about has changed: apply it by hand, and write
// what git diff says into it.
func TestTheWiringOfTheSixthController(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the operator")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	wired := t.TempDir()
	for _, dir := range []string{"pkg/app", "pkg/permissions", "artifacts"} {
		if err := os.CopyFS(filepath.Join(wired, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	run := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GIT_CEILING_DIRECTORIES="+wired)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run(wired, "git", "apply", filepath.Join(root, "docs", "sixth", "wiring.patch"))
	replace := map[string]string{}
	for _, name := range []string{"app/controllers.go", "app/informers.go", "permissions/needs.go"} {
		replace[filepath.Join(root, "pkg", name)] = filepath.Join(wired, "pkg", name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(wired, "overlay.json"), overlay, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"app", "permissions"} {
		tests := filepath.Join(wired, pkg+".test")
		run(root, "go", "test", "-c", "-overlay", filepath.Join(wired, "overlay.json"), "-o", tests, "./pkg/"+pkg)
		out := run(filepath.Join(wired, "pkg", pkg), tests, "-test.run", "^(TestTheRolesGrant|TestInformersAsk|TestEveryController)", "-test.v")
		if want := map[string]int{"app": 2, "permissions": 1}[pkg]; strings.Count("\n"+out, "\n--- PASS: ") != want {
			t.Errorf("of pkg/%s not %d tests passed:\n%s", pkg, want, out)
		}
	}
}
