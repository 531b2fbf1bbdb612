// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// module is a Go module that programs contain, or Go's standard library.
type module struct {
	path, version string
	license       string   // an SPDX expression
	files         []string // the texts of its licences, copyrights and notices
}

// standardLibrary is the path of the module that stands for the standard library, as in other SPDX documents.
const standardLibrary = "stdlib"

// allowed are the licences that a dependency can have.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unicode-DFS-2016", "Zlib"}

// legal matches the names of files that a distribution of a module has to contain.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([.-].*)?$`)

// listing prints each package of the program that is of another module: the path, the version and the directory of its module, and its own
// directory.
const listing = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"

// licenses adds to found the modules that the program for a platform contains.
func (s source) licenses(ctx context.Context, p *program, found map[string]*module) error {
	out, err := s.run(ctx, p.platform, "list", "-deps", "-f", listing, ".")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		path, rest, listed := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		fields := strings.Split(rest, "\t")
		if !listed || len(fields) != 3 {
			continue
		}
		if found[path] == nil {
			found[path] = &module{path: path, version: fields[0]}
		}
		if err := found[path].collect(fields[2], fields[1]); err != nil {
			return err
		}
	}
	if found[standardLibrary] == nil {
		out, err := s.run(ctx, p.platform, "env", "GOROOT")
		if err != nil {
			return err
		}
		goroot := strings.TrimSpace(string(out))
		m := &module{path: standardLibrary, version: strings.TrimPrefix(runtime.Version(), "go")}
		found[m.path] = m
		return m.collect(goroot, goroot)
	}
	return nil
}

// collect adds the legal files of a directory and of those above it, up to the root of the module. A package of code from elsewhere has
// files of its own.
func (m *module) collect(dir, root string) error {
	for ; ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("look for the licence of %s: %w", m.path, err)
		}
		for _, entry := range entries {
			if entry.IsDir() || !legal.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				return fmt.Errorf("read the licence of %s: %w", m.path, err)
			}
			if !slices.Contains(m.files, string(text)) {
				m.files = append(m.files, string(text))
			}
		}
		if dir == root || !strings.HasPrefix(dir, root) {
			return nil
		}
	}
}

// knownLicenses returns the classifier with the texts of known licences. Reading them takes seconds.
var knownLicenses = sync.OnceValues(assets.DefaultClassifier)

// classify sets the licence of each module, and returns all of them by path. It returns an error for a licence that is not allowed.
func classify(found map[string]*module) ([]*module, error) {
	texts, err := knownLicenses()
	if err != nil {
		return nil, fmt.Errorf("read the texts of licences: %w", err)
	}
	all := slices.SortedFunc(maps.Values(found), func(a, b *module) int { return cmp.Compare(a.path, b.path) })
	var failed []error
	for _, m := range all {
		names := licensesIn(texts, m.files)
		for _, name := range names {
			if !slices.Contains(allowed, name) {
				failed = append(failed, fmt.Errorf("the licence %s of %s is not allowed: use another module, or add it to licenses.go", name, m.path))
			}
		}
		if len(names) == 0 {
			failed = append(failed, fmt.Errorf("%s %s has no licence that is known", m.path, m.version))
		}
		m.license = strings.Join(names, " AND ")
	}
	return all, errors.Join(failed...)
}

// licensesIn returns the SPDX names of the licences in texts.
func licensesIn(texts *classifier.Classifier, files []string) []string {
	names := map[string]bool{}
	for _, file := range files {
		for _, match := range texts.Match([]byte(file)).Matches {
			if match.MatchType == "License" || match.MatchType == "Header" { // Some modules have only the header of a licence.
				names[match.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// thirdParty returns one text with the legal files of all modules. Modules with the same text share it.
func thirdParty(modules []*module) []byte {
	var out bytes.Buffer
	fmt.Fprintln(&out, "Glassback contains these Go modules. The texts of their licences and their notices follow.")
	fmt.Fprintln(&out)
	users := map[string][]string{}
	var order []string
	for _, m := range modules {
		fmt.Fprintf(&out, "%s %s: %s\n", m.path, m.version, m.license)
		for _, file := range m.files {
			if users[file] == nil {
				order = append(order, file)
			}
			users[file] = append(users[file], m.path)
		}
	}
	for _, file := range order {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[file], "\n"), strings.TrimSpace(file))
	}
	return out.Bytes()
}
