// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

func TestWriteCreatesUpdatesAndDeletesFiles(t *testing.T) {
	dir := t.TempDir()
	for _, part := range []string{"crd", "rbac", "webhook", "prometheus"} {
		succeed(t, os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(artifacts, part))))
	}
	begin, _, _ := strings.Cut(header, "%s")
	templates := filepath.Join(dir, templateDir)
	for path, text := range map[string]string{
		"crds/gone_things.yaml":   begin,                // no longer made
		"webhook/mutating.yaml":   begin + " and stale", // to be made anew
		"webhook/of_a_human.yaml": "kept",
	} {
		file := filepath.Join(templates, path)
		succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
		succeed(t, os.WriteFile(file, []byte(text), 0o644))
	}
	succeed(t, write(dir))
	want, err := generate(artifacts)
	succeed(t, err)
	want[templateDir+"/webhook/of_a_human.yaml"] = "kept"
	for path, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != text {
			t.Errorf("%s was not written: %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(templates, "crds", "gone_things.yaml")); err == nil {
		t.Error("a template that is no longer made is still there")
	}
}

func TestAManifestThatLooksOtherwiseIsRefusedAndNotHalfMade(t *testing.T) {
	for name, test := range map[string]struct {
		template func(string) (string, error)
		manifest string
		want     string
	}{
		"a definition without annotations": {
			crd, "---\napiVersion: v1\nmetadata:\n  name: a\n", `contains "\n  annotations:\n" 0 times, want 1`,
		},
		"a webhook of another namespace": {
			webhooks, "metadata:\n  labels:\n    app.kubernetes.io/name: glassback\n  clientConfig:\n        namespace: elsewhere\n" +
				"    namespaceSelector: {}\n",
			"glassback-system",
		},
		"no rules": {rules, "kind: ClusterRole\n", "no rules"},
		"a rule about an unexpected resource of the cluster": {
			rules, "\nrules:\n  - apiGroups: [storage.k8s.io]\n    resources: [storageclasses]\n    verbs: [get]\n", "say in hack/chart/rules.go",
		},
		"a rule of which no comment says whose it is": {
			rules, "\nrules:\n  # This is something new.\n  - apiGroups: [\"\"]\n    resources: [pods]\n    verbs: [get]\n",
			"say in a comment which part",
		},
		"a rule that no API knows": {rules, "\nrules:\n  - apiGroup: a\n", "parse one rule"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := test.template(test.manifest); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q and %v, want an error with %q", got, err, test.want)
			}
		})
	}
}
