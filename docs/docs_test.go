// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs has only tests: they compare the documents with the code, the manifests and the tests that the documents describe.
package docs

import (
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

var (
	quotes  = regexp.MustCompile("(?s)```go\n(.*?)```\n")
	fences  = regexp.MustCompile("(?ms)^```.*?^```\n")
	links   = regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	symbol  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

func TestQuotedCodeIsInTheSource(t *testing.T) {
	code := sources(t, "../pkg", ".go") + sources(t, "sixth", ".go")
	for name, text := range documents(t) {
		// TestMarkedCodeIsExtracted compares the marked blocks.
		for _, quote := range quotes.FindAllStringSubmatch(block.ReplaceAllString(foreign.ReplaceAllString(text, ""), ""), -1) {
			if !strings.Contains(code, quote[1]) {
				t.Errorf("%s quotes code that is in no file of pkg or docs/sixth:\n%s", name, quote[1])
			}
		}
	}
}

// foreign matches a block of code for controller-runtime, in from-kubebuilder.md. The repository does not contain that code.
//
//	<!-- controller-runtime -->
var foreign = regexp.MustCompile("(?s)<!-- controller-runtime -->\n```go\n(.*?)```\n")

// TestForeignCodeIsFormatted parses the code as well: gofmt formats only code that parses.
func TestForeignCodeIsFormatted(t *testing.T) {
	for name, text := range documents(t) {
		found := foreign.FindAllStringSubmatch(text, -1)
		if marks := strings.Count(text, "<!-- controller-runtime -->"); marks != len(found) {
			t.Errorf("%s: of %d marks of code for controller-runtime, %d have a block of Go on the next line", name, marks, len(found))
		}
		for _, code := range found {
			formatted, err := format.Source([]byte(code[1]))
			if err != nil || string(formatted) != code[1] {
				t.Errorf("%s: %v; formatted, this is\n%s", name, err, formatted)
			}
		}
	}
}

func TestLinkedFilesAndSectionsExist(t *testing.T) {
	sections := map[string][]string{} // of each linked file
	for name, text := range documents(t) {
		for _, link := range links.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			file, section := name, link[2]
			if strings.Contains(link[1], "://") {
				continue
			} else if link[1] != "" {
				file = filepath.Join(filepath.Dir(name), link[1])
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", name, link[1], err)
				continue
			}
			if section != "" && sections[file] == nil {
				sections[file] = anchors(readFile(t, file))
			}
			if section != "" && !slices.Contains(sections[file], section) {
				t.Errorf("%s links to %s#%s, and there is no such section", name, link[1], section)
			}
		}
	}
}

// anchors returns the names of a document's headings in links, as GitHub forms them.
func anchors(document string) (all []string) {
	for _, found := range heading.FindAllStringSubmatch(fences.ReplaceAllString(document, ""), -1) {
		name := symbol.ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// TestNamedTestsExist looks for the tests that a document names as evidence.
func TestNamedTestsExist(t *testing.T) {
	name, tests := regexp.MustCompile("`(Test[A-Z]\\w+)`"), testNames(t)
	for document, text := range documents(t) {
		for _, test := range name.FindAllStringSubmatch(text, -1) {
			if !tests[test[1]] {
				t.Errorf("%s names %s, and there is no such test", document, test[1])
			}
		}
	}
}

// TestNamedTargetsExist looks for the make targets that sentences name. TestEveryCommandInTheDocuments runs those in blocks.
func TestNamedTargetsExist(t *testing.T) {
	target, makefile := regexp.MustCompile("`make ([a-z][a-z0-9-]*)[^`]*`"), readFile(t, "../Makefile")
	for name, text := range documents(t) {
		for _, found := range target.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			if !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s names make %s, and the Makefile has no such target", name, found[1])
			}
		}
	}
}

// documents returns the text of each document by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{
		"*.md", "../README*.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md", "../artifacts/chart/README.md",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no documents %s: %v", pattern, err)
		}
		for _, name := range names {
			texts[name] = readFile(t, name)
		}
	}
	return texts
}

// testNames returns the names of all tests in the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, root := range []string{"../pkg", "../hack", "../artifacts", "."} {
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(sources(t, root, "_test.go"), -1) {
			names[test[1]] = true
		}
	}
	return names
}

// sources returns the text of all files below a directory whose names end like this.
func sources(t *testing.T, root, suffix string) string {
	t.Helper()
	var all strings.Builder
	must.Succeed(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, suffix) {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	}))
	return all.String()
}

// readFile returns the text of a file.
func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.Succeed(t, err)
	return string(data)
}
