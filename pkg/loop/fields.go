/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

const (
	// maxFields bounds the paths that are named for one change.
	maxFields = 6
	// maxDepth bounds how far down a path is followed: spec.template.spec is three.
	maxDepth = 3
)

// changedFields returns the JSON paths of the fields in which two objects of the
// same type differ, such as "status.succeeded": their names, never their values.
// Maps and lists are compared whole, and what changes with every write is left
// out. It returns nil for objects of different types.
func changedFields(old, obj any) []string {
	a, b := reflect.ValueOf(old), reflect.ValueOf(obj)
	if a.Type() != b.Type() {
		return nil
	}
	var paths []string
	walk(&paths, "", a, b, 0)
	return paths
}

func walk(paths *[]string, path string, a, b reflect.Value, depth int) {
	if len(*paths) == maxFields {
		return
	}
	for a.Kind() == reflect.Pointer {
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				*paths = append(*paths, path)
			}
			return
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return
		}
		a, b = a.Elem(), b.Elem()
	}
	if fields := fieldsOf(a.Type()); len(fields) > 0 && depth < maxDepth {
		for _, f := range fields {
			if f.name == "" { // an embedded struct, inlined in JSON
				walk(paths, path, a.Field(f.index), b.Field(f.index), depth)
				continue
			}
			child := f.name
			if path != "" {
				child = path + "." + f.name
			}
			if child != "metadata.resourceVersion" && child != "metadata.managedFields" {
				walk(paths, child, a.Field(f.index), b.Field(f.index), depth+1)
			}
		}
		return
	}
	if !equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
		*paths = append(*paths, path)
	}
}

type structField struct {
	index int
	name  string
}

// fieldsByType remembers the JSON names of a struct type's fields.
var fieldsByType sync.Map // reflect.Type → []structField

// fieldsOf returns the fields of a struct that appear in its JSON under their own
// names; none for other types, and for structs that render themselves, like a
// time or a quantity.
func fieldsOf(t reflect.Type) []structField {
	if t.Kind() != reflect.Struct {
		return nil
	}
	if known, ok := fieldsByType.Load(t); ok {
		return known.([]structField)
	}
	var fields []structField
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		fieldsByType.Store(t, fields)
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && (name != "" || f.Anonymous) {
			fields = append(fields, structField{i, name})
		}
	}
	fieldsByType.Store(t, fields)
	return fields
}
