// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gotest is go test that does not forget what was skipped:
//
//	gotest [-artifacts DIRECTORY] FILE ARGUMENTS...
//
// It runs go test with the arguments and prints what go test would, with -v without its lines of progress, and after each package its tests
// that took longer than half a minute. It appends one line to FILE for every test that was skipped, with the reason that the test gave.
// DIRECTORY is emptied, and then holds what tests keep in their T.ArtifactDir; it is gone if they keep nothing. Its exit code is go test's.
//
// It is not gotestsum: that neither collects the reasons of skipped tests in a file, which the last line of "make test" needs, nor
// removes empty directories of artifacts, and it finds slow tests only when it reads the JSON of the run once more.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: gotest [-artifacts DIRECTORY] FILE ARGUMENTS...") }
	artifacts := flag.String("artifacts", "", "")
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	code, err := keep(*artifacts, func(flags []string) (int, error) {
		return run(flag.Arg(0), slices.Concat(flags, flag.Args()[1:]))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// keep calls run with the flags that have tests keep their artifacts in dir, and leaves none of those directories in which tests kept
// nothing: go test makes one for each test that could have kept something. An empty dir means that none are kept.
func keep(dir string, run func(flags []string) (int, error)) (int, error) {
	if dir == "" {
		return run(nil)
	}
	dir, err := filepath.Abs(dir) // packages are tested in directories of their own
	if err != nil {
		return 0, err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return 0, err
	}
	defer prune(dir)
	return run([]string{"-artifacts", "-outputdir=" + dir})
}

// prune removes empty directories below dir, and dir itself if it is empty then.
func prune(dir string) {
	entries, _ := os.ReadDir(dir) // A directory that cannot be read cannot be removed either.
	for _, e := range entries {
		if e.IsDir() {
			prune(filepath.Join(dir, e.Name()))
		}
	}
	os.Remove(dir) // fails if something is left, which then stays
}

// run returns go test's exit code.
func run(file string, args []string) (int, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	skipped, err := report(out, os.Stdout, slices.Contains(args, "-v"))
	if waitErr := cmd.Wait(); waitErr != nil {
		if exit, ok := errors.AsType[*exec.ExitError](waitErr); ok {
			return max(exit.ExitCode(), 1), nil
		}
		return 0, waitErr
	}
	if err != nil {
		return 0, err
	}
	return 0, appendLines(file, skipped)
}

func appendLines(file string, lines []string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintln(f, line)
	}
	return f.Close()
}

// event is one line that go test -json prints: see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// slow is the duration in seconds from which report names a test.
const slow = 30

// test names one test, or with an empty name all of a package.
type test struct{ pkg, name string }

// report copies events from in to out as go test would print them, with what successful tests say if verbose, and returns the tests that
// were skipped.
func report(in io.Reader, out io.Writer, verbose bool) ([]string, error) {
	var skipped []string
	outputs := map[test][]string{}    // of tests that have not ended yet
	slowTests := map[string][]event{} // of packages that have not ended yet
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(out, lines.Text()) // not an event of go test: print it unchanged
			continue
		}
		key := test{e.Package, e.Test}
		switch e.Action {
		case "output":
			outputs[key] = append(outputs[key], e.Output)
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "skip":
			if e.Test != "" {
				skipped = append(skipped, fmt.Sprintf("%s in %s: %s", e.Test, e.Package, reason(outputs[key])))
			} else {
				printWithoutFraming(out, outputs[key]) // a package without tests
			}
			delete(outputs, key)
		case "pass", "fail":
			if e.Action == "fail" || e.Test == "" || verbose {
				printWithoutFraming(out, outputs[key])
			}
			if e.Test == "" {
				printSlow(out, slowTests[e.Package])
			} else if e.Elapsed > slow && !strings.Contains(e.Test, "/") {
				slowTests[e.Package] = append(slowTests[e.Package], e)
			}
			delete(outputs, key)
		}
	}
	for _, left := range outputs { // go test was killed, or a test ended the process
		printWithoutFraming(out, left)
	}
	return skipped, lines.Err()
}

var (
	// framing matches the lines that -v adds to the output of tests.
	framing = regexp.MustCompile(`^\s*=== |^PASS\n$`)
	// verdict is how a test ended, and place is where it said something.
	verdict = regexp.MustCompile(`^\s*--- (FAIL|SKIP): `)
	place   = regexp.MustCompile(`^\s*\S+\.go:\d+: `)
)

// printWithoutFraming prints the output without the lines that -v adds. The verdict of a test comes first.
func printWithoutFraming(out io.Writer, output []string) {
	slices.SortStableFunc(output, func(a, b string) int {
		return cmp.Compare(len(verdict.FindString(b)), len(verdict.FindString(a)))
	})
	for _, line := range output {
		if !framing.MatchString(line) {
			fmt.Fprint(out, line)
		}
	}
}

// printSlow prints tests and how long they took, the slowest first.
func printSlow(out io.Writer, tests []event) {
	slices.SortFunc(tests, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range tests {
		fmt.Fprintf(out, "    %.0fs %s\n", e.Elapsed, e.Test)
	}
}

// reason returns the last output of a test before it was skipped.
func reason(output []string) string {
	said := ""
	for _, line := range output {
		if framing.MatchString(line) || verdict.MatchString(line) || strings.TrimSpace(line) == "" {
			continue
		}
		said = strings.TrimSpace(place.ReplaceAllString(line, ""))
	}
	if said == "" {
		return "no reason given"
	}
	return said
}
