// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Experiment is a mutant in a document: a block of diff, whose first line names the file. The command that runs the test is in the line
// before the block or, for readers, in a block of sh after it:
//
//	<!-- experiment: go test ./pkg/loop -run TestHandler -->
//	```diff
//	 pkg/loop/handler.go
//	 a line that stays
//	-a line that is removed
//	+a line that is added
//	```
type Experiment struct {
	Command  string // such as "go test ./pkg/loop -run TestHandler"
	File     string // relative to the root of the repository
	Old, New string // whole lines
}

const mark = "<!-- experiment: "

var block = regexp.MustCompile("(?s)(?:" + mark + "(go test [^\n]*) -->\n)?```diff\n (\\S+)\n(.*?)```\n" +
	"(?:\n```sh\n(go test [^\n]*)\n```\n)?")

// Parse returns the experiments of a document. It returns an error if a mark has no block of diff on the next line.
func Parse(document string) ([]Experiment, error) {
	var all []Experiment
	marked := 0
	for _, parts := range block.FindAllStringSubmatch(document, -1) {
		x := Experiment{Command: cmp.Or(parts[1], parts[4]), File: parts[2]}
		if x.Command == "" {
			return nil, fmt.Errorf("no command runs the test of a change of %s", x.File)
		}
		if parts[1] != "" {
			marked++
		}
		for line := range strings.Lines(parts[3]) {
			if line[0] != '+' {
				x.Old += line[1:]
			}
			if line[0] != '-' {
				x.New += line[1:]
			}
		}
		all = append(all, x)
	}
	if marks := strings.Count(document, mark); marks != marked {
		return nil, fmt.Errorf("of %d marks of experiments, %d have a block of diff on the next line", marks, marked)
	}
	return all, nil
}

// Run applies the experiment to a copy of its file, and runs the test with it. root is the root of the repository. Run also returns
// the output of the test, and an error unless the file has the old lines exactly once.
func (x Experiment) Run(ctx context.Context, root string) (Result, string, error) {
	file := filepath.Join(root, x.File)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	text := "\n" + string(source)
	if n := strings.Count(text, "\n"+x.Old); n != 1 {
		return NotApplied, "", fmt.Errorf("%s has these lines %d times, want once:\n%s", x.File, n, x.Old)
	}
	changed := strings.Replace(text, "\n"+x.Old, "\n"+x.New, 1)[1:]
	return runChanged(ctx, root, file, changed, strings.Fields(x.Command)[2:])
}
