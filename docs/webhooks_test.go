// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

// TestTheLimitsOfWebhooks holds the numbers in webhooks.md against the constants of pkg/webhook.
func TestTheLimitsOfWebhooks(t *testing.T) {
	text, err := os.ReadFile("webhooks.md")
	must.Succeed(t, err)
	limit := constantsOf(t, "../pkg/webhook", "limits.go", "shares.go", "kind.go", "decode.go")
	times := map[int64]string{2: "twice", 3: "three times", 4: "four times"}
	share := float64(limit("shippedMemory")) / 5 / (1 << 20)
	for _, want := range []string{
		fmt.Sprintf("| connections | %d | %d | 1 |", limit("maxConnections"), limit("maxConnections")/2),
		fmt.Sprintf("| bodies | %.0f MiB, a fifth | about %.0f MiB | %s its length |", share, share/2, times[limit("bodyCopies")]),
		fmt.Sprintf("| decoded objects | %.0f MiB, a fifth | about %.0f MiB | %d KiB, %s its length, and %s its structs, lists and maps |",
			share, share/2, limit("reviewSize")>>10, times[limit("objectCopies")], times[limit("expandedCopies")]),
		fmt.Sprintf("other %d MiB", limit("shippedMemory")>>20),
		fmt.Sprintf("**%d,%03d,%03d bytes.**", limit("maxBody")/1e6, limit("maxBody")/1e3%1e3, limit("maxBody")%1e3),
		fmt.Sprintf("**%d MiB of structs, lists and maps**", limit("maxExpanded")>>20),
		fmt.Sprintf("at most %d KiB of errors", limit("maxErrors")>>10),
		fmt.Sprintf("at most %d,%03d bytes of a value", limit("maxText")/1e3, limit("maxText")%1e3),
	} {
		if !strings.Contains(strings.ReplaceAll(string(text), "\n", " "), want) {
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
