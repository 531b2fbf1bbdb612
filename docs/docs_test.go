/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package docs has only this test: that the documents do not drift from what they are about.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quotes = regexp.MustCompile("(?s)```go\n(.*?)```\n")
	links  = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
)

func TestQuotedCodeIsAsItIs(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir("../pkg", func(path string, _ fs.DirEntry, err error) error {
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
	for name, text := range documents(t) {
		for _, quote := range quotes.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(code.String(), quote[1]) {
				t.Errorf("%s quotes what is in no file of pkg:\n%s", name, quote[1])
			}
		}
	}
}

func TestLinkedFilesAreThere(t *testing.T) {
	for name, text := range documents(t) {
		for _, link := range links.FindAllStringSubmatch(text, -1) {
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
