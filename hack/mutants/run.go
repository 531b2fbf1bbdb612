// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Run runs the mutants whose guard, effect, file or tests match the regular expression in only, and prints a line for each. It returns an
// error if a mutant has another result than Fails, or if a test fails without any mutant.
func Run(ctx context.Context, root string, only *regexp.Regexp, out io.Writer) error {
	guards, err := readGuards(root)
	if err != nil {
		return err
	}
	return runGuards(ctx, root, guards, only, out)
}

func runGuards(ctx context.Context, root string, guards []guard, only *regexp.Regexp, out io.Writer) error {
	var jobs []job
	for _, g := range guards {
		if g.Without != "" && only.MatchString(g.String()) {
			fmt.Fprintf(out, "%s\n  no mutant: %s\n", g, g.Without)
		}
		for _, m := range g.Mutants {
			if j := (job{g, m}); only.MatchString(j.String()) {
				jobs = append(jobs, j)
			}
		}
	}
	if err := runUnchanged(ctx, root, jobs, out); err != nil {
		return err
	}
	var errs []error
	last := ""
	for _, j := range jobs {
		if guard := j.guard.String(); guard != last {
			fmt.Fprintln(out, guard)
			last = guard
		}
		if err := j.run(ctx, root, out); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprintf(out, "%d mutants, of which %d do not make their test fail\n", len(jobs), len(errs))
	return errors.Join(errs...)
}

// job is one mutant of a guard.
type job struct {
	guard  guard
	mutant Mutant
}

func (j job) String() string {
	return fmt.Sprintf("%s: %s", j.guard, j.mutant)
}

// run runs the mutant and prints the result, and the output of the test if the result is bad.
func (j job) run(ctx context.Context, root string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // It is a temporary directory.
	begun := time.Now()
	result, output, err := j.mutant.Run(ctx, root, dir)
	if err != nil {
		return fmt.Errorf("%s: %w", j, err)
	}
	fmt.Fprintf(out, "  %-9s %5.1fs  %s\n", result, time.Since(begun).Seconds(), j.mutant)
	if result == Fails {
		return nil
	}
	fmt.Fprintf(out, "The mutant:\n%s\nThe output of %s:\n%s\n", diff(j.mutant), j.mutant.Command, output)
	return fmt.Errorf("%s: %s", result, j)
}

// diff returns the change of a mutant as lines that begin with - and +.
func diff(m Mutant) string {
	prefixed := func(prefix, lines string) string {
		return prefix + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n"+prefix) + "\n"
	}
	return prefixed("-", m.Old) + prefixed("+", m.New)
}

// runUnchanged runs the tests of the jobs without the mutants: a test that fails in any case shows nothing.
func runUnchanged(ctx context.Context, root string, jobs []job, out io.Writer) error {
	tests := map[string][]string{} // by package
	for _, j := range jobs {
		pkg := j.mutant.pkg()
		tests[pkg] = append(tests[pkg], j.mutant.tests())
	}
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		slices.Sort(tests[pkg])
		output, err := goCommand(ctx, root, []string{"test", "-vet=off", pkg, "-run", strings.Join(slices.Compact(tests[pkg]), "|")})
		fmt.Fprint(out, output)
		if err != nil {
			return fmt.Errorf("tests of %s fail without any mutant: %w", pkg, err)
		}
	}
	return nil
}
