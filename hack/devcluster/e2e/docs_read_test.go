/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Where the commands of a document run is said in comments of the document:
//
//	<!-- run: on a real node -->         what follows runs there; see places
//	<!-- run: in the background -->      the next block runs on while the next ones do
//	<!-- run: after Ctrl-C -->           what is in the background ends first, by that
//	<!-- run: first COMMAND -->          this runs before the next block
//	<!-- run: with NAME=WORD -->         in the next block, NAME stands for this
//	<!-- run: where there is PROGRAM --> the next block needs what not every machine has
//	<!-- run: not, REASON -->            the next block does not run
//
// A reason that names a test, another document or make integration is checked: there is such
// a test, the other document has the same commands, and they run, or they make what the target
// integration needs.
var (
	comment    = regexp.MustCompile(`^\s*<!-- run: (.*) -->\s*$`)
	fence      = regexp.MustCompile("^\\s*```(\\w*)\\s*$")
	named      = regexp.MustCompile(`\bTest[A-Z]\w+`)
	elsewhere  = regexp.MustCompile(`\b(?:docs/\w+|README)\.md`)
	definition = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// document is README.md, or a file of docs.
type document struct {
	name   string // from the root of the repository
	blocks []*block
}

// block is one that shows commands: ```sh has only these, ```console also what they print.
type block struct {
	name     string // the document's, and the number of the line
	console  bool
	commands []command

	place             string
	background, ended bool // it runs in the background; what is there ends before it
	first             []string
	with              []string // old and new words
	needs             []string // programs
	not               string   // why it does not run
}

// command is a command of a document with its output. Both may have several lines.
type command struct {
	text  string
	shown []string // none: anything may be printed, and the command has to succeed
}

// documents reads what there is. What a reader of documents must not find in them fails the test.
func documents(t *testing.T) []document {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	var all []document
	for _, file := range slices.Insert(files, 0, filepath.Join(root, "README.md")) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		d, wrong := read(name, string(data))
		for _, w := range wrong {
			t.Error(w)
		}
		all = append(all, d)
	}
	return all
}

// read finds the blocks of a document, and what is wrong in it.
func read(name, text string) (d document, wrong []string) {
	d.name = name
	tell := func(line int, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s:%d: %s", name, line, fmt.Sprintf(format, args...)))
	}
	place, next := withOperator, &block{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if said := comment.FindStringSubmatch(lines[i]); said != nil {
			if _, is := places[said[1]]; is {
				place = said[1]
			} else if !next.understand(said[1]) {
				tell(i+1, "what does %q mean?", said[1])
			}
			next.name = fmt.Sprintf("%s:%d", name, i+1)
			continue
		}
		opened := fence.FindStringSubmatch(lines[i])
		if opened == nil {
			if next.asked() && strings.TrimSpace(lines[i]) != "" {
				tell(i, "there is no block after the comment")
				next = &block{}
			}
			continue
		}
		at := i + 1
		for i++; i < len(lines) && fence.FindStringSubmatch(lines[i]) == nil; i++ {
		}
		body := lines[at:min(i, len(lines))]
		next.name, next.place = fmt.Sprintf("%s:%d", name, at), place
		if err := next.fill(opened[1], body); err != nil {
			tell(at, "%v", err)
		} else if next.commands != nil {
			d.blocks = append(d.blocks, next)
		}
		next = &block{}
	}
	if next.asked() {
		tell(len(lines), "there is no block after the comment")
	}
	return d, wrong
}

// understand takes over what a comment says of the next block.
func (b *block) understand(said string) bool {
	switch {
	case said == "in the background":
		b.background = true
	case said == "after Ctrl-C":
		b.ended = true
	case strings.HasPrefix(said, "first "):
		b.first = append(b.first, strings.TrimPrefix(said, "first "))
	case strings.HasPrefix(said, "with ") && strings.Contains(said, "="):
		old, word, _ := strings.Cut(strings.TrimPrefix(said, "with "), "=")
		b.with = append(b.with, old, word)
	case strings.HasPrefix(said, "where there is "):
		b.needs = append(b.needs, strings.TrimPrefix(said, "where there is "))
	case strings.HasPrefix(said, "not, "):
		b.not = strings.TrimPrefix(said, "not, ")
	default:
		return false
	}
	return true
}

// asked reports whether a comment has said something of the block.
func (b *block) asked() bool {
	return b.background || b.ended || b.not != "" || len(b.first)+len(b.with)+len(b.needs) > 0
}

// fill gives a block its commands, if it is one that has any.
func (b *block) fill(language string, body []string) (err error) {
	switch session := slices.ContainsFunc(body, func(line string) bool { return strings.HasPrefix(line, "$ ") }); {
	case language == "sh":
		b.commands, err = typed(body)
	case language == "console":
		b.console = true
		b.commands, err = typedAndShown(body)
	case slices.Contains([]string{"bash", "shell", "zsh"}, language):
		err = fmt.Errorf("commands are in ```sh, not in ```%s", language)
	case session:
		err = fmt.Errorf("commands with what they print are in ```console, not in ```%s", language)
	case b.asked():
		err = fmt.Errorf("the comment is about a block without commands")
	}
	if err == nil && b.commands == nil && (language == "sh" || b.console) {
		err = fmt.Errorf("there are no commands in it")
	}
	return err
}

// typed splits a script into its commands. Bash knows where each ends.
func typed(body []string) ([]command, error) {
	var all []command
	var text []string
	for _, line := range body {
		if bare := strings.TrimSpace(line); text == nil && (bare == "" || strings.HasPrefix(bare, "#")) {
			continue
		}
		text = append(text, line)
		script := strings.Join(text, "\n")
		if strings.HasSuffix(line, `\`) || exec.Command("bash", "-n", "-c", script).Run() != nil {
			continue
		}
		all, text = append(all, command{text: script}), nil
	}
	if text != nil {
		return nil, fmt.Errorf("this is no whole command: %s", strings.Join(text, "\n"))
	}
	return all, nil
}

// typedAndShown splits what is seen on a terminal.
func typedAndShown(body []string) ([]command, error) {
	var all []command
	for _, line := range body {
		if text, is := strings.CutPrefix(line, "$ "); is {
			all = append(all, command{text: text, shown: []string{}})
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("it does not begin with a command: %s", line)
		}
		last := &all[len(all)-1]
		last.shown = append(last.shown, line)
	}
	for i := range all {
		for n := len(all[i].shown); n > 0 && strings.TrimSpace(all[i].shown[n-1]) == ""; n-- {
			all[i].shown = all[i].shown[:n-1]
		}
	}
	return all, nil
}

// excused fails the test for blocks that do not run for a reason that does not hold.
func excused(t *testing.T, all []document) {
	t.Helper()
	tests := testNames(t)
	run := map[string][]string{}
	for _, d := range all {
		for _, b := range d.blocks {
			if b.not == "" {
				for _, c := range b.commands {
					run[d.name] = append(run[d.name], plain(c.text))
				}
			}
		}
	}
	_, integration, _ := strings.Cut(text(t, "Makefile"), "\nintegration: ")
	integration, _, _ = strings.Cut(integration, "#")
	before := append(strings.Fields(integration), "make")
	for _, d := range all {
		for _, b := range d.blocks {
			for _, c := range b.commands {
				for word := range strings.FieldsSeq(plain(c.text)) {
					if strings.Contains(b.not, "make integration") && !slices.Contains(before, word) {
						t.Errorf("%s does not run, and make integration does not need %s", b.name, word)
					}
				}
			}
			for _, name := range named.FindAllString(b.not, -1) {
				if !tests[name] {
					t.Errorf("%s does not run, because of %s, and there is no such test", b.name, name)
				}
			}
			for _, other := range elsewhere.FindAllString(b.not, -1) {
				for _, c := range b.commands {
					if !slices.Contains(run[other], plain(c.text)) {
						t.Errorf("%s does not run, because of %s, where this does not run: %s", b.name, other, c.text)
					}
				}
			}
		}
	}
}

var remark = regexp.MustCompile(`\s+#[^\n]*`)

// plain is a command without what is said of it.
func plain(text string) string { return strings.TrimSpace(remark.ReplaceAllString(text, "")) }

var (
	target = regexp.MustCompile(`(?m)^([a-z][\w/-]*):`)
	makes  = regexp.MustCompile("`make ([a-z][a-z-]*)[^`]*`")
)

// TestTargetsInSentencesAreThere looks for what a sentence says to make. Blocks run.
func TestTargetsInSentencesAreThere(t *testing.T) {
	var targets []string
	for _, found := range target.FindAllStringSubmatch(text(t, "Makefile"), -1) {
		targets = append(targets, found[1])
	}
	for _, d := range documents(t) {
		for _, found := range makes.FindAllStringSubmatch(quoted.ReplaceAllString(text(t, d.name), ""), -1) {
			if !slices.Contains(targets, found[1]) {
				t.Errorf("%s says make %s, and the Makefile has no such target", d.name, found[1])
			}
		}
	}
}

// testNames are those of all tests in the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, test := range definition.FindAllStringSubmatch(string(data), -1) {
			names[test[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestHowDocumentsAreRead(t *testing.T) {
	const ticks = "```"
	for name, test := range map[string]struct {
		text, want string // the commands with what they print, and what is wrong
	}{
		"a block without commands": {ticks + "go\nreturn\n" + ticks, ""},
		"a command a line":         {ticks + "sh\na\n\n# of b\nb   # this\n" + ticks, "a; b   # this; "},
		"commands of several lines": {
			ticks + "sh\na \\\n  b\nfor x in y; do\n  z\ndone\nc\n" + ticks, "a \\\n  b; for x in y; do\n  z\ndone; c; ",
		},
		"a command that does not end":      {ticks + "sh\nfor x in y; do\n" + ticks, "d:1: this is no whole command: for x in y; do"},
		"what is printed":                  {ticks + "console\n$ a\nb\n\n$ c\n" + ticks, "a [b]; c []; "},
		"another word for sh":              {ticks + "bash\na\n" + ticks, "d:1: commands are in ```sh, not in ```bash"},
		"a session that is not said to be": {ticks + "\n$ a\n" + ticks, "d:1: commands with what they print are in ```console, not in ```"},
		"a comment of a block without any": {
			"<!-- run: not, a reason -->\n" + ticks + "go\nx\n" + ticks, "d:2: the comment is about a block without commands",
		},
		"a comment of no block":               {"<!-- run: not, a reason -->\n\nText.", "d:2: there is no block after the comment"},
		"an unknown comment":                  {"<!-- run: never -->\n", `d:1: what does "never" mean?`},
		"a comment of the block below itself": {"<!-- run: not, a reason -->\n" + ticks + "sh\na\n" + ticks, "a (a reason); "},
	} {
		t.Run(name, func(t *testing.T) {
			d, wrong := read("d", test.text)
			var got strings.Builder
			for _, b := range d.blocks {
				for _, c := range b.commands {
					got.WriteString(c.text)
					if b.console {
						fmt.Fprintf(&got, " %v", c.shown)
					}
					if b.not != "" {
						fmt.Fprintf(&got, " (%s)", b.not)
					}
					got.WriteString("; ")
				}
			}
			if said := got.String() + strings.Join(wrong, "\n"); said != test.want {
				t.Errorf("it is read as %q, want %q", said, test.want)
			}
		})
	}
}
