// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/docs/commands"
	"github.com/glassback/glassback/pkg/must"
)

// TestEveryCommandHasAnEntry compares the documents with commands.yaml, and checks that each runBy of an entry runs the block.
func TestEveryCommandHasAnEntry(t *testing.T) {
	all, err := commands.Read("..")
	must.Succeed(t, err)
	run := map[string][]string{} // the commands of each document that run
	for _, d := range all {
		for _, b := range d.Blocks {
			for _, c := range b.Commands {
				if !b.Skipped() {
					run[d.Name] = append(run[d.Name], c.Plain())
				}
			}
		}
	}
	tests := testNames(t)
	runs := func(by, command string) bool {
		target, isTarget := strings.CutPrefix(by, "make ")
		switch {
		case strings.HasPrefix(by, "Test"):
			return tests[by]
		case strings.HasSuffix(by, ".md"):
			return slices.Contains(run[by], command)
		case isTarget: // The command is make with prerequisites of the target.
			rule := regexp.MustCompile(`(?m)^` + target + `: ([^#\n]*)`).FindString(readFile(t, "../Makefile"))
			words := strings.Fields(command)
			return words[0] == "make" && !slices.ContainsFunc(words[1:], func(word string) bool {
				return !slices.Contains(strings.Fields(rule), word)
			})
		}
		return strings.Contains(readFile(t, "../"+by), command)
	}
	for _, d := range all {
		for _, b := range d.Blocks {
			for _, by := range b.RunBy {
				for _, c := range b.Commands {
					if !runs(by, c.Plain()) {
						t.Errorf("%s has runBy: %s, which does not run: %s", b.Name, by, c.Text)
					}
				}
			}
		}
	}
}
