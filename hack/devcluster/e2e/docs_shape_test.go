/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// variable is what a document cannot know: it stands for everything of its kind.
var variable = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uid>"},
	{regexp.MustCompile(`\bi-[0-9a-z]{18,}\b`), "<instance>"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`), "<ip>"},
	{regexp.MustCompile(`\b1\d{9}\b`), "<unix second>"},
	{regexp.MustCompile(`\b(\d+[dhms])+\b`), "<age>"},
	{regexp.MustCompile(`[ \t]+`), " "}, // Columns are as wide as their widest field.
}

// shape is a line without what changes from one time to the next.
func shape(line string) string {
	for _, v := range variable {
		line = v.is.ReplaceAllString(line, v.as)
	}
	return strings.TrimSpace(line)
}

// pattern matches what looks like the lines of a document. There, … stands for anything in a
// line, and alone in one for any lines. What is watched may also have other lines in between.
func pattern(shown []string, watched bool) *regexp.Regexp {
	const any = `(?:.*\n)*?`
	var p strings.Builder
	for _, line := range shown {
		if watched {
			p.WriteString(any)
		}
		if line = shape(line); line == "…" {
			p.WriteString(any)
			continue
		}
		p.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	if watched {
		return regexp.MustCompile(`\A` + p.String())
	}
	return regexp.MustCompile(`\A` + p.String() + `\z`)
}

// alike returns an error unless what was printed looks like what is shown.
func alike(shown []string, printed string, watched bool) error {
	var shapes strings.Builder
	for line := range strings.Lines(strings.TrimRight(printed, "\n") + "\n") {
		shapes.WriteString(shape(line) + "\n")
	}
	got := strings.TrimPrefix(shapes.String(), "\n")
	if strings.TrimSpace(printed) == "" {
		got = ""
	}
	if !pattern(shown, watched).MatchString(got) {
		return fmt.Errorf("the document shows\n%s\nand it prints\n%s", strings.Join(shown, "\n"), printed)
	}
	return nil
}

func TestShapesOfWhatIsPrinted(t *testing.T) {
	for name, test := range map[string]struct {
		shown, printed string
		watched, alike bool
	}{
		"the same":                       {"a 1", "a 1\n", false, true},
		"another word":                   {"Ready True", "Ready False\n", false, false},
		"another number":                 {"Pods 6", "Pods 3\n", false, false},
		"ages and widths":                {"NAME  AGE\nx     5s", "NAME   AGE\nx      1m30s\n", false, true},
		"addresses":                      {"http://10.0.0.1:80", "http://192.168.1.20:80\n", false, true},
		"another port":                   {"http://10.0.0.1:80", "http://10.0.0.1:81\n", false, false},
		"slots":                          {"x-1795171495 Complete", "x-1895171400 Complete\n", false, true},
		"a line more":                    {"a", "a\nb\n", false, false},
		"a line less":                    {"a\nb", "a\n", false, false},
		"any lines":                      {"a\n…\nd", "a\nb\nc\nd\n", false, true},
		"anything in a line":             {"failed: …", "failed: for a reason\n", false, true},
		"a table that is watched":        {"a\nc", "a\nb\nc\nd\n", true, true},
		"a table that is not there yet":  {"a\nc", "a\nb\n", true, false},
		"nothing":                        {"", "\n", false, true},
		"something where nothing is":     {"", "error\n", false, false},
		"a name that has an s in it":     {"k8s", "k9s\n", false, false},
		"the time to the second and not": {"at 2026-01-12T10:00:00Z", "at 2026-11-01T00:00:00.123456Z\n", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var shown []string
			if test.shown != "" {
				shown = strings.Split(test.shown, "\n")
			}
			if err := alike(shown, test.printed, test.watched); (err == nil) != test.alike {
				t.Errorf("alike: %v", err)
			}
		})
	}
}
