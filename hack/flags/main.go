/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command flags writes the tables of docs/flags.md from what --help prints. Each table is between two comments, of which the first
// names the command. The test of this package fails when a table is stale.
//
//	go run ./hack/flags
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/glassback/glassback/pkg/app"
	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/why"
)

// document is the file, seen from the root of the repository.
const document = "docs/flags.md"

// programs are those of main.go, by their command lines.
var programs = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{
	"glassback": app.Run, "glassback check": check.Run, "glassback why": why.Run, "glassback trace": why.Trace,
}

var (
	// table is a table with its two comments. The command is in the second group.
	table = regexp.MustCompile(`(?s)(<!-- flags of ([a-z ]+) -->\n).*?(<!-- end of flags -->)`)
	// line is a flag as pflag prints it: its names and the type of its value, and its usage.
	line = regexp.MustCompile(`^ +((?:-\w, )?--[\w-]+(?: \S+)?) {2,}(\S.*)$`)
	// Usages end with a default. pflag adds it without a colon; with a colon it is a text of ours.
	added   = regexp.MustCompile(`^(.*) \(default "?(.*?)"?\)$`)
	written = regexp.MustCompile(`^(.*) \(default: (.*)\)$`)
)

func main() {
	if err := write(document); err != nil {
		fmt.Fprintln(os.Stderr, "flags:", err)
		os.Exit(1)
	}
}

// write brings the tables of a document up to date.
func write(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	filled, err := fill(string(text))
	if err != nil || filled == string(text) {
		return err
	}
	if err := os.WriteFile(file, []byte(filled), 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// fill returns a document with the tables of all programs. It returns an error unless the document has one place for each program.
func fill(text string) (string, error) {
	var places []string
	for _, found := range table.FindAllStringSubmatch(text, -1) {
		places = append(places, found[2])
	}
	slices.Sort(places)
	if want := slices.Sorted(maps.Keys(programs)); !slices.Equal(places, want) {
		return "", fmt.Errorf("the document has places for the flags of %q, want %q", places, want)
	}
	var failed error
	filled := table.ReplaceAllStringFunc(text, func(old string) string {
		parts := table.FindStringSubmatch(old)
		rows, err := flags(parts[2])
		if err != nil && failed == nil {
			failed = err
		}
		return parts[1] + rows + parts[3]
	})
	return filled, failed
}

// flags returns the table for a program.
func flags(program string) (string, error) {
	var help, problems strings.Builder
	if code := programs[program](context.Background(), []string{"--help"}, &help, &problems); code != command.OK {
		return "", fmt.Errorf("%s --help: exit code %d: %s", program, code, problems.String())
	}
	_, list, found := strings.Cut(help.String(), "\nFlags:\n")
	if !found {
		return "", fmt.Errorf("%s --help prints no flags", program)
	}
	var rows strings.Builder
	rows.WriteString("| Flag | Default | Meaning |\n|---|---|---|\n")
	for text := range strings.Lines(list) {
		parts := line.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if parts == nil {
			return "", fmt.Errorf("%s --help prints a line that is no flag: %s", program, text)
		}
		rows.WriteString(row(parts[1], parts[2]))
	}
	return rows.String(), nil
}

// row returns the row for a flag.
func row(names, usage string) string {
	value := "-"
	if parts := added.FindStringSubmatch(usage); parts != nil {
		usage, value = parts[1], "`"+parts[2]+"`"
	} else if parts := written.FindStringSubmatch(usage); parts != nil {
		usage, value = parts[1], parts[2]
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", names, value, strings.ReplaceAll(usage, "|", `\|`))
}
