// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commands reads the blocks of commands in all documents: docs/*.md, the chart's README.md, and those in the root of the
// repository. docs/commands.yaml describes how a test runs each block: the documents hold no instructions for the test.
package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// file holds the entries of all blocks. Its first lines describe its format.
const file = "docs/commands.yaml"

// Document is one file of these, or its translation.
type Document struct {
	Name   string // the path from the root of the repository
	Blocks []*Block
}

// Translation reports whether the document is a translation. Its blocks are those of its original: docs/translation_test.go compares them.
func (d Document) Translation() bool { return strings.HasSuffix(d.Name, ".zh.md") }

// Block is a block of commands: ```sh holds only commands, ```console also their output.
type Block struct {
	Entry
	Place    Place
	Name     string // the document and the line of the first command
	Console  bool
	Commands []Command
}

// Command is one command. In a ```console block it has the output that the document shows.
type Command struct {
	Text  string   // can have several lines
	Shown []string // lines
}

// Entry describes how a block runs. A block with Skip or RunBy does not run: so a block cannot be skipped without a reason.
type Entry struct {
	Block      string            `json:"block"` // the first line of the first command, without a comment; "…" at the end shortens it
	Background bool              `json:"background,omitempty"`
	AfterCtrlC bool              `json:"afterCtrlC,omitempty"` // before the block runs, Ctrl-C ends all background blocks
	Before     []string          `json:"before,omitempty"`     // commands that run before the block
	Replace    map[string]string `json:"replace,omitempty"`    // placeholders and their values
	Skip       string            `json:"skip,omitempty"`       // a reason
	RunBy      []string          `json:"runBy,omitempty"`      // tests, documents, make targets or files that run the block instead
}

// Skipped reports whether the block does not run.
func (e Entry) Skipped() bool { return e.Skip != "" || len(e.RunBy) > 0 }

// Place describes what exists before a block runs.
type Place struct {
	Cluster  bool // the test's cluster; a block of another place can start its own
	Real     bool // the machine runs real nodes
	Operator bool // an operator runs for the cluster
}

var places = map[string]Place{
	"a cluster":                             {Cluster: true},
	"a cluster with an operator":            {Cluster: true, Operator: true},
	"a real node":                           {Cluster: true, Real: true},
	"a real node with an operator":          {Cluster: true, Real: true, Operator: true},
	"no cluster":                            {},
	"no cluster, but a real node can start": {Real: true},
}

// section holds the entries of consecutive blocks that have the same place.
type section struct {
	Place  string  `json:"place"`
	Blocks []Entry `json:"blocks"`
}

// Read returns all documents. Its error lists every block without an entry, every entry without a block, and every invalid block or entry.
func Read(root string) (all []Document, err error) {
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	var sections map[string][]section
	if err := yaml.UnmarshalStrict(data, &sections); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	repository := os.DirFS(root)
	var names []string
	for _, pattern := range []string{
		"README*.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/*.md", "artifacts/chart/README.md",
	} {
		found, globErr := fs.Glob(repository, pattern)
		names, err = append(names, found...), errors.Join(err, globErr)
	}
	for _, name := range names {
		text, readErr := fs.ReadFile(repository, name)
		blocks, parseErr := parse(name, string(text))
		err = errors.Join(err, readErr, parseErr, match(name, blocks, sections[name]))
		all = append(all, Document{Name: name, Blocks: blocks})
		delete(sections, name)
	}
	for name := range sections {
		err = errors.Join(err, fmt.Errorf("%s: there is no document %s", file, name))
	}
	return all, err
}

var fence = regexp.MustCompile("(?ms)^[ \t]*```(\\w*)[ \t]*\n(.*?)(?:^[ \t]*```[ \t]*$|\\z)")

// parse returns the blocks of a document, without their entries.
func parse(name, text string) (blocks []*Block, err error) {
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		language, body, line := text[at[2]:at[3]], text[at[4]:at[5]], 1+strings.Count(text[:at[4]], "\n")
		all, splitErr := split(language, body)
		if splitErr != nil {
			err = errors.Join(err, fmt.Errorf("%s:%d: %w", name, line, splitErr))
		} else if all != nil {
			blocks = append(blocks, &Block{Name: fmt.Sprintf("%s:%d", name, line), Console: language == "console", Commands: all})
		}
	}
	return blocks, err
}

// match gives each block its entry. Blocks and entries have the same order.
func match(name string, blocks []*Block, sections []section) (err error) {
	fail := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	type placed struct {
		Entry
		Place
	}
	var entries []placed
	for _, s := range sections {
		place, known := places[s.Place]
		if !known {
			fail("%s: %s: unknown place %q", file, name, s.Place)
		}
		for _, e := range s.Blocks {
			entries = append(entries, placed{e, place})
		}
	}
	unused := func(entries []placed) {
		for _, e := range entries {
			fail("%s: %s has no such block here: %s", file, name, e.Block)
		}
	}
	for _, b := range blocks {
		i := slices.IndexFunc(entries, func(e placed) bool { return b.begins(e.Block) })
		if i < 0 {
			fail("%s has no entry in %s: %s", b.Name, file, b.Commands[0].Text)
			continue
		}
		unused(entries[:i])
		b.Entry, b.Place, entries = entries[i].Entry, entries[i].Place, entries[i+1:]
	}
	unused(entries)
	return err
}

// begins reports whether the block's first command begins with this line.
func (b *Block) begins(line string) bool {
	first, _, _ := strings.Cut(b.Commands[0].Plain(), "\n")
	beginning, shortened := strings.CutSuffix(line, "…")
	return first == line || shortened && strings.HasPrefix(first, beginning)
}

var comment = regexp.MustCompile(`\s+#[^\n]*`)

// Plain returns the text without comments.
func (c Command) Plain() string { return strings.TrimSpace(comment.ReplaceAllString(c.Text, "")) }

// split returns the commands of a block of this language, or nil if it can have none.
func split(language, body string) (all []Command, err error) {
	switch {
	case language == "sh":
		all, err = script(body)
	case language == "console":
		all, err = terminal(body)
	case slices.Contains([]string{"bash", "shell", "zsh"}, language):
		return nil, fmt.Errorf("write ```sh instead of ```%s", language)
	case strings.Contains("\n"+body, "\n$ "):
		return nil, fmt.Errorf("write ```console instead of ```%s for commands with their output", language)
	default:
		return nil, nil
	}
	if err == nil && len(all) == 0 {
		err = errors.New("the block has no commands")
	}
	return all, err
}

// script splits a script into its commands. Bash decides where a command ends.
func script(body string) (all []Command, err error) {
	text := ""
	for line := range strings.Lines(body) {
		if bare := strings.TrimSpace(line); text == "" && (bare == "" || strings.HasPrefix(bare, "#")) {
			continue
		}
		text += line
		if !strings.HasSuffix(text, "\\\n") && exec.Command("bash", "-n", "-c", text).Run() == nil {
			all, text = append(all, Command{Text: strings.TrimSuffix(text, "\n")}), ""
		}
	}
	if text != "" {
		err = fmt.Errorf("the command does not end: %s", strings.TrimSuffix(text, "\n"))
	}
	return all, err
}

// terminal splits the text of a terminal into commands and their output. Empty lines at the end of an output do not count.
func terminal(body string) (all []Command, err error) {
	before, sessions, _ := strings.Cut("\n"+body, "\n$ ")
	if before != "" {
		return nil, fmt.Errorf("the block does not begin with a command: %s", strings.TrimSpace(before))
	}
	for session := range strings.SplitSeq(sessions, "\n$ ") {
		lines := strings.Split(strings.TrimRight(session, " \t\n"), "\n")
		all = append(all, Command{Text: lines[0], Shown: lines[1:]})
	}
	return all, nil
}
