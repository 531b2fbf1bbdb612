// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/pkg/cli"
)

var (
	// line is a flag as pflag prints it: its names and the type of its value, and its usage.
	line = regexp.MustCompile(`^ +((?:-\w, )?--[\w-]+(?: \S+)?) {2,}(\S.*)$`)
	// Usages end with a default: without a colon if pflag added it, with a colon if we wrote it.
	added   = regexp.MustCompile(`^(.*) \(default "?(.*?)"?\)$`)
	written = regexp.MustCompile(`^(.*) \(default: (.*)\)$`)
)

// flagTables returns the table of the commands, and one of the flags of each command that has some.
func flagTables() tables {
	root := cli.New()
	all := tables{"commands of " + root.Name(): func() (string, error) { return commandTable(root.Commands()), nil }}
	for _, c := range append(root.Commands(), root) {
		if c.HasAvailableFlags() {
			all["flags of "+c.CommandPath()] = func() (string, error) { return flagTable(c) }
		}
	}
	return all
}

// commandTable returns the table of commands. Each has a section in the document.
func commandTable(commands []*cobra.Command) string {
	var rows strings.Builder
	rows.WriteString("| Command | Task |\n|---|---|\n")
	for _, c := range commands {
		rows.WriteString(row(fmt.Sprintf("[`%s`](#%s)", c.CommandPath(), c.Name()), c.Short))
	}
	return rows.String()
}

// flagTable returns the table of the flags of a command.
func flagTable(c *cobra.Command) (string, error) {
	var rows strings.Builder
	rows.WriteString("| Flag | Default | Meaning |\n|---|---|---|\n")
	for text := range strings.Lines(c.Flags().FlagUsages()) {
		parts := line.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if parts == nil {
			return "", fmt.Errorf("the usage of %s has a line that is no flag: %s", c.CommandPath(), text)
		}
		rows.WriteString(flagRow(parts[1], parts[2]))
	}
	return rows.String(), nil
}

// flagRow returns the row for a flag.
func flagRow(names, usage string) string {
	value := "-"
	if parts := added.FindStringSubmatch(usage); parts != nil {
		usage, value = parts[1], "`"+parts[2]+"`"
	} else if parts := written.FindStringSubmatch(usage); parts != nil {
		usage, value = parts[1], parts[2]
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", names, value, strings.ReplaceAll(usage, "|", `\|`))
}
