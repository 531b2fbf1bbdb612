// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

var (
	pathCounts = regexp.MustCompile(`(?s)path has (\d+) functions in (\d+) files\. .* have ([\d,]+) lines; .* have ([\d,]+)\.`)
	quoted     = regexp.MustCompile("`(\\w+)`")
)

// TestThePathOfOneEvent compares the counts in architecture.md with the functions in its table.
func TestThePathOfOneEvent(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, "architecture.md"), "\n### The path of one event\n")
	section, _, _ = strings.Cut(section, "\n## ")
	stated := pathCounts.FindStringSubmatch(section)
	if !found || stated == nil {
		t.Fatalf("architecture.md has no counts of the form %s", pathCounts)
	}
	var functions, files, ofFunctions, ofFiles int
	for row := range strings.Lines(section) {
		if !strings.HasPrefix(row, "| ") {
			continue
		}
		var missing []string // functions of this row that no file of it has
		for _, name := range quoted.FindAllStringSubmatch(row, -1) {
			missing = append(missing, name[1])
		}
		named := slices.Clone(missing)
		for _, link := range links.FindAllStringSubmatch(row, -1) {
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(".", link[1]), nil, parser.ParseComments)
			must.Succeed(t, err)
			ofFiles += set.File(file.Pos()).LineCount()
			for _, declared := range file.Decls {
				function, ok := declared.(*ast.FuncDecl)
				if !ok || !slices.Contains(named, function.Name.Name) {
					continue
				}
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == function.Name.Name })
				functions++
				begin := function.Pos()
				if function.Doc != nil {
					begin = function.Doc.Pos()
				}
				ofFunctions += set.Position(function.End()).Line - set.Position(begin).Line + 1
			}
		}
		if len(missing) > 0 {
			t.Errorf("no function %q in the files of the row %s", missing, row)
		}
	}
	for i, got := range []int{functions, files, ofFunctions, ofFiles} {
		want, err := strconv.ParseFloat(strings.ReplaceAll(stated[i+1], ",", ""), 64)
		if err != nil || math.Abs(float64(got)-want) > want/10 {
			t.Errorf("architecture.md says %s, want %d", stated[i+1], got)
		}
	}
	t.Logf("%d functions in %d files, with %d of %d lines", functions, files, ofFunctions, ofFiles)
}
