// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glassback/glassback/hack/mutants"
	"github.com/glassback/glassback/pkg/must"
)

// TestEveryExperimentFails runs the mutants in the documents: the tests that they name must fail.
func TestEveryExperimentFails(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the mutants")
	}
	root, err := filepath.Abs("..")
	must.Succeed(t, err)
	for name, text := range documents(t) {
		experiments, err := mutants.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasSuffix(name, ".zh.md") {
			continue // A translation has the experiments of its original.
		}
		for _, m := range experiments {
			t.Run(m.File+", "+m.Command, func(t *testing.T) {
				if result, output, err := m.Run(t.Context(), root, t.TempDir()); err != nil || result != mutants.Fails {
					t.Errorf("the test does not fail: %s, error %v\n%s", result, err, output)
				}
			})
		}
	}
}

// clientGo matches functions of client-go in the tables of informer.md: a file, and the functions in it.
var clientGo = regexp.MustCompile("`([a-z]+(?:/[a-z]+)*/\\w+\\.go)`: (`[\\w.]+`(?:, `[\\w.]+`)*)")

// TestClientGoHasTheNamedFunctions looks for the functions that informer.md names in the client-go of go.mod.
func TestClientGoHasTheNamedFunctions(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "k8s.io/client-go").Output()
	must.Succeed(t, err)
	root, version, _ := strings.Cut(strings.TrimSpace(string(dir)), " ")
	text, err := os.ReadFile("informer.md")
	must.Succeed(t, err)
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
