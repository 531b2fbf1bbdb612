// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// TestImportsPointDownTheTable holds the packages against the table in architecture.md: each is in a row, and imports only what is in a row
// below, or in its own, where that is part of it. Generated code, which is for everybody, imports the types.
func TestImportsPointDownTheTable(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	must.Succeed(t, err)
	var rows [][]string // the beginnings of paths, from the top
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*\bpkg/[^|]*) \|`).FindAllStringSubmatch(string(text), -1) {
		var paths []string
		for _, path := range regexp.MustCompile(`(?:^|\[|, )(pkg/[a-z/]+[a-z])`).FindAllStringSubmatch(row[1], -1) {
			paths = append(paths, path[1])
		}
		rows = append(rows, paths)
	}
	rowOf := func(pkg string) (int, string) {
		for i, paths := range rows {
			for _, path := range paths {
				if pkg == path || strings.HasPrefix(pkg, path+"/") {
					return i, path
				}
			}
		}
		return -1, ""
	}
	err = filepath.WalkDir("../pkg", func(file string, _ fs.DirEntry, err error) error {
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(pkg, "pkg/generated") {
			return err
		}
		row, part := rowOf(pkg)
		if row < 0 {
			t.Errorf("%s is in no row of the table", pkg)
			return fs.SkipDir
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/glassback/glassback/")
			if to, of := rowOf(imported); own && strings.HasPrefix(imported, "pkg/") &&
				(to < row || to == row && (of != part || part == "pkg/controller")) {
				t.Errorf("%s imports %s, which is not below it in the table", file, imported)
			}
		}
		return nil
	})
	must.Succeed(t, err)
	if len(rows) < 10 {
		t.Errorf("the table has %d rows", len(rows))
	}
}
