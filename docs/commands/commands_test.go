// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
)

func TestBlocksOfADocument(t *testing.T) {
	const ticks = "```"
	for name, test := range map[string]struct{ text, want string }{
		"another language":               {ticks + "go\nreturn\n" + ticks, ""},
		"one command per line":           {ticks + "sh\na\n\n# of b\nb   # this\n" + ticks, "a; b   # this"},
		"a command with several lines":   {ticks + "sh\na \\\n  b\nc\n" + ticks, "a \\\n  b; c"},
		"a loop":                         {ticks + "sh\nfor x in y; do\n  z\ndone\nc\n" + ticks, "for x in y; do\n  z\ndone; c"},
		"commands with their output":     {ticks + "console\n$ a\nb\n\n$ c\n" + ticks, "a [b]; c []"},
		"the document ends in the block": {ticks + "sh\na", "a"},
		"a command that does not end":    {ticks + "sh\nfor x in y; do\n" + ticks, "d.md:2: the command does not end: for x in y; do"},
		"another word for sh":            {ticks + "bash\na\n" + ticks, "d.md:2: write ```sh instead of ```bash"},
		"another word for console": {
			"\n" + ticks + "\n$ a\n" + ticks, "d.md:3: write ```console instead of ``` for commands with their output",
		},
		"nothing but comments":    {ticks + "sh\n# a\n" + ticks, "d.md:2: the block has no commands"},
		"output before a command": {ticks + "console\na\n" + ticks, "d.md:2: the block does not begin with a command: a"},
	} {
		t.Run(name, func(t *testing.T) {
			blocks, err := parse("d.md", test.text)
			var got []string
			for _, b := range blocks {
				for _, c := range b.Commands {
					if b.Console {
						c.Text += fmt.Sprintf(" %v", c.Shown)
					}
					got = append(got, c.Text)
				}
			}
			if err != nil {
				got = append(got, err.Error())
			}
			if strings.Join(got, "; ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestEntriesOfBlocks gives entries to two blocks, which begin with "a -x" and "b".
func TestEntriesOfBlocks(t *testing.T) {
	const noEntry, noBlock = " has no entry in docs/commands.yaml: ", "docs/commands.yaml: d.md has no such block here: "
	for name, test := range map[string]struct{ entries, want string }{
		"one for each":          {"{block: a -x}, {block: b, background: true}", ""},
		"a shortened line":      {"{block: a …}, {block: b}", ""},
		"an incomplete line":    {"{block: a}, {block: b}", "d.md:2" + noEntry + "a -x # this\n" + noBlock + "a"},
		"a block without entry": {"{block: b}", "d.md:2" + noEntry + "a -x # this"},
		"an entry too many":     {"{block: a -x}, {block: b}, {block: b}", noBlock + "b"},
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

func TestInvalidEntriesFail(t *testing.T) {
	for want, entries := range map[string]string{
		`unknown field "when"`:                                  "README.md: [{place: a cluster, blocks: [{block: a, when: never}]}]",
		`docs/commands.yaml: README.md: unknown place "a moon"`: "README.md: [{place: a moon, blocks: [{block: a}]}]",
		"docs/commands.yaml: there is no document docs/d.md":    "README.md: [{place: a cluster, blocks: [{block: a}]}]\ndocs/d.md: []",
	} {
		root := t.TempDir()
		must.Succeed(t, os.Mkdir(filepath.Join(root, "docs"), 0o755))
		for name, text := range map[string]string{"README.md": "```sh\na\n```\n", file: entries} {
			must.Succeed(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
		}
		if _, err := Read(root); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
