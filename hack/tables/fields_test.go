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
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
)

func TestTheTablesAreUpToDate(t *testing.T) {
	stale, err := documents(filepath.Join("..", "..", directory))
	must.Succeed(t, err)
	if len(stale) > 0 {
		t.Errorf("%v are out of date: run go run ./hack/tables, and commit the result", slices.Sorted(maps.Keys(stale)))
	}
}

// parse returns a schema of YAML.
func parse(t *testing.T, text string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	schema := &apiextensionsv1.JSONSchemaProps{}
	must.Succeed(t, yaml.UnmarshalStrict([]byte(text), schema))
	return schema
}

func TestEveryDocumentHasOnePlaceForEachTable(t *testing.T) {
	const end = "\nstale\n<!-- end of fields -->\n"
	const spec, status = "<!-- fields of spec -->" + end, "<!-- fields of status -->" + end
	tables := fieldTables(parse(t, "{}"))
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
		"a place with a beginning in it": strings.Replace(spec, "stale\n<!-- end of fields -->\n", "", 1) + status,
	} {
		t.Run(name, func(t *testing.T) {
			if filled, err := fill(text, tables); err == nil {
				t.Errorf("no error, document:\n%s", filled)
			}
		})
	}
}

func TestARowDescribesItsField(t *testing.T) {
	for name, test := range map[string]struct{ field, want string }{
		"nothing but a type":        {"type: string", "string | - | -"},
		"a default":                 {"type: integer, default: 5", "integer | `5` | -"},
		"a default in quotes":       {"type: string, default: b", "string | `b` | -"},
		"an empty default":          {"type: object, default: {}", "object | - | -"},
		"values":                    {"type: string, enum: [B, C]", "string | - | `B`, `C`"},
		"a range":                   {"type: integer, minimum: 0, maximum: 9", "integer | - | 0 to 9"},
		"a minimum":                 {"type: integer, minimum: 1", "integer | - | at least 1"},
		"a maximum":                 {"type: integer, maximum: 9", "integer | - | at most 9"},
		"a length":                  {"type: string, maxLength: 9", "string | - | at most 9 characters"},
		"a time":                    {"type: string, format: date-time", "time | - | -"},
		"a number or a string":      {"x-kubernetes-int-or-string: true", "integer or string | - | -"},
		"a list":                    {"type: array, maxItems: 2, items: {type: string}", "list of strings | - | at most 2 entries"},
		"a list with limited items": {"type: array, items: {type: string, maxLength: 9}", "list of strings | - | each: at most 9 characters"},
		"a map":                     {"type: object, additionalProperties: {type: string}", "map of strings | - | -"},
		"a rule": {
			"type: string, maxLength: 9, x-kubernetes-validations: [{rule: r, message: must be short}]",
			"string | - | at most 9 characters; must be short",
		},
		"a rule that counts characters": {
			"type: string, maxLength: 9, x-kubernetes-validations: [{rule: r, message: must have 5 characters}]",
			"string | - | must have 5 characters",
		},
		"a rule of a field without a description": {
			"type: object, x-kubernetes-validations: [{rule: r, message: not now, fieldPath: .b.c}], properties: {b: {type: object}}",
			"object | - | `b.c`: not now",
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := "| `a` | " + test.want + " | It. |\n"
			if rows := specRows(t, "properties: {a: {description: It., "+test.field+"}}"); rows != want {
				t.Errorf("got %q, want %q", rows, want)
			}
		})
	}
}

// specRows returns the rows for a schema of spec.
func specRows(t *testing.T, schema string) string {
	t.Helper()
	_, rows, _ := strings.Cut(specTable(parse(t, "properties: {spec: {"+schema+"}}")), "|---|\n")
	return rows
}

func TestRowsOfAnObject(t *testing.T) {
	const field = "{type: string, description: Its.}"
	for name, test := range map[string]struct{ spec, want string }{
		"no field without a description": {"properties: {a: {type: string}}", ""},
		"a required field":               {"required: [a], properties: {a: " + field + "}", "| `a` | string | - | required | Its. |\n"},
		"fields of the items of a list": {
			"properties: {a: {type: array, description: They., items: {type: object, properties: {b: " + field + "}}}}",
			"| `a` | list of objects | - | - | They. |\n| `a[].b` | string | - | - | Its. |\n",
		},
		"a list before fields whose names begin with its name": {
			"properties: {a: {type: array, description: They., items: {type: object, properties: {b: " + field + "}}}, aA: " + field + "}",
			"| `a` | list of objects | - | - | They. |\n| `a[].b` | string | - | - | Its. |\n| `aA` | string | - | - | Its. |\n",
		},
		"a rule whose message is no limit": {
			"x-kubernetes-validations: [{rule: r, message: invalid a, fieldPath: .a}], properties: {a: " + field + "}",
			"| `a` | string | - | - | Its. |\n",
		},
		"a rule about another field": {
			"x-kubernetes-validations: [{rule: r, message: not now, fieldPath: .a}], properties: {a: " + field + "}",
			"| `a` | string | - | not now | Its. |\n",
		},
		"markup": {`properties: {a: {type: string, description: '*.<b> | "_"'}}`, `| ` + "`a`" + ` | string | - | - | \*.\<b> \| "\_" |` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if rows := specRows(t, test.spec); rows != test.want {
				t.Errorf("got\n%swant\n%s", rows, test.want)
			}
		})
	}
}

func TestTheNameHasARowIfItHasARule(t *testing.T) {
	got := specTable(parse(t, "x-kubernetes-validations: [{rule: r, message: name must be short, fieldPath: .metadata}]"))
	if want := "| `metadata.name` | string | - | must be short | the name of the object |\n"; !strings.HasSuffix(got, "|---|\n"+want) {
		t.Errorf("got\n%s", got)
	}
}

func TestStatusTable(t *testing.T) {
	got := statusTable(parse(t, "properties: {status: {properties: {role: {type: string, enum: [master, replica], description: role is it.}, "+
		"conditions: {type: array, description: They., items: {type: object, properties: {type: {type: string, description: It.}}}}}}}"))
	want := "| `conditions` | list of objects | They. |\n| `role` | string | role is it. One of `master`, `replica`. |\n"
	if !strings.HasSuffix(got, "|---|\n"+want) {
		t.Errorf("got\n%s", got)
	}
}
