// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// outline matches the parts that a translation has in common with its original: the depths of headings, the beginnings of rows in
// tables, marks, and code.
var outline = regexp.MustCompile("(?ms)^```.*?^```$|^#+ |^\\||^<!-- .*?-->$")

// TestTranslationsHaveTheOutlinesOfTheirOriginals does not fail when only the text of the original changes: make translations shows
// these changes.
func TestTranslationsHaveTheOutlinesOfTheirOriginals(t *testing.T) {
	texts := documents(t)
	translations := 0
	for translation, text := range texts {
		name, translated := strings.CutSuffix(translation, ".zh.md")
		if !translated {
			continue
		}
		translations++
		original := name + ".md"
		for from, to := range map[string]string{original: translation, translation: original} {
			if !strings.Contains(texts[from], "]("+filepath.Base(to)+")") {
				t.Errorf("%s does not link to %s", from, to)
			}
		}
		want, got := append(outline.FindAllString(texts[original], -1), "its end"), append(outline.FindAllString(text, -1), "its end")
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				t.Errorf("%s has %q where %s has %q", translation, got[i], original, want[i])
				break
			}
		}
	}
	if translations == 0 {
		t.Error("no translations")
	}
}
