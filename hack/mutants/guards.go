// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// entries is the document with a section for each guard.
//
//go:embed mutants.md
var entries string

// guard is a row of the tables of docs/architecture.md, and the mutants that take it out.
type guard struct {
	Table   string   // the first column of the table's header, such as MyCronJob
	Promise string   // the first column of the row
	Files   []string // that the row names, relative to the root of the repository
	Tests   []string // that the row names
	Mutants []Mutant
	// Without says why the guard has no mutant; "" if it has one.
	Without string
}

// String returns the table and the promise.
func (g guard) String() string { return g.Table + ": " + g.Promise }

// readGuards returns the guards of docs/architecture.md below root. It returns an error if the document and mutants.md do
// not have the same guards, if a guard has no mutant and no reason for that, or if a mutant cannot be used.
func readGuards(root string) ([]guard, error) {
	document, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		return nil, err
	}
	return guardsOf(root, string(document), entries)
}

func guardsOf(root, document, entries string) ([]guard, error) {
	guards, err := parseGuards(document)
	if err != nil {
		return nil, fmt.Errorf("docs/architecture.md: %w", err)
	}
	if err := addMutants(guards, entries); err != nil {
		return nil, err
	}
	var errs []error
	for _, g := range guards {
		for _, m := range g.Mutants {
			if err := m.check(root, g); err != nil {
				errs = append(errs, fmt.Errorf("mutants.md, %s: %w", g, err))
			}
		}
	}
	return guards, errors.Join(errs...)
}

var (
	header = regexp.MustCompile(`(?m)^\| ([^|]+) \| enforced in \| shown by \|$`)
	link   = regexp.MustCompile(`\]\(\.\./([^)]+)\)`)
	test   = regexp.MustCompile("`(Test\\w+)`")
)

// parseGuards returns the rows of the tables of guards.
func parseGuards(document string) ([]guard, error) {
	var guards []guard
	table := ""
	for line := range strings.Lines(document) {
		if parts := header.FindStringSubmatch(strings.TrimSpace(line)); parts != nil {
			table = parts[1]
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			table = ""
		case table == "" || strings.HasPrefix(line, "|-"):
		case len(cells) != 3:
			return nil, fmt.Errorf("a row of the table %s has %d columns, want 3: %s", table, len(cells), line)
		default:
			g := guard{Table: table, Promise: strings.TrimPrefix(cells[0], "| ")}
			for _, parts := range link.FindAllStringSubmatch(cells[1], -1) {
				g.Files = append(g.Files, parts[1])
			}
			for _, parts := range test.FindAllStringSubmatch(cells[2], -1) {
				g.Tests = append(g.Tests, parts[1])
			}
			guards = append(guards, g)
		}
	}
	return guards, nil
}

// addMutants adds the mutants of a document to guards. The document has a heading of the second level for each table, and
// one of the third level for each guard of the table.
func addMutants(guards []guard, document string) error {
	sections := map[string]string{} // by table and promise
	for _, table := range strings.Split(document, "\n## ")[1:] {
		parts := strings.Split(table, "\n### ")
		for _, section := range parts[1:] {
			promise, body, _ := strings.Cut(section, "\n")
			sections[strings.TrimSpace(parts[0])+": "+promise] = body
		}
	}
	var errs []error
	for i := range guards {
		g := &guards[i]
		body, ok := sections[g.String()]
		delete(sections, g.String())
		if !ok {
			errs = append(errs, fmt.Errorf("mutants.md has no section for the guard of docs/architecture.md: %s", g))
			continue
		}
		if err := g.read(body); err != nil {
			errs = append(errs, fmt.Errorf("mutants.md, %s: %w", g, err))
		}
	}
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		errs = append(errs, fmt.Errorf("docs/architecture.md has no such guard: %s", section))
	}
	return errors.Join(errs...)
}

var without = regexp.MustCompile(`(?m)^No mutant: (.+)$`)

// read sets the mutants of the guard, or the reason why it has none.
func (g *guard) read(section string) (err error) {
	if g.Mutants, err = Parse(section); err != nil {
		return err
	}
	if reason := without.FindStringSubmatch(section); reason != nil {
		g.Without = reason[1]
	}
	if (len(g.Mutants) == 0) == (g.Without == "") {
		return errors.New("a section has either mutants or a line that begins with \"No mutant: \"")
	}
	return nil
}

// check returns an error unless the mutant can be applied, changes a file that the row of g names, and runs tests that this row names. If
// the row names a package by its doc.go, the mutant may change any file.
func (m Mutant) check(root string, g guard) error {
	source, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return err
	}
	if _, err := m.apply(string(source)); err != nil {
		return err
	}
	if !slices.ContainsFunc(g.Files, func(file string) bool { return file == m.File || path.Base(file) == "doc.go" }) {
		return fmt.Errorf("the row does not name %s", m.File)
	}
	files, err := filepath.Glob(filepath.Join(root, m.pkg(), "*_test.go"))
	if err != nil {
		return err
	}
	var tests strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		tests.Write(source)
	}
	for name := range strings.SplitSeq(m.tests(), "|") {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "^"), "$")
		if !slices.Contains(g.Tests, name) {
			return fmt.Errorf("the row does not name the test %q", name)
		}
		if !strings.Contains(tests.String(), "\nfunc "+name+"(t *testing.T) {") {
			return fmt.Errorf("%s has no test %s", m.pkg(), name)
		}
	}
	return nil
}
