// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// named matches the places where a file names the version of Glassback: the tag of an image, a kustomization's newTag, the version of a
// chart, of a program or of a release, and the names of released files.
var named = regexp.MustCompile(`glassback:(v\d+\.\d+\.\d+)|newTag: (v\d+\.\d+\.\d+)|"version": "(v\d+\.\d+\.\d+)"|` +
	`(?m:^version: (\d+\.\d+\.\d+)$)|(?m:^appVersion: (\S+)$)|glassback-(v?\d+\.\d+\.\d+)[.-]|` +
	`VERSION=(v\d+\.\d+\.\d+)|releases/download/(v\d+\.\d+\.\d+)/`)

// TestEveryFileNamesTheSameVersion compares the chart, the documents, their e2e test, the manifests and the examples with the first
// section of CHANGELOG.md.
func TestEveryFileNamesTheSameVersion(t *testing.T) {
	_, rest, _ := strings.Cut(readFile(t, "../CHANGELOG.md"), "\n## ")
	version, _, _ := strings.Cut(rest, "\n")
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(version) {
		t.Fatalf("the first section of CHANGELOG.md is %q, not a version", version)
	}
	places := map[string]int{}
	for name, text := range versioned(t) {
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			places[name]++
			if got := strings.Join(found[1:], ""); "v"+strings.TrimPrefix(got, "v") != version {
				t.Errorf("%s has %q, and the first section of CHANGELOG.md is %s", name, found[0], version)
			}
			if strings.HasPrefix(found[0], "appVersion") && found[5] != version {
				t.Errorf("%s has %q: the tag of the image is %s", name, found[0], version)
			}
		}
	}
	for name, least := range map[string]int{
		"../artifacts/chart/Chart.yaml": 3, "../README.md": 2, "install.md": 6, "release.md": 2, "kubectl.md": 1, "commands.yaml": 6,
		"../artifacts/default/kustomization.yaml": 1, "../hack/devcluster/e2e/docs_session_test.go": 1,
	} {
		if places[name] < least {
			t.Errorf("%s names the version at %d places: the pattern of this test does not find them", name, places[name])
		}
	}
}

// versioned returns the text of each file that may name the version, by its path.
func versioned(t *testing.T) map[string]string {
	t.Helper()
	texts := documents(t)
	delete(texts, "../CHANGELOG.md") // Its sections are of several versions.
	for _, name := range []string{"commands.yaml", "../hack/devcluster/e2e/docs_session_test.go"} {
		texts[name] = readFile(t, name)
	}
	must.Succeed(t, filepath.WalkDir("../artifacts", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path, filepath.Join("..", "artifacts", "examples", "bad")) {
			return err
		}
		if extension := filepath.Ext(path); extension == ".yaml" || extension == ".md" || extension == ".tpl" {
			texts[path] = readFile(t, path)
		}
		return nil
	}))
	return texts
}
