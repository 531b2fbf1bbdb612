// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// TestNoTestIsLeftOut holds the lists of the Makefile against the tests. "make unit" skips the sequential tests by their names when it
// runs all packages. So it must run each of them later, in every package that has a test of that name.
func TestNoTestIsLeftOut(t *testing.T) {
	makefile := readFile(t, "../Makefile")
	list := func(variable string) []string {
		found := regexp.MustCompile(`(?m)^` + variable + ` := ((?:.*\\\n)*.*)$`).FindStringSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile has no %s", variable)
		}
		return strings.Fields(strings.ReplaceAll(found[1], "\\\n", " "))
	}
	packages, names, in := list("SEQUENTIAL_PACKAGES"), list("SEQUENTIAL_TESTS"), list("SEQUENTIAL_TESTS_IN")
	tests := testsOfPackages(t)
	for _, dir := range packages {
		if len(tests[dir]) == 0 {
			t.Errorf("SEQUENTIAL_PACKAGES has %s, and there are no tests", dir)
		}
	}
	run := map[string]bool{}
	for dir, all := range tests {
		if slices.Contains(packages, dir) {
			continue
		}
		isSequential := false
		for _, name := range names {
			if slices.Contains(all, name) {
				isSequential, run[name] = true, true
			}
		}
		if isSequential != slices.Contains(in, dir) {
			t.Errorf("SEQUENTIAL_TESTS_IN and %s differ: whether it has one of SEQUENTIAL_TESTS is %t", dir, isSequential)
		}
	}
	for _, name := range names {
		if !run[name] {
			t.Errorf("SEQUENTIAL_TESTS has %s, and there is no such test", name)
		}
	}
}

// TestEveryFileIsVetted: "make lint" runs the analyzers of go vet, except on generated code. "make vet" has to name the packages with that.
func TestEveryFileIsVetted(t *testing.T) {
	if config := readFile(t, "../.golangci.yml"); !strings.Contains(config, "\n    - govet\n") ||
		!strings.Contains(config, "\n    govet:\n      enable-all: true\n") {
		t.Error(".golangci.yml does not enable all analyzers of govet")
	}
	if !strings.Contains(readFile(t, "../Makefile"), "\n\t@go vet ./pkg/apis/... ./pkg/generated/...\n") {
		t.Error("make vet does not vet the packages with generated code")
	}
	generated, count := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`), 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || !generated.MatchString(readFile(t, path)) {
			return err
		}
		count++
		if dir := filepath.ToSlash(path); !strings.HasPrefix(dir, "../pkg/apis/") && !strings.HasPrefix(dir, "../pkg/generated/") {
			t.Errorf("neither make lint nor make vet analyses %s, which is generated", path)
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Errorf("found %d generated files, error %v", count, err)
	}
}

// testsOfPackages returns the names of the tests of the product's module by their directories.
func testsOfPackages(t *testing.T) map[string][]string {
	t.Helper()
	const root = ".."
	tests, declared := map[string][]string{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	must.Succeed(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (err == nil || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
				return filepath.SkipDir // another module, or no packages
			}
			return nil
		}
		if strings.HasSuffix(path, "_test.go") {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			for _, found := range declared.FindAllStringSubmatch(readFile(t, path), -1) {
				tests[filepath.ToSlash(dir)] = append(tests[filepath.ToSlash(dir)], found[1])
			}
		}
		return nil
	}))
	return tests
}
