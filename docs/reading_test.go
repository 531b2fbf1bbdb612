// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// linesPerMinute is the estimated speed at which code and traces are read. No reader was timed.
const linesPerMinute = 12

// TestReadingTime compares the stated reading times of a document with its words and lines of code, without those of the experiments: of
// all, and of the sections of a first reading. Each Chinese character counts as a word.
func TestReadingTime(t *testing.T) {
	for name, test := range map[string]struct {
		stated         *regexp.Regexp // minutes, words, lines
		experiments    *regexp.Regexp
		first          *regexp.Regexp // minutes of a first reading
		sections       *regexp.Regexp // those of a first reading
		wordsPerMinute float64
	}{
		"informer.md": {
			regexp.MustCompile(`about (\d+) minutes .*: ([\d,]+) words at 100 a minute, and ([\d,]+) lines of code and traces at 12 a minute`),
			regexp.MustCompile(`(?s)\n(?:## To try it\n|\*\*Break it\.\*\*).*?(\n##+ )`),
			regexp.MustCompile(`A first reading of about (\d+) minutes`),
			regexp.MustCompile(`(?s)\n## Eight stations\n.*?\n## |\n### After 410 Gone\n.*?\n### `), 100,
		},
		"informer.zh.md": {
			regexp.MustCompile(`约 (\d+) 分钟.*：([\d,]+) 字（每分钟 200 字），([\d,]+) 行代码和 trace（每分钟 12 行）`),
			regexp.MustCompile(`(?s)\n(?:## 动手准备\n|\*\*动手破坏\*\*).*?(\n##+ )`),
			regexp.MustCompile(`第一次阅读约 (\d+) 分钟`),
			regexp.MustCompile(`(?s)\n## 八个站\n.*?\n## |\n### 410 Gone 之后\n.*?\n### `), 200,
		},
	} {
		text := test.experiments.ReplaceAllString(readFile(t, name), "$1")
		stated, first := test.stated.FindStringSubmatch(text), test.first.FindStringSubmatch(text)
		if stated == nil || first == nil {
			t.Errorf("%s states no reading times of the forms %s and %s", name, test.stated, test.first)
			continue
		}
		reading := func(text string) (minutes, words, lines float64) {
			words, lines = countText(text)
			return words/test.wordsPerMinute + lines/linesPerMinute, words, lines
		}
		minutes, words, lines := reading(text)
		firstMinutes, _, _ := reading(strings.Join(test.sections.FindAllString(text, -1), "\n"))
		for i, want := range []float64{minutes, words, lines, firstMinutes} {
			got, err := strconv.ParseFloat(strings.ReplaceAll(slices.Concat(stated[1:], first[1:])[i], ",", ""), 64)
			if err != nil || math.Abs(got-want) > math.Max(0.02*want, 1) {
				t.Errorf("%s says %q and %q, want %.0f minutes, %.0f words, %.0f lines; %.0f minutes",
					name, stated[0], first[0], minutes, words, lines, firstMinutes)
				break
			}
		}
	}
}

var (
	unread   = regexp.MustCompile(`(?m)^<!--.*$|\]\([^)]*\)|^\|[-|]*$`)
	codeLine = regexp.MustCompile(`(?m)^.*\S.*$`)
	word     = regexp.MustCompile(`\p{Han}|[^\s|\p{Han}]*[\p{L}\p{N}][^\s|\p{Han}]*`)
)

// countText returns the number of words outside of blocks of code, and the number of lines in these blocks.
func countText(text string) (words, lines float64) {
	for _, code := range fences.FindAllString(text, -1) {
		lines += float64(len(codeLine.FindAllString(code, -1)) - 2) // without the fences
	}
	prose := unread.ReplaceAllString(fences.ReplaceAllString(text, ""), "")
	return float64(len(word.FindAllString(prose, -1))), lines
}
