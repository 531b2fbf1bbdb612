// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// document returns lines whose commits are as late as the lines are long.
func document(text string) (lines []line) {
	for content := range strings.SplitSeq(text, "\n") {
		lines = append(lines, line{len(lines) + 1, content, commit{id: content, time: int64(len(content)) + 1}})
	}
	return lines
}

func TestParagraphsArePairs(t *testing.T) {
	for name, test := range map[string]struct {
		original, translation string
		want                  []string // the latest line of each, and ≠ for an uneven pair
	}{
		"by position":           {"# A\n\naa\n\nb", "# X\n\nx\n\ny", []string{"# A = # X", "aa = x", "b = y"}},
		"several lines":         {"a\naaa\naa\n\nb", "x\n\ny\nyy", []string{"aaa = x", "b = yy"}},
		"code with empty lines": {"a\n\n```go\n\nc\n```\n\nb", "x\n\n```go\n\nc\n```\n\ny", []string{"a = x", "```go = ```go", "b = y"}},
		"code after its mark":   {"<!-- m -->\n```\nc\n```\n\nb", "<!-- m -->\n```\nc\n```\n\ny", []string{"<!-- m --> = <!-- m -->", "b = y"}},
		"an added paragraph":    {"# A\n\na\n\nbbbb\n\n# B\n\nc", "# X\n\nx\n\n# Y\n\nz", []string{"bbbb ≠ # X", "# B = # Y", "c = z"}},
		"a deleted paragraph":   {"# A\n\n# B\n\nc", "# X\n\nx\n\n# Y\n\nz", []string{"# A ≠ # X", "# B = # Y", "c = z"}},
		"another number of sections": {
			"# A\n\na\n\n# B", "# X\n\nx", []string{"# A = # X", "a = x"},
		},
		"an empty document": {"", "x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range pairs(paragraphs(document(test.original)), paragraphs(document(test.translation))) {
				sign := "="
				if p.uneven {
					sign = "≠"
				}
				got = append(got, fmt.Sprintf("%s %s %s", p.original.changed.text, sign, p.translation.changed.text))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestStaleParagraphsAreListed commits to two branches: the second translates, and does not contain the last change of the first.
func TestStaleParagraphsAreListed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	second := 0
	change := func(summary string, texts map[string]string) {
		t.Helper()
		for name, text := range texts {
			must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		if summary != "" {
			second++
			t.Setenv("GIT_COMMITTER_DATE", fmt.Sprintf("2026-01-01T00:00:%02dZ", second))
			git("add", ".")
			git("commit", "-m", summary)
		}
	}
	want := func(lines ...string) {
		t.Helper()
		var out strings.Builder
		must.Succeed(t, list(dir, &out))
		got := regexp.MustCompile(`[0-9a-f]{10} `).ReplaceAllString(out.String(), "")
		if want := strings.Join(append(lines, ""), "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	git("init", "--initial-branch", "main")
	change("both", map[string]string{"a.md": "# A\n\none\n\ntwo\n", "a.zh.md": "# A\n\n一\n\n二\n"})
	want()
	git("branch", "zh")
	change("the second paragraph", map[string]string{"a.md": "# A\n\none\n\ntwo\nagain\n"})
	want("a.zh.md:5: a.md:6 changed in (the second paragraph)")
	git("checkout", "zh")
	change("the translation", map[string]string{"a.zh.md": "# A\n\n壹\n\n贰\n"})
	git("checkout", "main")
	git("merge", "zh")
	want("a.zh.md:5: a.md:6 changed in (the second paragraph)")
	change("the translation again", map[string]string{"a.zh.md": "# A\n\n壹\n\n贰贰\n"})
	want()
	change("", map[string]string{"a.md": "# A\n\n1\n\ntwo\nagain\n"})
	want("a.zh.md:3: a.md:3 changed in the working tree")
	change("", map[string]string{"a.zh.md": "# A\n\n1\n\n贰贰\n"})
	want()
	change("a third paragraph", map[string]string{"a.md": "# A\n\n1\n\ntwo\nagain\n\nthree\n"})
	want("a.zh.md:1: a.md:3 changed in (a third paragraph)")
}
