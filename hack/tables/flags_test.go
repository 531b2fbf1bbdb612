// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestEveryProgramHasOnePlace(t *testing.T) {
	const end = "stale\n<!-- end of flags -->\n"
	all := "<!-- flags of glassback -->\n" + end + "<!-- flags of glassback backup -->\n" + end +
		"<!-- flags of glassback check -->\n" + end + "<!-- flags of glassback inspect -->\n" + end +
		"<!-- flags of glassback plan -->\n" + end + "<!-- flags of glassback replay -->\n" + end +
		"<!-- flags of glassback restore -->\n" + end + "<!-- flags of glassback status -->\n" + end +
		"<!-- flags of glassback trace -->\n" + end + "<!-- flags of glassback why -->\n" + end
	filled, err := fill(all, flagTables())
	if err != nil || strings.Contains(filled, "stale") || strings.Count(filled, "| Flag |") != len(programs) {
		t.Errorf("error %v, document:\n%s", err, filled)
	}
	for name, text := range map[string]string{
		"a program without a place":   strings.Replace(all, "flags of glassback why", "about why", 1),
		"a place without a program":   all + "<!-- flags of glassback explain -->\n" + end,
		"two places for one program":  all + "<!-- flags of glassback -->\n" + end,
		"a document without a place":  "# Flags\n",
		"a place that does not end":   strings.TrimSuffix(all, "<!-- end of flags -->\n"),
		"a place with a second start": strings.Replace(all, end, "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if filled, err := fill(text, flagTables()); err == nil {
				t.Errorf("no error, document:\n%s", filled)
			}
		})
	}
}

func TestRow(t *testing.T) {
	for name, test := range map[string]struct{ names, usage, want string }{
		"no default":            {"--version", "print it", "| `--version` | - | print it |\n"},
		"a default of pflag's":  {"--workers int", "how many (default 16)", "| `--workers int` | `16` | how many |\n"},
		"a default with quotes": {"--lease string", `name (default "glassback")`, "| `--lease string` | `glassback` | name |\n"},
		"a default in words":    {"-n, --namespace strings", "where (default: all)", "| `-n, --namespace strings` | all | where |\n"},
		"a bar":                 {"--output string", "text|json", "| `--output string` | - | text\\|json |\n"},
		"other parentheses": {
			"--format string", `"json" (beta), "text". (default "text")`, "| `--format string` | `text` | \"json\" (beta), \"text\". |\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := flagRow(test.names, test.usage); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
