// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
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

// TestEntriesOfBlocks gives entries to two blocks, which begin with "a -x" and "b".
func TestEntriesOfBlocks(t *testing.T) {
	const noEntry, noBlock = " has no entry in docs/commands.yaml: ", "docs/commands.yaml: d.md has no such block here: "
	for name, test := range map[string]struct{ entries, want string }{
		"one for each":          {"{block: a -x}, {block: b, background: true}", ""},
		"an incomplete line":    {"{block: a}, {block: b}", "d.md:2" + noEntry + "a -x # this\n" + noBlock + "a"},
		"a block without entry": {"{block: b}", "d.md:2" + noEntry + "a -x # this"},
		"an entry for no block": {"{block: a -x}, {skip: A reason.}, {block: b}", noBlock},
		"another order":         {"{block: b}, {block: a -x}", noBlock + "b\nd.md:5" + noEntry + "b"},
	} {
		t.Run(name, func(t *testing.T) {
			blocks, err := parse("d.md", "```sh\na -x # this\n```\n```sh\nb\n```\n")
			must.Succeed(t, err)
			var entries []Entry
			must.Succeed(t, yaml.UnmarshalStrict([]byte("["+test.entries+"]"), &entries))
			got := ""
			if err = match("d.md", blocks, []section{{Place: "a cluster", Blocks: entries}}); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("error\n%s\nwant\n%s", got, test.want)
			}
			first, second := blocks[0], blocks[1]
			if test.want == "" && (first.Block != entries[0].Block || second.Background != entries[1].Background || !second.Place.Cluster) {
				t.Errorf("the blocks have the entries %+v and %+v", first.Entry, second.Entry)
			}
		})
	}
}
