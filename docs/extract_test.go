// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// Code in the documents is extracted from the source. The line before a block is its mark:
// it names a file, by the path from the root of the repository, and the part to quote.
//
//	<!-- code: pkg/loop/loop.go Loop.next -->
//	```go
//	```
//
// This command writes the code into the blocks:
//
//	go test ./docs -update
//
// Without -update, the test fails where a document and the source differ. A mark quotes whole lines. It can have these forms:
//
//	FILE.go New              the function, with its doc comment
//	FILE.go Loop.next        the method, of Loop or of *Loop
//	FILE.go Config           the type, or the const or var with all of its group
//	FILE.go package          the package clause, with the package's documentation
//	… lines "FIRST" "LAST"   of that, only the lines from the first one that begins with
//	                         FIRST to the next one that begins with LAST and is not
//	                         indented deeper: "}" is the brace that closes FIRST. The
//	                         indentation, and a "…" at the end of FIRST and LAST, are
//	                         ignored
//	… lines "FIRST"          that line alone
//	FILE                     the whole of any file; best with lines
//
// A block of Go without a mark must occur in the source (see TestQuotedCodeIsInTheSource).
// Prefer a mark: it names the place, and -update updates the block.
var update = flag.Bool("update", false, "write the code that the documents quote into them")

const marker = "<!-- code: "

// block matches a marked block: the mark, the fence, and the code. markForm matches the text of a mark.
var (
	block    = regexp.MustCompile("(?s)(<!-- code: ([^\n]*) -->\n```[a-z]+\n)(.*?)(```\n)")
	markForm = regexp.MustCompile(`^(\S+?)(?: ([A-Za-z_][\w.]*))??(?: lines ("(?:[^"\\]|\\.)*")(?: ("(?:[^"\\]|\\.)*"))?)?$`)
)

func TestMarkedCodeIsExtracted(t *testing.T) {
	for name, text := range documents(t) {
		if marks, blocks := strings.Count(text, "\n"+marker), len(block.FindAllString(text, -1)); marks != blocks {
			t.Errorf("%s: of %d marks of code, %d have a block of code on the next line", name, marks, blocks)
		}
		now := block.ReplaceAllStringFunc(text, func(old string) string {
			parts := block.FindStringSubmatch(old)
			code, err := extract("..", parts[2])
			if err != nil {
				t.Errorf("%s: %s: %v", name, parts[2], err)
				return old
			}
			if code != parts[3] && !*update {
				t.Errorf("%s: the code of %q differs from the source. Run: go test ./docs -update", name, parts[2])
			}
			return parts[1] + code + parts[4]
		})
		if *update && now != text {
			if err := os.WriteFile(name, []byte(now), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
}

// extract returns the code that a mark names. root is the root of the repository.
func extract(root, mark string) (string, error) {
	parts := markForm.FindStringSubmatch(mark)
	if parts == nil {
		return "", fmt.Errorf(`not of the form FILE NAME lines "FIRST" "LAST"`)
	}
	file, name, first, last := parts[1], parts[2], parts[3], parts[4]
	source, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return "", err
	}
	if name != "" {
		if source, err = declaration(source, name); err != nil {
			return "", err
		}
	}
	if first == "" {
		return string(source), nil
	}
	return fragment(string(source), first, last)
}

// declaration returns the lines of source that declare name.
func declaration(source []byte, name string) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := func(doc *ast.CommentGroup, from, to token.Pos) []byte {
		if doc != nil {
			from = doc.Pos()
		}
		start, end := files.Position(from).Offset, files.Position(to).Offset
		if rest := bytes.IndexByte(source[end:], '\n'); rest >= 0 {
			end += rest + 1 // A comment at the end of the last line belongs to it.
		}
		return source[start:end]
	}
	if name == "package" {
		return lines(file.Doc, file.Package, file.Name.End()), nil
	}
	for _, declared := range file.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			if qualified(d) == name {
				return lines(d.Doc, d.Pos(), d.End()), nil
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if declares(spec, name) {
					return lines(d.Doc, d.Pos(), d.End()), nil
				}
			}
		}
	}
	return nil, fmt.Errorf("the file declares no %s", name)
}

// qualified returns the name of a function, or TYPE.NAME of a method.
func qualified(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name + "." + function.Name.Name
		default:
			return function.Name.Name
		}
	}
}

func declares(spec ast.Spec, name string) bool {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Name.Name == name
	case *ast.ValueSpec:
		for _, declared := range s.Names {
			if declared.Name == name {
				return true
			}
		}
	}
	return false
}

// fragment returns the lines of code from the one that begins with first to the one that begins
// with last. Both are quoted. Without last, it returns only the first line.
func fragment(code, first, last string) (string, error) {
	first, err := beginning(first)
	if err != nil {
		return "", err
	}
	all := strings.SplitAfter(code, "\n")
	from := 0
	for ; ; from++ {
		if from == len(all) {
			return "", fmt.Errorf("no line begins with %q", first)
		}
		if strings.HasPrefix(strings.TrimLeft(all[from], " \t"), first) {
			break
		}
	}
	if last == "" {
		return all[from], nil
	}
	if last, err = beginning(last); err != nil {
		return "", err
	}
	for to := from + 1; to < len(all); to++ {
		line := strings.TrimLeft(all[to], " \t")
		if strings.HasPrefix(line, last) && len(all[to])-len(line) <= len(all[from])-len(strings.TrimLeft(all[from], " \t")) {
			return strings.Join(all[from:to+1], ""), nil
		}
	}
	return "", fmt.Errorf("no line that begins with %q, and is not indented deeper, follows %q", last, first)
}

func beginning(quoted string) (string, error) {
	text, err := strconv.Unquote(quoted)
	text = strings.TrimSuffix(text, "…")
	if err == nil && text == "" {
		err = errors.New("FIRST and LAST must not be empty")
	}
	return text, err
}

func TestExtract(t *testing.T) {
	const source = `// Package p is for this test.
package p

// The numbers.
const (
	one = 1
	two = 2 // of two
)

// T is a type.
type T[A any] struct {
	a A
}

// Do does it.
func (t *T[A]) Do(yes bool) {
	// For a reason:
	if yes {
		for range 2 {
			println("yes")
		}
	}
}

func Do() {}
`
	root := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(root, "p.go"), []byte(source), 0o644))
	for sentence, test := range map[string]struct{ mark, want, err string }{
		"a function":              {mark: "p.go Do", want: "func Do() {}\n"},
		"a type with its comment": {mark: "p.go T", want: "// T is a type.\ntype T[A any] struct {\n\ta A\n}\n"},
		"a constant with all of its block": {
			mark: "p.go two", want: "// The numbers.\nconst (\n\tone = 1\n\ttwo = 2 // of two\n)\n",
		},
		"a package's documentation": {mark: "p.go package", want: "// Package p is for this test.\npackage p\n"},
		"a method's lines to the same depth": {
			mark: `p.go T.Do lines "if yes" "}"`, want: "\tif yes {\n\t\tfor range 2 {\n\t\t\tprintln(\"yes\")\n\t\t}\n\t}\n",
		},
		"an ellipsis at the end of a line is ignored": {
			mark: `p.go T.Do lines "// For…" "if…"`, want: "\t// For a reason:\n\tif yes {\n",
		},
		"one line, with quotes in it": {mark: `p.go T.Do lines "println(\"yes\")"`, want: "\t\t\tprintln(\"yes\")\n"},
		"a line of a file":            {mark: `p.go lines "package"`, want: "package p\n"},
		"the whole file":              {mark: "p.go", want: source},
		"nothing of that name":        {mark: "p.go Undo", err: "the file declares no Undo"},
		"no such line":                {mark: `p.go T.Do lines "if no"`, err: `no line begins with "if no"`},
		"no such end": {
			mark: `p.go T.Do lines "if yes" "println"`,
			err:  `no line that begins with "println", and is not indented deeper, follows "if yes"`,
		},
		"an empty line": {mark: `p.go T.Do lines ""`, err: "FIRST and LAST must not be empty"},
		"not a mark":    {mark: `p.go T.Do from "if"`, err: `not of the form FILE NAME lines "FIRST" "LAST"`},
		"no such file":  {mark: "q.go T", err: "open " + filepath.Join(root, "q.go") + ": no such file or directory"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := extract(root, test.mark)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("got %q and %v, want %q", got, err, test.want)
			}
		})
	}
}
