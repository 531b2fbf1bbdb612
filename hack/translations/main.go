// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command translations lists the paragraphs of the translated documents whose originals have changed since. It informs, and fails only
// when git fails.
//
//	go run ./hack/translations
//
// It finds changed and added lines. A commit that only deletes lines of a paragraph is not found.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// suffix ends the name of a translation. The original is NAME.md.
const suffix = ".zh.md"

func main() {
	if err := list(".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "translations:", err)
		os.Exit(1)
	}
}

// list writes one line for each stale paragraph of the translations in the repository root.
func list(root string, out io.Writer) error {
	r := &repository{root: root, contained: map[[2]string]bool{}}
	files, err := r.git("ls-files", "*"+suffix)
	if err != nil {
		return err
	}
	for translation := range strings.FieldsSeq(files) {
		original := strings.TrimSuffix(translation, suffix) + ".md"
		from, fromErr := r.blame(original)
		to, toErr := r.blame(translation)
		if err := errors.Join(fromErr, toErr); err != nil {
			return err
		}
		for _, p := range pairs(paragraphs(from), paragraphs(to)) {
			stale, err := r.stale(p)
			if err != nil {
				return err
			}
			if stale {
				changed := p.original.changed
				fmt.Fprintf(out, "%s:%d: %s:%d changed in %s\n", translation, p.translation.line, original, changed.number, changed.commit)
			}
		}
	}
	return nil
}

// line is a line of a document with its last commit.
type line struct {
	number int
	text   string
	commit commit
}

type commit struct {
	id      string
	time    int64 // seconds since 1970
	summary string
}

func (c commit) String() string {
	if c.uncommitted() {
		return "the working tree"
	}
	return fmt.Sprintf("%.10s (%s)", c.id, c.summary)
}

// uncommitted reports whether git blame found the line in no commit.
func (c commit) uncommitted() bool { return strings.Trim(c.id, "0") == "" }

// paragraph is a block between two empty lines. A code block is one paragraph, also if it contains empty lines.
type paragraph struct {
	line    int
	anchor  bool // the paragraph is a heading, code or a mark: tests make sure that translations have the same
	changed line // the line with the latest commit
}

// paragraphs returns the paragraphs of a document.
func paragraphs(lines []line) (all []paragraph) {
	inside, code := false, false
	for _, l := range lines {
		if !code && l.text == "" {
			inside = false
			continue
		}
		if !inside {
			anchor := slices.ContainsFunc([]string{"#", "```", "<!--"}, func(start string) bool { return strings.HasPrefix(l.text, start) })
			all = append(all, paragraph{line: l.number, anchor: anchor})
			inside = true
		}
		if strings.HasPrefix(l.text, "```") {
			code = !code
		}
		p := &all[len(all)-1]
		p.changed = latest(p.changed, l)
	}
	return all
}

// latest returns the line with the later commit.
func latest(a, b line) line {
	if b.commit.time > a.commit.time {
		return b
	}
	return a
}

// pair is a paragraph and its translation.
type pair struct {
	original, translation paragraph
	uneven                bool // one of the two stands for another number of paragraphs
}

// pairs returns the paragraphs of two documents by their positions. After an added paragraph the positions differ up to the next anchor.
// These paragraphs are one pair.
func pairs(original, translation []paragraph) (all []pair) {
	from, to := sections(original), sections(translation)
	for i := range min(len(from), len(to)) {
		if len(from[i]) != len(to[i]) {
			all = append(all, pair{joined(from[i]), joined(to[i]), true})
			continue
		}
		for j := range from[i] {
			all = append(all, pair{original: from[i][j], translation: to[i][j]})
		}
	}
	return all
}

// sections splits a document before each anchor.
func sections(all []paragraph) (split [][]paragraph) {
	for i, p := range all {
		if i == 0 || p.anchor {
			split = append(split, nil)
		}
		split[len(split)-1] = append(split[len(split)-1], p)
	}
	return split
}

// joined returns one paragraph for all paragraphs of a section.
func joined(section []paragraph) paragraph {
	all := section[0]
	for _, p := range section[1:] {
		all.changed = latest(all.changed, p.changed)
	}
	return all
}

// repository runs git.
type repository struct {
	root      string
	contained map[[2]string]bool // by two commits: the history of the second contains the first
}

// stale reports whether the translation was written without the last change of the original.
func (r *repository) stale(p pair) (bool, error) {
	original, translation := p.original.changed.commit, p.translation.changed.commit
	switch {
	case p.uneven:
		return true, nil
	case translation.uncommitted() || original.id == translation.id:
		return false, nil
	case original.uncommitted():
		return true, nil
	}
	contained, err := r.contains(translation.id, original.id)
	return !contained, err
}

// contains reports whether the history of a commit contains an earlier one. It does not compare dates: two branches can be merged later.
func (r *repository) contains(id, earlier string) (bool, error) {
	key := [2]string{earlier, id}
	if contained, known := r.contained[key]; known {
		return contained, nil
	}
	_, err := r.git("merge-base", "--is-ancestor", earlier, id)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return false, err
	}
	r.contained[key] = err == nil
	return err == nil, nil
}

// blame returns the lines of a file.
func (r *repository) blame(file string) ([]line, error) {
	porcelain, err := r.git("blame", "--line-porcelain", "--", file)
	if err != nil {
		return nil, err
	}
	return parse(porcelain)
}

// parse reads the output of git blame --line-porcelain: for each line of the file "COMMIT LINE LINE", then "KEY VALUE" lines about the
// commit, then the line after a tab.
func parse(porcelain string) (lines []line, err error) {
	var c commit
	for text := range strings.Lines(porcelain) {
		text = strings.TrimSuffix(text, "\n")
		key, value, _ := strings.Cut(text, " ")
		content, isContent := strings.CutPrefix(text, "\t")
		switch {
		case isContent:
			lines, c = append(lines, line{len(lines) + 1, content, c}), commit{}
		case c.id == "":
			c.id = key
		case key == "committer-time":
			if c.time, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, fmt.Errorf("read the time of %s: %w", c.id, err)
			}
		case key == "summary":
			c.summary = value
		}
	}
	return lines, nil
}

// git returns the output of a git command.
func (r *repository) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.root
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", args[0], err, problem.String())
	}
	return string(out), nil
}
