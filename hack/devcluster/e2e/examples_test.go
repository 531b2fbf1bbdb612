// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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

// TestExamples applies every example with kubectl. For each bad example, kubectl prints exactly one error, which the example quotes. The
// objects that the operator creates for the good examples are in testdata/examples.yaml.
func TestExamples(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds").waitFor("Started controller")
	const dir = "../../../artifacts/examples"
	if out, err := w.kubectl(t, "apply", "--dry-run=server", "-f", dir); err != nil {
		t.Errorf("the good examples: %v\n%s", err, out)
	}
	t.Run("the objects for the good examples are as before", func(t *testing.T) { testExamplesAreWrittenAsBefore(t, w) })
	files, err := filepath.Glob(filepath.Join(dir, "bad", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad examples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			w.must(t, err)
			first, _, _ := strings.Cut(string(data), "\n")
			want, ok := strings.CutPrefix(first, "# want: ")
			if !ok {
				t.Fatalf("the first line is %q, want one that begins with \"# want: \"", first)
			}
			out, err := w.kubectl(t, "apply", "-f", file)
			if _, refused := errors.AsType[*exec.ExitError](err); !refused {
				t.Fatalf("kubectl: %v\n%s", err, out)
			}
			if complaints := complaints(out); len(complaints) != 1 || !strings.Contains(complaints[0], want) {
				t.Errorf("kubectl printed\n%swant one error, with\n%s", out, want)
			}
		})
	}
}

// complaints returns the errors that kubectl prints for an object: a single line, or the lines below a headline. It leaves out the API
// server's message that it has skipped some validation rules.
func complaints(out string) []string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) == 1 {
		return lines
	}
	return slices.DeleteFunc(lines[1:], func(line string) bool {
		return strings.Contains(line, "some validation rules were not checked because the object was invalid")
	})
}

// kubectl runs kubectl on the cluster and returns its output. "devcluster kubectl" would start its large program twice.
func (w *world) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(w.Dir(), "bin", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}
