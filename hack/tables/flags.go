// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/glassback/glassback/pkg/app"
	"github.com/glassback/glassback/pkg/backup"
	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/plan"
	"github.com/glassback/glassback/pkg/playback"
	"github.com/glassback/glassback/pkg/replay"
	"github.com/glassback/glassback/pkg/status"
	"github.com/glassback/glassback/pkg/why"
)

// programs are the programs of main.go, by their command lines.
var programs = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{
	"glassback": app.Run, "glassback check": check.Run, "glassback why": why.Run, "glassback trace": why.Trace,
	"glassback status": status.Run, "glassback plan": plan.Run, "glassback replay": replay.Run, "glassback inspect": playback.Run,
	"glassback backup": backup.Run, "glassback restore": backup.RunRestore,
}

var (
	// line is a flag as pflag prints it: its names and the type of its value, and its usage.
	line = regexp.MustCompile(`^ +((?:-\w, )?--[\w-]+(?: \S+)?) {2,}(\S.*)$`)
	// Usages end with a default: without a colon if pflag added it, with a colon if we wrote it.
	added   = regexp.MustCompile(`^(.*) \(default "?(.*?)"?\)$`)
	written = regexp.MustCompile(`^(.*) \(default: (.*)\)$`)
)

func flagTables() tables {
	all := tables{}
	for program := range programs {
		all["flags of "+program] = func() (string, error) { return flags(program) }
	}
	return all
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
