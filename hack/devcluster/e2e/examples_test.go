/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// TestWhatKubectlSaysToTheExamples applies every example with kubectl. Of each bad one it
// complains once, as the example says. What the operator makes of the good ones is in
// testdata/examples.yaml.
func TestWhatKubectlSaysToTheExamples(t *testing.T) {
	t.Parallel()
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds").waitFor("Started controller")
	const dir = "../../../artifacts/examples"
	if out, err := w.kubectl(t, "apply", "--dry-run=server", "-f", dir); err != nil {
		t.Errorf("the good examples: %v\n%s", err, out)
	}
	t.Run("the good examples are written as before", func(t *testing.T) { testExamplesAreWrittenAsBefore(t, w) })
	files, err := filepath.Glob(filepath.Join(dir, "bad", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad examples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			w.must(t, err)
			first, _, _ := strings.Cut(string(data), "\n")
			want, ok := strings.CutPrefix(first, "# want: ")
			if !ok {
				t.Fatalf("it begins with %q", first)
			}
			out, err := w.kubectl(t, "apply", "-f", file)
			if _, refused := errors.AsType[*exec.ExitError](err); !refused {
				t.Fatalf("kubectl: %v\n%s", err, out)
			}
			if complaints := complaints(out); len(complaints) != 1 || !strings.Contains(complaints[0], want) {
				t.Errorf("kubectl says\n%swant one complaint, with\n%s", out, want)
			}
		})
	}
}

// complaints returns the errors that kubectl prints for an object: its single line, or the lines below a headline. It leaves out the API
// server's remark that it has stopped validation early.
func complaints(out string) []string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) == 1 {
		return lines
	}
	return slices.DeleteFunc(lines[1:], func(line string) bool {
		return strings.Contains(line, "some validation rules were not checked because the object was invalid")
	})
}

// kubectl runs kubectl and returns its output.
func (w *world) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary, err := cluster.FindBinary()
	w.must(t, err)
	out, err := exec.CommandContext(t.Context(), binary, append([]string{"kubectl", "--dir", w.Dir(), "--"}, args...)...).CombinedOutput()
	return string(out), err
}
