/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// outline matches what a translation has in common with what it is of, line by line or
// block by block: headings by their depth, tables by their rows, marks, and all code.
var outline = regexp.MustCompile("(?ms)^```.*?^```$|^#+ |^\\||^<!-- .*?-->$")

func TestTranslationsAreInStep(t *testing.T) {
	translations, err := filepath.Glob("*.zh.md")
	if err != nil || len(translations) == 0 {
		t.Fatalf("no translations: %v", err)
	}
	for _, translation := range translations {
		original := strings.TrimSuffix(translation, ".zh.md") + ".md"
		outlines := map[string][]string{}
		for name, other := range map[string]string{original: translation, translation: original} {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			outlines[name] = outline.FindAllString(string(text), -1)
			if !strings.Contains(string(text), "]("+other+")") {
				t.Errorf("%s does not link to %s", name, other)
			}
		}
		was, is := outlines[original], outlines[translation]
		for i := range max(len(was), len(is)) {
			if i >= len(was) || i >= len(is) || was[i] != is[i] {
				t.Errorf("%s has %q where %s has %q", translation, slices.Concat(is, []string{"no more"})[min(i, len(is))], original,
					slices.Concat(was, []string{"no more"})[min(i, len(was))])
				break
			}
		}
	}
}
