// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs has only tests: they compare the documents with the code, the manifests and the tests that the documents describe.
package docs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glassback/glassback/docs/commands"
	"github.com/glassback/glassback/hack/mutants"
	"github.com/glassback/glassback/pkg/must"
)

var (
	quotes  = regexp.MustCompile("(?s)```go\n(.*?)```\n")
	fences  = regexp.MustCompile("(?ms)^```.*?^```\n")
	links   = regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	symbol  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

func TestQuotedCodeIsInTheSource(t *testing.T) {
	code := sources(t, "../pkg", ".go") + sources(t, "sixth", ".go")
	for name, text := range documents(t) {
		// TestMarkedCodeIsExtracted compares the marked blocks.
		for _, quote := range quotes.FindAllStringSubmatch(block.ReplaceAllString(foreign.ReplaceAllString(text, ""), ""), -1) {
			if !strings.Contains(code, quote[1]) {
				t.Errorf("%s quotes code that is in no file of pkg or docs/sixth:\n%s", name, quote[1])
			}
		}
	}
}

// foreign matches a block of code for controller-runtime, in from-kubebuilder.md. The repository does not contain that code.
//
//	<!-- controller-runtime -->
var foreign = regexp.MustCompile("(?s)<!-- controller-runtime -->\n```go\n(.*?)```\n")

func TestLinkedFilesAndSectionsExist(t *testing.T) {
	sections := map[string][]string{} // of each linked file
	for name, text := range documents(t) {
		for _, link := range links.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			file, section := name, link[2]
			if strings.Contains(link[1], "://") {
				continue
			} else if link[1] != "" {
				file = filepath.Join(filepath.Dir(name), link[1])
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", name, link[1], err)
				continue
			}
			if section != "" && sections[file] == nil {
				sections[file] = anchors(readFile(t, file))
			}
			if section != "" && !slices.Contains(sections[file], section) {
				t.Errorf("%s links to %s#%s, and there is no such section", name, link[1], section)
			}
		}
	}
}

// anchors returns the names of a document's headings in links, as GitHub forms them.
func anchors(document string) (all []string) {
	for _, found := range heading.FindAllStringSubmatch(fences.ReplaceAllString(document, ""), -1) {
		name := symbol.ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// TestNamedTestsExist looks for the tests that a document names as evidence.
func TestNamedTestsExist(t *testing.T) {
	name, tests := regexp.MustCompile("`(Test[A-Z]\\w+)`"), testNames(t)
	for document, text := range documents(t) {
		for _, test := range name.FindAllStringSubmatch(text, -1) {
			if !tests[test[1]] {
				t.Errorf("%s names %s, and there is no such test", document, test[1])
			}
		}
	}
}

// TestNamedTargetsExist looks for the make targets that sentences name. TestEveryCommandInTheDocuments runs those in blocks.
func TestNamedTargetsExist(t *testing.T) {
	target, makefile := regexp.MustCompile("`make ([a-z][a-z0-9-]*)[^`]*`"), readFile(t, "../Makefile")
	for name, text := range documents(t) {
		for _, found := range target.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			if !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s names make %s, and the Makefile has no such target", name, found[1])
			}
		}
	}
}

// documents returns the text of each document by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{
		"*.md", "../README*.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md", "../artifacts/chart/README.md",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no documents %s: %v", pattern, err)
		}
		for _, name := range names {
			texts[name] = readFile(t, name)
		}
	}
	return texts
}

// testNames returns the names of all tests in the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, root := range []string{"../pkg", "../hack", "../artifacts", "."} {
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(sources(t, root, "_test.go"), -1) {
			names[test[1]] = true
		}
	}
	return names
}

// sources returns the text of all files below a directory whose names end like this.
func sources(t *testing.T, root, suffix string) string {
	t.Helper()
	var all strings.Builder
	must.Succeed(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, suffix) {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	}))
	return all.String()
}

// readFile returns the text of a file.
func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.Succeed(t, err)
	return string(data)
}

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
	name, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(function.Recv.List[0].Type), "*"), "[")
	return name + "." + function.Name.Name
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

// TestImportsPointDownTheTable holds the packages against the table in architecture.md: each is in a row, and imports only what is in a row
// below, or in its own, where that is part of it. Generated code, which is for everybody, imports the types.
func TestImportsPointDownTheTable(t *testing.T) {
	text := readFile(t, "architecture.md")
	var rows [][]string // the beginnings of paths, from the top
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*\bpkg/[^|]*) \|`).FindAllStringSubmatch(text, -1) {
		var paths []string
		for _, path := range regexp.MustCompile(`(?:^|\[|, )(pkg/[a-z/]+[a-z])`).FindAllStringSubmatch(row[1], -1) {
			paths = append(paths, path[1])
		}
		rows = append(rows, paths)
	}
	rowOf := func(pkg string) (int, string) { // that with the longest path
		row, longest := -1, ""
		for i, paths := range rows {
			for _, path := range paths {
				if (pkg == path || strings.HasPrefix(pkg, path+"/")) && len(path) > len(longest) {
					row, longest = i, path
				}
			}
		}
		return row, longest
	}
	controllerOf := func(pkg string) string { // "" for another package
		rest, is := strings.CutPrefix(pkg, "pkg/controller/")
		if !is {
			return ""
		}
		name, _, _ := strings.Cut(rest, "/")
		return name
	}
	err := filepath.WalkDir("../pkg", func(file string, _ fs.DirEntry, err error) error {
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(pkg, "pkg/generated") {
			return err
		}
		row, part := rowOf(pkg)
		if row < 0 {
			t.Errorf("%s is in no row of the table", pkg)
			return fs.SkipDir
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, own := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/glassback/glassback/")
			if to, of := rowOf(imported); own && strings.HasPrefix(imported, "pkg/") &&
				(to < row || to == row && (of != part || part == "pkg/controller")) {
				t.Errorf("%s imports %s, which is not below it in the table", file, imported)
			}
			if mine, its := controllerOf(pkg), controllerOf(imported); own && mine != "" && its != "" && mine != its {
				t.Errorf("%s imports %s, which belongs to another controller", file, imported)
			}
		}
		return nil
	})
	must.Succeed(t, err)
	if len(rows) < 10 {
		t.Errorf("the table has %d rows", len(rows))
	}
}

// TestEveryCommandHasAnEntry compares the documents with commands.yaml, and checks that each runBy of an entry runs the block.
func TestEveryCommandHasAnEntry(t *testing.T) {
	all, err := commands.Read("..")
	must.Succeed(t, err)
	run := map[string][]string{} // the commands of each document that run
	for _, d := range all {
		for _, b := range d.Blocks {
			for _, c := range b.Commands {
				if !b.Skipped() {
					run[d.Name] = append(run[d.Name], c.Plain())
				}
			}
		}
	}
	tests := testNames(t)
	runs := func(by, command string) bool {
		target, isTarget := strings.CutPrefix(by, "make ")
		switch {
		case strings.HasPrefix(by, "Test"):
			return tests[by]
		case strings.HasSuffix(by, ".md"):
			return slices.Contains(run[by], command)
		case isTarget: // The command is make with prerequisites of the target.
			rule := regexp.MustCompile(`(?m)^` + target + `: ([^#\n]*)`).FindString(readFile(t, "../Makefile"))
			words := strings.Fields(command)
			return words[0] == "make" && !slices.ContainsFunc(words[1:], func(word string) bool {
				return !slices.Contains(strings.Fields(rule), word)
			})
		}
		return strings.Contains(readFile(t, "../"+by), command)
	}
	for _, d := range all {
		for _, b := range d.Blocks {
			for _, by := range b.RunBy {
				for _, c := range b.Commands {
					if !runs(by, c.Plain()) {
						t.Errorf("%s has runBy: %s, which does not run: %s", b.Name, by, c.Text)
					}
				}
			}
		}
	}
}

// TestEveryExperimentFails runs the mutants in the documents: the tests that they name must fail.
func TestEveryExperimentFails(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the mutants")
	}
	root, err := filepath.Abs("..")
	must.Succeed(t, err)
	for name, text := range documents(t) {
		experiments, err := mutants.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasSuffix(name, ".zh.md") {
			continue // A translation has the experiments of its original.
		}
		for _, m := range experiments {
			t.Run(m.File+", "+m.Command, func(t *testing.T) {
				if result, output, err := m.Run(t.Context(), root); err != nil || result != mutants.Fails {
					t.Errorf("the test does not fail: %s, error %v\n%s", result, err, output)
				}
			})
		}
	}
}

// clientGo matches functions of client-go in the tables of informer.md: a file, and the functions in it.
var clientGo = regexp.MustCompile("`([a-z]+(?:/[a-z]+)*/\\w+\\.go)`: (`[\\w.]+`(?:, `[\\w.]+`)*)")

// TestClientGoHasTheNamedFunctions looks for the functions that informer.md names in the client-go of go.mod.
func TestClientGoHasTheNamedFunctions(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "k8s.io/client-go").Output()
	must.Succeed(t, err)
	root, version, _ := strings.Cut(strings.TrimSpace(string(dir)), " ")
	text := readFile(t, "informer.md")
	columns := regexp.MustCompile(`(?m)^\| our code \| client-go (\S+) \|`).FindAllStringSubmatch(text, -1)
	for _, column := range columns {
		if !strings.HasPrefix(version, "v0."+strings.TrimPrefix(column[1], "0.")+".") {
			t.Errorf("a table is about client-go %s, and go.mod has %s", column[1], version)
		}
	}
	found := clientGo.FindAllStringSubmatch(text, -1)
	if len(columns) != 8 || len(found) < len(columns) {
		t.Errorf("%d tables name functions in %d files", len(columns), len(found))
	}
	for _, file := range found {
		source, err := os.ReadFile(filepath.Join(root, file[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		for function := range strings.SplitSeq(file[2], ", ") {
			if _, err := declaration(source, strings.Trim(function, "`")); err != nil {
				t.Errorf("%s: %s: %v", file[1], function, err)
			}
		}
	}
}

// named matches the places where a file names the version of Glassback: the tag of an image, a kustomization's newTag, the version of a
// chart, of a program or of a release, and the names of released files.
var named = regexp.MustCompile(`glassback:(v\d+\.\d+\.\d+)|newTag: (v\d+\.\d+\.\d+)|"version": "(v\d+\.\d+\.\d+)"|` +
	`(?m:^version: (\d+\.\d+\.\d+)$)|(?m:^appVersion: (\S+)$)|glassback-(v?\d+\.\d+\.\d+)[.-]|` +
	`VERSION=(v\d+\.\d+\.\d+)|releases/download/(v\d+\.\d+\.\d+)/`)

// TestEveryFileNamesTheSameVersion compares the chart, the documents, their e2e test, the manifests and the examples with the first
// section of CHANGELOG.md.
func TestEveryFileNamesTheSameVersion(t *testing.T) {
	_, rest, _ := strings.Cut(readFile(t, "../CHANGELOG.md"), "\n## ")
	version, _, _ := strings.Cut(rest, "\n")
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(version) {
		t.Fatalf("the first section of CHANGELOG.md is %q, not a version", version)
	}
	places := map[string]int{}
	for name, text := range versioned(t) {
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			places[name]++
			if got := strings.Join(found[1:], ""); "v"+strings.TrimPrefix(got, "v") != version {
				t.Errorf("%s has %q, and the first section of CHANGELOG.md is %s", name, found[0], version)
			}
			if strings.HasPrefix(found[0], "appVersion") && found[5] != version {
				t.Errorf("%s has %q: the tag of the image is %s", name, found[0], version)
			}
		}
	}
	for name, least := range map[string]int{
		"../artifacts/chart/Chart.yaml": 3, "../README.md": 2, "install.md": 6, "release.md": 2, "kubectl.md": 1, "commands.yaml": 6,
		"../artifacts/default/kustomization.yaml": 1, "../hack/devcluster/e2e/docs_session_test.go": 1,
	} {
		if places[name] < least {
			t.Errorf("%s names the version at %d places: the pattern of this test does not find them", name, places[name])
		}
	}
}

// versioned returns the text of each file that may name the version, by its path.
func versioned(t *testing.T) map[string]string {
	t.Helper()
	texts := documents(t)
	delete(texts, "../CHANGELOG.md") // Its sections are of several versions.
	for _, name := range []string{"commands.yaml", "../hack/devcluster/e2e/docs_session_test.go"} {
		texts[name] = readFile(t, name)
	}
	must.Succeed(t, filepath.WalkDir("../artifacts", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path, filepath.Join("..", "artifacts", "examples", "bad")) {
			return err
		}
		if extension := filepath.Ext(path); extension == ".yaml" || extension == ".md" || extension == ".tpl" {
			texts[path] = readFile(t, path)
		}
		return nil
	}))
	return texts
}

// TestTheLimitsOfWebhooks holds the numbers in webhooks.md against the constants of pkg/webhook.
func TestTheLimitsOfWebhooks(t *testing.T) {
	text := readFile(t, "webhooks.md")
	limit := constantsOf(t, "../pkg/webhook", "limits.go", "bounded.go", "decode.go")
	thousands := func(name string) string { return fmt.Sprintf("%d,%03d", limit(name)/1e3, limit(name)%1e3) }
	for _, want := range []string{
		fmt.Sprintf("| connections | %d | %d |", limit("maxConnections"), limit("maxConnections")/2),
		fmt.Sprintf("| bodies of more than %d KiB | %d MiB | %d MiB |",
			limit("smallBody")>>10, limit("bodiesMemory")>>20, limit("bodiesMemory")>>21),
		fmt.Sprintf("| decoded requests | %d MiB | %d MiB |", limit("reviewsMemory")>>20, limit("reviewsMemory")>>21),
		fmt.Sprintf("counts %d KiB, %d times the length of its body, and %d KiB for each value",
			limit("reviewSize")>>10, limit("copies"), limit("valueSize")>>10),
		fmt.Sprintf("counts %d MiB like a body", limit("parentSize")>>20),
		fmt.Sprintf("**%d,%03d,%03d bytes.**", limit("maxBody")/1e6, limit("maxBody")/1e3%1e3, limit("maxBody")%1e3),
		"**" + thousands("maxValues") + " values**",
		"at most " + thousands("maxText") + " bytes of a value",
	} {
		if !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) {
			t.Errorf("webhooks.md does not say: %s", want)
		}
	}
}

// constantsOf returns a function that returns the value of a constant which the files declare without their imports.
func constantsOf(t *testing.T, dir string, names ...string) func(name string) int64 {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		must.Succeed(t, err)
		files = append(files, file)
	}
	config := types.Config{Error: func(error) {}, IgnoreFuncBodies: true}
	pkg, _ := config.Check(dir, set, files, nil) // It reports the imports, which are not there.
	return func(name string) int64 {
		t.Helper()
		declared, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok {
			t.Fatalf("%s declares no constant %s", dir, name)
		}
		value, ok := constant.Int64Val(declared.Val())
		if !ok {
			t.Fatalf("%s of %s is %s", name, dir, declared.Val())
		}
		return value
	}
}
