// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tables writes tables in the documents below docs: of commands and flags, from the command line of package cli, and of fields,
// from the CustomResourceDefinitions. Each table is between two comments, of which the first says what it holds. The tests of this package
// fail when a table is stale.
//
//	go run ./hack/tables
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// directory is the directory of the documents, relative to the root of the repository.
const directory = "docs"

func main() {
	stale, err := documents(directory)
	for file, text := range stale {
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

// tables are the tables of a document, by the words of their first comments.
type tables map[string]func() (string, error)

// documents returns each document with a stale table, by file. In the returned texts, all tables are up to date.
func documents(directory string) (map[string]string, error) {
	all := map[string]tables{filepath.Join(directory, "flags.md"): flagTables()}
	if err := addFieldTables(all, directory); err != nil {
		return nil, err
	}
	stale := map[string]string{}
	for file, tables := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		filled, err := fill(string(text), tables)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if filled != string(text) {
			stale[file] = filled
		}
	}
	return stale, nil
}

// place is a table with its two comments. The second group is what the table holds.
var place = regexp.MustCompile(`(?s)(<!-- ((?:commands|flags|fields) of [a-z ]+) -->\n).*?(<!-- end of (?:commands|flags|fields) -->)`)

// fill returns a document with its tables. It returns an error unless the document has one place for each table.
func fill(text string, tables tables) (string, error) {
	var places []string
	for _, found := range place.FindAllStringSubmatch(text, -1) {
		places = append(places, found[2])
	}
	slices.Sort(places)
	if want := slices.Sorted(maps.Keys(tables)); !slices.Equal(places, want) {
		return "", fmt.Errorf("the document has places for the %q, want %q", places, want)
	}
	var failed error
	filled := place.ReplaceAllStringFunc(text, func(old string) string {
		parts := place.FindStringSubmatch(old)
		rows, err := tables[parts[2]]()
		if err != nil {
			failed = err
		}
		return parts[1] + rows + parts[3]
	})
	return filled, failed
}
