// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutants takes guards out of the code, one at a time, and runs the tests that must fail without them. Its
// program is hack/mutants/cmd.
//
// The guards are the rows of the tables of docs/architecture.md. The mutants are in mutants.md. The documents in docs
// contain mutants too, as experiments for their readers.
package mutants

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Mutant is a change of one file, and the test that must fail with it. In a document it is a block of diff. The first line of the block
// names the file. The command that runs the test is in the line before the block or, for readers, in a block of sh after it. The paragraph
// before says what the change does:
//
//	The handler adds no key.
//
//	<!-- experiment: go test ./pkg/loop -run TestHandler -->
//	```diff
//	 pkg/loop/handler.go
//	 a line that stays
//	-a line that is removed
//	+a line that is added
//	```
type Mutant struct {
	Effect   string // the last line of the paragraph before the mutant
	Command  string // such as "go test ./pkg/loop -run TestHandler"
	File     string // relative to the root of the repository
	Old, New string // whole lines
}

const mark = "<!-- experiment: "

var block = regexp.MustCompile("(?s)(?:([^\n]*)\n\n)?(?:" + mark + "(go test [^\n]*) -->\n)?```diff\n (\\S+)\n(.*?)```\n" +
	"(?:\n```sh\n(go test [^\n]*)\n```\n)?")

// Parse returns the mutants of a document. It returns an error if a mark has no block of diff on the next line.
func Parse(document string) ([]Mutant, error) {
	var all []Mutant
	marked := 0
	for _, parts := range block.FindAllStringSubmatch(document, -1) {
		m := Mutant{Effect: parts[1], Command: cmp.Or(parts[2], parts[5]), File: parts[3]}
		if m.Command == "" {
			return nil, fmt.Errorf("no command runs the test of a change of %s", m.File)
		}
		if parts[2] != "" {
			marked++
		}
		for line := range strings.Lines(parts[4]) {
			if line[0] != '+' {
				m.Old += line[1:]
			}
			if line[0] != '-' {
				m.New += line[1:]
			}
		}
		all = append(all, m)
	}
	if marks := strings.Count(document, mark); marks != marked {
		return nil, fmt.Errorf("of %d marks of experiments, %d have a block of diff on the next line", marks, marked)
	}
	return all, nil
}

// String returns the effect, the file and the tests.
func (m Mutant) String() string {
	return fmt.Sprintf("%s (%s, %s)", m.Effect, m.File, m.tests())
}

// args returns the arguments of the go command.
func (m Mutant) args() []string { return strings.Fields(m.Command)[1:] }

// pkg returns the package of the test, such as ./pkg/loop.
func (m Mutant) pkg() string { return m.args()[1] }

// tests returns the regular expression that selects the tests; "" if the command has none.
func (m Mutant) tests() string {
	args := m.args()
	if i := slices.Index(args, "-run"); i > 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// apply returns the source with the change. It returns an error unless the source has the old lines exactly once.
func (m Mutant) apply(source string) (string, error) {
	if n := strings.Count("\n"+source, "\n"+m.Old); n != 1 {
		return "", fmt.Errorf("%s has these lines %d times, want once:\n%s", m.File, n, m.Old)
	}
	return strings.TrimPrefix(strings.Replace("\n"+source, "\n"+m.Old, "\n"+m.New, 1), "\n"), nil
}

// Result is the outcome of the test of a mutant.
type Result string

// The results. Only Fails shows that the test needs the guard.
const (
	Fails    Result = "fails"
	Survives Result = "SURVIVES"
	Broken   Result = "NO BUILD"
	TimesOut Result = "TIMES OUT"
	Panics   Result = "PANICS"
)

// Run applies the mutant to a copy of its file in dir, and runs the test with it: the compiler reads the copy instead of the file. root is
// the root of the repository. Run also returns the output of the test.
func (m Mutant) Run(ctx context.Context, root, dir string) (Result, string, error) {
	file := filepath.Join(root, m.File)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	changed, err := m.apply(string(source))
	if err != nil {
		return "", "", err
	}
	copied, overlay := filepath.Join(dir, filepath.Base(m.File)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: copied}})
	if err != nil {
		return "", "", err
	}
	for name, data := range map[string][]byte{copied: []byte(changed), overlay: replace} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return "", "", err
		}
	}
	// A mutant only has to compile: go vet may reject it. No debugger reads it.
	flags := []string{"test", "-overlay", overlay, "-vet=off", "-ldflags=-s -w", "-failfast", "-timeout", "5m"}
	output, err := goCommand(ctx, root, append(flags, m.args()[1:]...))
	if err == nil {
		return Survives, output, nil
	}
	return resultOf(output), output, ctx.Err()
}

// goCommand runs the go command in root, and returns its output.
func goCommand(ctx context.Context, root string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

var (
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL: `)
	crash   = regexp.MustCompile(`(?m)^(panic|fatal error): `)
)

// resultOf returns the result of a go test that has failed with this output.
func resultOf(output string) Result {
	switch {
	case strings.Contains(output, "panic: test timed out after "):
		return TimesOut
	case crash.MatchString(output):
		return Panics
	case failure.MatchString(output):
		return Fails
	}
	return Broken
}
