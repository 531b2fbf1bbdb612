// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is a workflow of GitHub.
type workflow struct {
	On          map[string]any    `json:"true"` // YAML 1.1 reads on as true.
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Env         map[string]string `json:"env"`
		Steps       []struct {
			Uses string            `json:"uses"`
			Run  string            `json:"run"`
			With map[string]any    `json:"with"`
			Env  map[string]string `json:"env"`
		} `json:"steps"`
	} `json:"jobs"`
}

// workflows returns all workflows, and their texts, by file.
func workflows(t *testing.T) (map[string]*workflow, map[string]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("there are the workflows %q: %v", files, err)
	}
	all, texts := map[string]*workflow{}, map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		succeed(t, err)
		w := &workflow{}
		if err := yaml.Unmarshal(text, w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)], texts[filepath.Base(file)] = w, string(text)
	}
	return all, texts
}

// A tag can be moved to other code; a hash cannot.
func TestActionsArePinnedByTheirHash(t *testing.T) {
	pinned := regexp.MustCompile(`^uses: actions/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	_, texts := workflows(t)
	for file, text := range texts {
		for line := range strings.Lines(text) {
			if line = strings.TrimLeft(strings.TrimSpace(line), "- "); strings.HasPrefix(line, "uses:") && line != "uses: ./.github/workflows/ci.yml" && !pinned.MatchString(line) {
				t.Errorf("%s: %s", file, line)
			}
		}
	}
}

func TestWorkflowsMayWriteOnlyWhatTheyPublish(t *testing.T) {
	all, _ := workflows(t)
	for file, w := range all {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s may %v", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if len(job.Permissions) > 0 && file != "release.yml" {
				t.Errorf("%s: %s may %v", file, name, job.Permissions)
			}
		}
	}
}

// The dry run of this workflow is in TestTwoReleasesOfACommitAreTheSame.
func TestATagPublishesWhatMakeReleaseMakes(t *testing.T) {
	all, _ := workflows(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	succeed(t, err)
	w := all["release.yml"]
	push, _ := w.On["push"].(map[string]any)
	if tags, _ := push["tags"].([]any); len(w.On) != 1 || len(tags) != 1 || tags[0] != "v*" {
		t.Errorf("it runs on %v", w.On)
	}
	var made []string
	command := regexp.MustCompile(`(?m)^ *make ([a-z-]+)(.*)$`)
	for _, step := range w.Jobs["release"].Steps {
		for _, found := range command.FindAllStringSubmatch(step.Run, -1) {
			made = append(made, strings.TrimSpace(found[1]+found[2]))
			if !strings.Contains(string(makefile), "\n"+found[1]+":") {
				t.Errorf("there is no make %s", found[1])
			}
		}
	}
	want := []string{"vulnerabilities", `release VERSION="$VERSION" IMAGE="$IMAGE" BASE_URL="$BASE_URL" KEY="$KEY"`,
		`scan VERSION="$VERSION"`, `publish VERSION="$VERSION" IMAGE="$IMAGE" DRY_RUN=1`, `publish VERSION="$VERSION" IMAGE="$IMAGE"`}
	if strings.Join(made, "\n") != strings.Join(want, "\n") {
		t.Errorf("it runs\n%s\nwant\n%s", strings.Join(made, "\n"), strings.Join(want, "\n"))
	}
}
