// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutants takes guards of the promises of docs/architecture.md out of the code, one at a time, and runs a test that must
// fail without the guard. Its program is hack/mutants/cmd. The documents in docs contain mutants too, as experiments for their readers.
package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mutant is a change of one declaration, and the test that must fail with it. It names no file and no line, so that code can move.
type Mutant struct {
	Effect string
	// In is a package below pkg and a function, a method (Type.method) or a variable of it; or one file that is not Go.
	In string
	// Test is a package below pkg and a test of it.
	Test string
	// Old is code that the declaration has exactly once; white space matches any other. New replaces it.
	Old, New string
}

// String returns the effect, where the change is, and the test.
func (m Mutant) String() string { return fmt.Sprintf("%s (%s; %s)", m.Effect, m.In, m.Test) }

// withRedis are the tests that start redis-servers, which make redis-worlds runs. All others are run as make unit does: with -short.
var withRedis = []string{
	"TestUsersThatAreOff", "TestBackupAndRestore", "TestBackupOfAClusterThatChanges", "TestAFailoverEndsLate",
}

// args returns the arguments of go test that run the test.
func (m Mutant) args() []string { return append(m.flags(), "-run", "^"+m.test()+"$") }

func (m Mutant) test() string { return strings.Fields(m.Test)[1] }

func (m Mutant) flags() []string {
	flags := []string{"./pkg/" + strings.Fields(m.Test)[0]}
	if !slices.Contains(withRedis, m.test()) {
		flags = append(flags, "-short")
	}
	return flags
}

// Run runs all mutants that match only, as many at once as there are processors, and writes a line for each to out. It returns an error
// if a mutant cannot be applied, or if its test does not fail. Before, the tests must pass without any mutant.
func Run(ctx context.Context, root string, only *regexp.Regexp, out io.Writer) error {
	mutants := slices.DeleteFunc(slices.Clone(table), func(m Mutant) bool { return !only.MatchString(m.String()) })
	if err := runUnchanged(ctx, root, mutants); err != nil {
		return err
	}
	var (
		mu      sync.Mutex
		errs    []error
		workers sync.WaitGroup
		todo    = make(chan Mutant)
	)
	for range runtime.NumCPU() {
		workers.Go(func() {
			for m := range todo {
				begun := time.Now()
				result, output, err := m.run(ctx, root)
				mu.Lock()
				fmt.Fprintf(out, "%-9s %5.1fs  %s\n", result, time.Since(begun).Seconds(), m)
				if err == nil && result != Fails {
					err = fmt.Errorf("%s\n%s", result, output)
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", m, err))
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range mutants {
		if ctx.Err() == nil {
			todo <- m
		}
	}
	close(todo)
	workers.Wait()
	fmt.Fprintf(out, "%d mutants, of which %d do not make their test fail\n", len(mutants), len(errs))
	return errors.Join(append(errs, ctx.Err())...)
}

// runUnchanged runs the tests of the mutants, those of a package at once.
func runUnchanged(ctx context.Context, root string, mutants []Mutant) error {
	tests := map[string][]string{} // by flags
	for _, m := range mutants {
		flags := strings.Join(m.flags(), " ")
		tests[flags] = append(tests[flags], m.test())
	}
	for flags, tests := range tests {
		args := append(strings.Fields(flags), "-run", "^("+strings.Join(tests, "|")+")$")
		if output, err := goTest(ctx, root, args...); err != nil {
			return fmt.Errorf("tests fail without any mutant: %w\n%s", err, output)
		}
	}
	return nil
}

func (m Mutant) run(ctx context.Context, root string) (Result, string, error) {
	file, source, err := m.apply(root)
	if err != nil {
		return NotApplied, "", err
	}
	return runChanged(ctx, root, file, source, m.args())
}

// apply returns the file, and its source with the change.
func (m Mutant) apply(root string) (file, source string, err error) {
	pkg, name, isGo := strings.Cut(m.In, " ")
	files := []string{filepath.Join(root, "pkg", pkg)}
	if isGo {
		if files, err = filepath.Glob(filepath.Join(root, "pkg", pkg, "*.go")); err != nil {
			return "", "", err
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		begin, end := 0, len(data)
		if isGo {
			if begin, end, err = find(data, name); err != nil {
				return "", "", err
			}
		}
		if begin == end {
			continue
		}
		fields := strings.Fields(m.Old)
		for i := range fields {
			fields[i] = regexp.QuoteMeta(fields[i])
		}
		found := regexp.MustCompile(strings.Join(fields, `\s+`)).FindAllIndex(data[begin:end], -1)
		if len(found) != 1 {
			return "", "", fmt.Errorf("%s has this %d times, want once: %s", m.In, len(found), m.Old)
		}
		return file, string(data[:begin+found[0][0]]) + m.New + string(data[begin+found[0][1]:]), nil
	}
	return "", "", fmt.Errorf("there is no %s", m.In)
}

// find returns where the declaration is in the source; both are 0 if it is not.
func find(source []byte, name string) (begin, end int, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	for _, decl := range parsed.Decls {
		if slices.Contains(names(decl), name) {
			return files.Position(decl.Pos()).Offset, files.Position(decl.End()).Offset, nil
		}
	}
	return 0, 0, nil
}

// names returns what the declaration declares: functions, methods as Type.method, and variables.
func names(decl ast.Decl) []string {
	var all []string
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool { // The first identifier is the type, and the others are its parameters.
				id, ok := n.(*ast.Ident)
				if ok {
					all = append(all, id.Name+"."+name)
				}
				return true
			})
			return all[:1]
		}
		return []string{name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				for _, id := range values.Names {
					all = append(all, id.Name)
				}
			}
		}
	}
	return all
}

// Result is the outcome of the test of a mutant.
type Result string

// The results. Only Fails shows that the test needs the guard.
const (
	Fails      Result = "fails"
	Survives   Result = "SURVIVES"
	Broken     Result = "NO BUILD"
	TimesOut   Result = "TIMES OUT"
	Panics     Result = "PANICS"
	NotApplied Result = "NO CHANGE"
)

// runChanged runs go test with the arguments; the compiler reads source instead of the file. It also returns the output.
func runChanged(ctx context.Context, root, file, source string, args []string) (Result, string, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // It is a temporary directory.
	copied, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: copied}})
	if err != nil {
		return "", "", err
	}
	for name, data := range map[string][]byte{copied: []byte(source), overlay: replace} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return "", "", err
		}
	}
	output, err := goTest(ctx, root, append([]string{"-overlay", overlay, "-failfast", "-timeout", "10m"}, args...)...)
	if err == nil {
		return Survives, output, nil
	}
	return resultOf(output), output, ctx.Err()
}

// goTest runs go test in root, and returns its output. What it builds only has to compile, and no debugger reads it.
func goTest(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-ldflags=-s -w"}, args...)...)
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
