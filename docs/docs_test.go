/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package docs has only tests: that the documents do not drift from what they are about.
package docs

import (
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quotes = regexp.MustCompile("(?s)```go\n(.*?)```\n")
	fences = regexp.MustCompile("(?ms)^```.*?^```\n")
	links  = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
)

func TestQuotedCodeIsAsItIs(t *testing.T) {
	var code strings.Builder
	for _, root := range []string{"../pkg", "sixth"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			data, err := os.ReadFile(path)
			code.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range documents(t) {
		// What is marked is compared with what the mark names.
		for _, quote := range quotes.FindAllStringSubmatch(block.ReplaceAllString(foreign.ReplaceAllString(text, ""), ""), -1) {
			if !strings.Contains(code.String(), quote[1]) {
				t.Errorf("%s quotes what is in no file of pkg or docs/sixth:\n%s", name, quote[1])
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

func TestLinkedFilesAreThere(t *testing.T) {
	for name, text := range documents(t) {
		for _, link := range links.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), link[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, link[1], err)
			}
		}
	}
}

func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	texts := map[string]string{}
	for _, name := range append(names, "../README.md") {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(data)
	}
	return texts
}

// TestNamedTestsAreThere is about tests by which a document says that something is so.
func TestNamedTestsAreThere(t *testing.T) {
	defined, name := regexp.MustCompile(`(?m)^func (Test\w+)\(`), regexp.MustCompile("`(Test[A-Z]\\w+)`")
	there := map[string]bool{}
	for _, root := range []string{"../pkg", "../hack", "../artifacts", "."} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, test := range defined.FindAllStringSubmatch(string(data), -1) {
				there[test[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for document, text := range documents(t) {
		for _, test := range name.FindAllStringSubmatch(text, -1) {
			if !there[test[1]] {
				t.Errorf("%s names %s, and there is no such test", document, test[1])
			}
		}
	}
}
