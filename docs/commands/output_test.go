// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"strings"
	"testing"
)

func TestOutputLikeInTheDocument(t *testing.T) {
	for name, test := range map[string]struct {
		shown, printed string
		watch, alike   bool
	}{
		"the same":                        {"a 1", "a 1\n", false, true},
		"another number":                  {"Pods 6", "Pods 3\n", false, false},
		"ages and widths":                 {"NAME  AGE\nx     5s", "NAME   AGE\nx      1m30s\n", false, true},
		"another port":                    {"http://10.0.0.1:80", "http://10.0.0.1:81\n", false, false},
		"slots":                           {"x-1795171495 Complete", "x-1895171400 Complete\n", false, true},
		"one more line":                   {"a", "a\nb\n", false, false},
		"any lines":                       {"a\n…\nd", "a\nb\nc\nd\n", false, true},
		"any text in a line":              {"failed: …", "failed: for a reason\n", false, true},
		"a watch with other lines":        {"a\nc", "a\nb\nc\nd\n", true, true},
		"times with and without fraction": {"at 2026-01-12T10:00:00Z", "at 2026-11-01T00:00:00.123456Z\n", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var c Command
			if test.shown != "" {
				c.Shown = strings.Split(test.shown, "\n")
			}
			if err := c.Compare(test.printed, test.watch); (err == nil) != test.alike {
				t.Errorf("Compare: %v", err)
			}
		})
	}
}
