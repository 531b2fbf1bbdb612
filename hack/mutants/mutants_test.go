// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// A small repository, with one guard and one mutant.
const (
	row = "| MyCronJob | enforced in | shown by |\n|---|---|---|\n" +
		"| No Job twice | [act.go](../pkg/act.go), create; [decide.go](../pkg/decide.go) | `TestSync`, `TestNone` |\n"
	heading = "# Mutants\n\n## MyCronJob\n\n### No Job twice\n\n"
	change  = "Two Jobs.\n\n<!-- experiment: go test ./pkg -run ^TestSync$ -->\n```diff\n" +
		" pkg/act.go\n func act() int {\n-\treturn guard(1)\n+\treturn 2\n```\n"
	code     = "package pkg\n\nfunc act() int {\n\treturn guard(1)\n}\n\nfunc guard(n int) int {\n\treturn n\n}\n"
	testCode = "package pkg\n\nimport \"testing\"\n\n" +
		"func TestSync(t *testing.T) {\n\tif act() != 1 {\n\t\tt.Error(act())\n\t}\n}\n"
)

// repository writes the files of the small repository and returns its root.
func repository(t *testing.T, code string) string {
	t.Helper()
	root := t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(root, "pkg"), 0o755))
	for name, text := range map[string]string{
		"go.mod": "module example.com/small\n\ngo 1.26.0\n", "pkg/act.go": code, "pkg/act_test.go": testCode,
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func TestWhatIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		row, entries, code string // "" for those of the small repository
		want               string // a part of the error; "" for none
	}{
		"an entry that can be used is accepted": {},
		"a row without an entry": {
			entries: "# Mutants\n", want: "mutants.md has no section for the guard of docs/architecture.md: MyCronJob: No Job twice",
		},
		"an entry without a row": {
			entries: heading + change + "\n### Another\n\n" + change, want: "docs/architecture.md has no such guard: MyCronJob: Another",
		},
		"an entry without a mutant":                           {entries: heading, want: "a section has either mutants or a line that begins"},
		"an entry that says why it has no mutant is accepted": {entries: heading + "No mutant: it needs a cluster.\n"},
		"an entry that has a mutant, and says that it has none": {
			entries: heading + "No mutant: it needs a cluster.\n\n" + change, want: "a section has either mutants or a line that begins",
		},
		"a mark without a diff": {
			entries: heading + strings.Replace(change, "```diff", "```go", 1), want: "of 1 marks of experiments, 0 have a block of diff",
		},
		"lines that the file does not have": {code: "package pkg\n", want: "pkg/act.go has these lines 0 times"},
		"lines that the file has twice":     {code: code + code, want: "pkg/act.go has these lines 2 times"},
		"a part of a line": {
			entries: heading + strings.Replace(change, "\n func act", "\n nc act", 1), want: "pkg/act.go has these lines 0 times",
		},
		"a file that the row does not name": {
			row: strings.Replace(row, "../pkg/act.go", "../pkg/status.go", 1), want: "the row does not name pkg/act.go",
		},
		"any file is accepted if the row names a package": {row: strings.Replace(row, "../pkg/act.go", "../pkg/doc.go", 1)},
		"a test that the row does not name": {
			entries: heading + strings.Replace(change, "TestSync", "TestOther", 1), want: `the row does not name the test "TestOther"`,
		},
		"a test that the package does not have": {
			entries: heading + strings.Replace(change, "TestSync", "TestNone", 1), want: "./pkg has no test TestNone",
		},
		"a row that has two columns": {row: row + "| a | b |\n", want: "a row of the table MyCronJob has 2 columns, want 3"},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t, cmp.Or(test.code, code))
			_, err := guardsOf(root, cmp.Or(test.row, row), cmp.Or(test.entries, heading+change))
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds what is changed")
	}
	for name, test := range map[string]struct {
		entries, code string // "" for those of the small repository
		lines         string // a regular expression for the output
		err           string // a part of the error; "" for none
	}{
		"the test fails": {lines: `MyCronJob: No Job twice\n  fails +[0-9.]+s  Two Jobs\. \(pkg/act.go, \^TestSync\$\)\n1 mutants, `},
		"the test does not fail": {
			entries: heading + strings.Replace(change, "return 2", "return 1", 1),
			lines:   `SURVIVES .*\nThe mutant:\n-func act`, err: "SURVIVES: MyCronJob: No Job twice: Two Jobs.",
		},
		"the mutant does not compile": {
			entries: heading + strings.Replace(change, "return 2", "return two", 1), lines: `NO BUILD .*`, err: "NO BUILD: MyCronJob",
		},
		"the test fails without the mutant too": {
			code: strings.Replace(code, "return n\n", "return n + 1\n", 1), lines: "--- FAIL: TestSync", err: "fail without any mutant",
		},
		"no mutant matches": {lines: "^0 mutants, "},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t, cmp.Or(test.code, code))
			guards, err := guardsOf(root, row, cmp.Or(test.entries, heading+change))
			must.Succeed(t, err)
			only := "Cron.*twice"
			if name == "no mutant matches" {
				only = "Redis"
			}
			var out strings.Builder
			err = runGuards(t.Context(), root, guards, regexp.MustCompile(only), &out)
			if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
			if !regexp.MustCompile(test.lines).MatchString(out.String()) {
				t.Errorf("it prints\n%s\nwant %s", out.String(), test.lines)
			}
		})
	}
}

// TestOnlyAFailureCounts has the output of go test for each way to fail.
func TestOnlyAFailureCounts(t *testing.T) {
	for output, want := range map[string]Result{
		"--- FAIL: TestSync (0.00s)\n    act_test.go:6: 2\nFAIL\n":                                      Fails,
		"    --- FAIL: TestSync/a_row (0.00s)\nFAIL\n":                                                  Fails,
		"--- FAIL: TestSync (0.00s)\npanic: runtime error: index out of range\nFAIL\n":                  Panics,
		"fatal error: all goroutines are asleep - deadlock!\nFAIL\n":                                    Panics,
		"panic: test timed out after 5m0s\n\trunning tests:\n--- FAIL: TestSync (300.00s)\nFAIL\n":      TimesOut,
		"# example.com/small/pkg\npkg/act.go:4:9: undefined: two\nFAIL\texample.com/pkg [build failed]": Broken,
	} {
		if got := resultOf(output); got != want {
			t.Errorf("%q is %s, want %s", output, got, want)
		}
	}
}
