/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package docs

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// linesPerMinute is the measured speed at which code and traces are read.
const linesPerMinute = 12

// TestReadingTime compares the stated reading time of a document with its words and lines of code, without those of the experiments. Each
// Chinese character counts as a word.
func TestReadingTime(t *testing.T) {
	for name, test := range map[string]struct {
		stated         *regexp.Regexp // minutes, words, lines
		experiments    *regexp.Regexp
		wordsPerMinute float64
	}{
		"informer.md": {
			regexp.MustCompile(`about (\d+) minutes .*: ([\d,]+) words at 100 a minute, and ([\d,]+) lines of code and traces at 12 a minute`),
			regexp.MustCompile(`(?s)\n(?:## To try it\n|\*\*Break it\.\*\*).*?(\n##+ )`), 100,
		},
		"informer.zh.md": {
			regexp.MustCompile(`约 (\d+) 分钟.*：([\d,]+) 字（每分钟 200 字），([\d,]+) 行代码和 trace（每分钟 12 行）`),
			regexp.MustCompile(`(?s)\n(?:## 动手准备\n|\*\*动手破坏\*\*).*?(\n##+ )`), 200,
		},
	} {
		text := readFile(t, name)
		stated := test.stated.FindStringSubmatch(text)
		if stated == nil {
			t.Errorf("%s states no reading time of the form %s", name, test.stated)
			continue
		}
		words, lines := countText(test.experiments.ReplaceAllString(text, "$1"))
		minutes := float64(words)/test.wordsPerMinute + float64(lines)/linesPerMinute
		for i, want := range []float64{minutes, float64(words), float64(lines)} {
			got, err := strconv.ParseFloat(strings.ReplaceAll(stated[i+1], ",", ""), 64)
			if err != nil || math.Abs(got-want) > math.Max(0.02*want, 1) {
				t.Errorf("%s says %q, want %.0f minutes, %d words, %d lines", name, stated[0], minutes, words, lines)
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
func countText(text string) (words, lines int) {
	for _, code := range fences.FindAllString(text, -1) {
		lines += len(codeLine.FindAllString(code, -1)) - 2 // without the fences
	}
	prose := unread.ReplaceAllString(fences.ReplaceAllString(text, ""), "")
	return len(word.FindAllString(prose, -1)), lines
}
