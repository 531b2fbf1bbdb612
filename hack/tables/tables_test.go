// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/glassback/glassback/pkg/must"
)

// TestTheTablesAreUpToDate makes the tables of all kinds and programs, so it also shows what a row of a field or of a flag looks like.
func TestTheTablesAreUpToDate(t *testing.T) {
	stale, err := documents(filepath.Join("..", "..", directory))
	must.Succeed(t, err)
	if len(stale) > 0 {
		t.Errorf("%v are out of date: run go run ./hack/tables, and commit the result", slices.Sorted(maps.Keys(stale)))
	}
}

func TestEveryDocumentHasOnePlaceForEachTable(t *testing.T) {
	const end = "stale\n<!-- end of fields -->\n"
	const spec, status = "<!-- fields of spec -->\n" + end, "<!-- fields of status -->\n" + end
	tables := fieldTables(&apiextensionsv1.JSONSchemaProps{})
	filled, err := fill("# Kind\n"+spec+"Text.\n"+status, tables)
	if err != nil || strings.Contains(filled, "stale") || strings.Count(filled, "| Field |") != 2 {
		t.Errorf("error %v, document:\n%s", err, filled)
	}
	for name, text := range map[string]string{
		"no place":                       "# Kind\n",
		"no place for status":            spec,
		"two places for spec":            spec + spec + status,
		"a place for another part":       spec + status + strings.Replace(status, "status", "metadata", 1),
		"a place that does not end":      spec + strings.TrimSuffix(status, "<!-- end of fields -->\n"),
		"a place with a beginning in it": strings.Replace(spec, end, "", 1) + status,
	} {
		if filled, err := fill(text, tables); err == nil {
			t.Errorf("%s: no error, document:\n%s", name, filled)
		}
	}
}

func TestADefaultOfAFlag(t *testing.T) {
	for usage, want := range map[string]string{
		"print it":                             "- | print it",
		"how many (default 16)":                "`16` | how many",
		`name (default "glassback")`:           "`glassback` | name",
		"where (default: all)":                 "all | where",
		`"json" (beta), "text". (default "t")`: "`t` | \"json\" (beta), \"text\".",
		"text|json":                            `- | text\|json`,
	} {
		if got := flagRow("--a", usage); got != "| `--a` | "+want+" |\n" {
			t.Errorf("%q: got %q", usage, got)
		}
	}
}
