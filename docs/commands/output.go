// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"fmt"
	"regexp"
	"strings"
)

// variables match text that differs between two runs of a command.
var variables = []struct {
	pattern     *regexp.Regexp
	placeholder string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uid>"},
	{regexp.MustCompile(`\bi-[0-9a-z]{18,}\b`), "<instance>"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`), "<ip>"},
	{regexp.MustCompile(`\b1\d{9}\b`), "<unix second>"},
	{regexp.MustCompile(`\b(\d+[dhms])+\b`), "<age>"},
	{regexp.MustCompile(`[ \t]+`), " "}, // The widest field sets the width of a column.
}

// normal returns a line with placeholders for variables.
func normal(line string) string {
	for _, v := range variables {
		line = v.pattern.ReplaceAllString(line, v.placeholder)
	}
	return strings.TrimSpace(line)
}

// Compare returns an error unless the output matches the lines of the document. There, … matches any text of a line, and a line with …
// alone matches any lines. A watch can also print other lines in between and afterwards.
func (c Command) Compare(output string, watch bool) error {
	const anyLines = `(?:.*\n)*?`
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, line := range c.Shown {
		if watch {
			pattern.WriteString(anyLines)
		}
		if line = normal(line); line == "…" {
			pattern.WriteString(anyLines)
		} else {
			pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
		}
	}
	if !watch {
		pattern.WriteString(`\z`)
	}
	var lines strings.Builder
	for line := range strings.Lines(strings.TrimSpace(output)) {
		lines.WriteString(normal(line) + "\n")
	}
	if !regexp.MustCompile(pattern.String()).MatchString(lines.String()) {
		return fmt.Errorf("the document shows\n%s\nthe command printed\n%s", strings.Join(c.Shown, "\n"), output)
	}
	return nil
}
