// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/glassback/glassback/artifacts/crd"
)

// addFieldTables adds the tables of fields to the documents of the resources. The name of each document begins with the singular name of
// its resource: a translation has the same tables.
func addFieldTables(all map[string]tables, directory string) error {
	definitions, err := crd.All()
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		files, err := filepath.Glob(filepath.Join(directory, definition.Spec.Names.Singular+"*.md"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("look for a document of %s: %d found: %w", definition.Name, len(files), err)
		}
		for _, file := range files {
			all[file] = fieldTables(definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
		}
	}
	return nil
}

func fieldTables(schema *apiextensionsv1.JSONSchemaProps) tables {
	return tables{
		"fields of spec":   func() (string, error) { return specTable(schema), nil },
		"fields of status": func() (string, error) { return statusTable(schema), nil },
	}
}

// specTable returns the table of the fields that users set. The rules of the object's name are in its first row.
func specTable(schema *apiextensionsv1.JSONSchemaProps) string {
	listed := fields("spec", schema)
	messages := rules(schema, append([]string{"metadata.name"}, paths(listed)...))
	var table strings.Builder
	table.WriteString("| Field | Type | Default | Limits | Description |\n|---|---|---|---|---|\n")
	if limits := messages["metadata.name"]; len(limits) > 0 {
		table.WriteString(row("`metadata.name`", "string", "-", prose(strings.TrimPrefix(limits[0], "name ")), "the name of the object"))
	}
	for _, f := range listed {
		limits := "-"
		if all := append(f.limits(messages[f.path]), messages[f.path]...); len(all) > 0 {
			limits = strings.Join(all, "; ")
		}
		table.WriteString(row(f.name(), typeOf(f.schema), f.defaultValue(), prose(limits), prose(f.schema.Description)))
	}
	return table.String()
}

// statusTable returns the table of the fields that the operator sets.
func statusTable(schema *apiextensionsv1.JSONSchemaProps) string {
	var table strings.Builder
	table.WriteString("| Field | Type | Description |\n|---|---|---|\n")
	for _, f := range fields("status", schema) {
		description := f.schema.Description
		if values := enum(f.schema); values != "" {
			description += " One of " + values + "."
		}
		table.WriteString(row(f.name(), typeOf(f.schema), prose(description)))
	}
	return table.String()
}

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// field is a field with a description. The fields of Kubernetes' own types have none, and are in no table.
type field struct {
	path     string // from the object on, such as spec.env[].name
	schema   apiextensionsv1.JSONSchemaProps
	required bool
}

// fields returns the fields below a part of an object, in the order of their paths.
func fields(path string, object *apiextensionsv1.JSONSchemaProps) []field {
	part := object.Properties[path]
	return below(path, &part)
}

func below(path string, object *apiextensionsv1.JSONSchemaProps) []field {
	var all []field
	for name, schema := range object.Properties {
		if schema.Description == "" {
			continue
		}
		f := field{path: path + "." + name, schema: schema, required: slices.Contains(object.Required, name)}
		all = append(all, f)
		if f.path == "status.conditions" {
			continue // They have a table of their own.
		}
		all = append(all, below(f.path, &schema)...)
		if schema.Items != nil {
			all = append(all, below(f.path+"[]", schema.Items.Schema)...)
		}
	}
	slices.SortFunc(all, func(a, b field) int { return strings.Compare(order.Replace(a.path), order.Replace(b.path)) })
	return all
}

// order puts the fields of an object, and of the elements of a list, right after it.
var order = strings.NewReplacer("[]", "", ".", "\x00")

func paths(all []field) []string {
	var paths []string
	for _, f := range all {
		paths = append(paths, f.path)
	}
	return paths
}

// name returns the path below spec or status, as code.
func (f *field) name() string {
	_, name, _ := strings.Cut(f.path, ".")
	return "`" + name + "`"
}

func typeOf(schema apiextensionsv1.JSONSchemaProps) string {
	switch {
	case schema.XIntOrString:
		return "integer or string"
	case schema.Format == "date-time":
		return "time"
	case schema.Items != nil:
		return "list of " + typeOf(*schema.Items.Schema) + "s"
	case schema.AdditionalProperties != nil:
		return "map of " + typeOf(*schema.AdditionalProperties.Schema) + "s"
	default:
		return schema.Type
	}
}

func (f *field) defaultValue() string {
	if f.schema.Default == nil || string(f.schema.Default.Raw) == "{}" {
		return "-"
	}
	return "`" + strings.Trim(string(f.schema.Default.Raw), `"`) + "`"
}

// limits returns the limits of a field besides its rules.
func (f *field) limits(messages []string) []string {
	var all []string
	if f.required {
		all = append(all, "required")
	}
	all = append(all, limits(f.schema, messages)...)
	for _, each := range []*apiextensionsv1.JSONSchemaProps{element(f.schema), value(f.schema)} {
		if each == nil || each.Type == "object" {
			continue
		}
		var own []string
		for _, rule := range each.XValidations {
			own = append(own, rule.Message)
		}
		if own = append(limits(*each, own), own...); len(own) > 0 {
			all = append(all, "each: "+strings.Join(own, ", "))
		}
	}
	return all
}

func element(schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.Items == nil {
		return nil
	}
	return schema.Items.Schema
}

func value(schema apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.AdditionalProperties == nil {
		return nil
	}
	return schema.AdditionalProperties.Schema
}

// limits returns the limits that a schema has without rules. A rule that counts characters is stricter than maxLength.
func limits(schema apiextensionsv1.JSONSchemaProps, messages []string) []string {
	var all []string
	if values := enum(schema); values != "" {
		all = append(all, values)
	}
	switch {
	case schema.Minimum != nil && schema.Maximum != nil:
		all = append(all, fmt.Sprintf("%.0f to %.0f", *schema.Minimum, *schema.Maximum))
	case schema.Minimum != nil:
		all = append(all, fmt.Sprintf("at least %.0f", *schema.Minimum))
	case schema.Maximum != nil:
		all = append(all, fmt.Sprintf("at most %.0f", *schema.Maximum))
	}
	if schema.MaxLength != nil && !strings.Contains(strings.Join(messages, " "), " characters") {
		all = append(all, fmt.Sprintf("at most %d characters", *schema.MaxLength))
	}
	for _, most := range []*int64{schema.MaxItems, schema.MaxProperties} {
		if most != nil {
			all = append(all, fmt.Sprintf("at most %d entries", *most))
		}
	}
	return all
}

func enum(schema apiextensionsv1.JSONSchemaProps) string {
	var values []string
	for _, value := range schema.Enum {
		values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
	}
	return strings.Join(values, ", ")
}

// rules returns the messages of the rules of an object, by the paths of the listed fields. A rule of an unlisted field belongs to the
// nearest listed field above it.
func rules(object *apiextensionsv1.JSONSchemaProps, listed []string) map[string][]string {
	messages := map[string][]string{}
	var collect func(path string, schema *apiextensionsv1.JSONSchemaProps)
	collect = func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range schema.XValidations {
			target, message := strings.TrimPrefix(path+rule.FieldPath, "."), rule.Message
			if strings.HasPrefix(message, "invalid ") {
				continue // The message does not say which values are valid.
			}
			if target == "metadata" {
				target = "metadata.name" // The only part of the metadata that a rule can read, besides generateName.
			}
			for at := target; at != ""; at = parent(at) {
				if !slices.Contains(listed, at) {
					continue
				}
				if at != target {
					message = fmt.Sprintf("`%s`: %s", target[len(at)+1:], message)
				}
				if !slices.Contains(messages[at], message) {
					messages[at] = append(messages[at], message)
				}
				break
			}
		}
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			below := schema.Properties[name]
			collect(path+"."+name, &below)
		}
		if each := element(*schema); each != nil && each.Type == "object" {
			collect(path+"[]", each)
		}
	}
	collect("", object)
	return messages
}

// parent returns the path of the field that contains a field or the elements of a list; "" if there is none.
func parent(path string) string {
	if list, ok := strings.CutSuffix(path, "[]"); ok {
		return list
	}
	return path[:max(strings.LastIndex(path, "."), 0)]
}

// prose returns a text as one line of Markdown, in which nothing but code is markup.
func prose(text string) string {
	return strings.NewReplacer("*", `\*`, "<", `\<`, "|", `\|`, `"_"`, `"\_"`).Replace(strings.Join(strings.Fields(text), " "))
}
