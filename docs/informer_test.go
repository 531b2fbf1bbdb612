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
	"regexp"
	"strings"
	"testing"
)

// An experiment is a change of the code that makes a test fail: the change is a block of
// diff, whose first line names the file, and the line before it says which test.
//
//	<!-- experiment: go test ./pkg/loop -run TestHandler -->
//	```diff
//	 pkg/loop/handler.go
//	 a line that stays
//	-one that goes
//	+one that comes
//	```
var experiment = regexp.MustCompile("(?s)<!-- experiment: (go test [^\n]*) -->\n```diff\n (\\S+)\n(.*?)```\n")

// TestExperimentsBreakWhatTheySay makes each change, to a copy that the compiler takes for
// the file itself, and runs its test, which has to fail.
func TestExperimentsBreakWhatTheySay(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds what is changed")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range documents(t) {
		found := experiment.FindAllStringSubmatch(text, -1)
		if marks := strings.Count(text, "<!-- experiment: "); marks != len(found) {
			t.Errorf("%s: of %d marks of experiments, %d have a block of diff on the next line", name, marks, len(found))
		}
		if strings.HasSuffix(name, ".zh.md") {
			continue // A translation has the experiments of its original.
		}
		for _, parts := range found {
			t.Run(parts[2]+", "+parts[1], func(t *testing.T) {
				overlay := changed(t, filepath.Join(root, parts[2]), parts[3])
				args := append([]string{"test", "-overlay", overlay}, strings.Fields(parts[1])[2:]...)
				cmd := exec.CommandContext(t.Context(), "go", args...)
				cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), "--- FAIL: ") {
					t.Errorf("no test fails by it: %v\n%s", err, out)
				}
			})
		}
	}
}

// changed applies a diff to a file, and returns the overlay that puts the outcome into its
// place.
func changed(t *testing.T, file, diff string) string {
	t.Helper()
	var old, now strings.Builder
	for line := range strings.Lines(diff) {
		if line[0] != '+' {
			old.WriteString(line[1:])
		}
		if line[0] != '-' {
			now.WriteString(line[1:])
		}
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), old.String()); n != 1 {
		t.Fatalf("%s has these lines %d times:\n%s", file, n, old.String())
	}
	dir := t.TempDir()
	copied, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: copied}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		copied: []byte(strings.Replace(string(source), old.String(), now.String(), 1)), overlay: replace,
	} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

// clientGo matches functions of client-go in the tables of informer.md: a file, and the functions in it.
var clientGo = regexp.MustCompile("`([a-z]+(?:/[a-z]+)*/\\w+\\.go)`: (`[\\w.]+`(?:, `[\\w.]+`)*)")

// TestNamedFunctionsOfClientGoAreThere looks for the functions in the version of client-go that go.mod names.
func TestNamedFunctionsOfClientGoAreThere(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "k8s.io/client-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(dir)), " ")
	text, err := os.ReadFile("informer.md")
	if err != nil {
		t.Fatal(err)
	}
	columns := regexp.MustCompile(`(?m)^\| our code \| client-go (\S+) \|`).FindAllStringSubmatch(string(text), -1)
	for _, column := range columns {
		if !strings.HasPrefix(version, "v0."+strings.TrimPrefix(column[1], "0.")+".") {
			t.Errorf("a table is about client-go %s, and go.mod has %s", column[1], version)
		}
	}
	found := clientGo.FindAllStringSubmatch(string(text), -1)
	if len(columns) != 8 || len(found) < len(columns) {
		t.Errorf("%d tables name functions in %d files", len(columns), len(found))
	}
	for _, file := range found {
		source, err := os.ReadFile(filepath.Join(root, file[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		for function := range strings.SplitSeq(file[2], ", ") {
			if _, err := declaration(source, strings.Trim(function, "`")); err != nil {
				t.Errorf("%s: %s: %v", file[1], function, err)
			}
		}
	}
}
