// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package changes finds the fields in which two versions of an object differ, by their paths in JSON. The causes and the events of
// package trace contain them.
//
// Paths returns only the fields. Between also returns the values that every user of the operator's page may see: numbers, times, short
// texts of typed fields, states of conditions, and lengths of lists. It returns no values of maps (labels, annotations, data, config), of
// Secrets, or of fields whose name suggests a secret.
package changes

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/glassback/glassback/pkg/trace"
)

const (
	// maxFields is the largest number of paths for one change.
	maxFields = 6
	// maxDepth is the largest number of names in a path: spec.template.spec has three.
	maxDepth = 3
)

// Paths returns the JSON paths of at most six fields in which two objects of the same type differ, such as "status.succeeded". A map or a
// list is one field. resourceVersion and managedFields, which change with every write, are left out. It returns nil for objects of
// different types.
func Paths(old, obj any) []string {
	var paths []string
	compare(old, obj, func(path string, _, _ reflect.Value) bool {
		paths = append(paths, path)
		return len(paths) < maxFields
	})
	return paths
}

// Between returns the fields that Paths returns, with the values that may be shown. Each condition that differs is a separate field:
// "status.conditions[Ready]".
func Between(old, obj any) []trace.Change {
	var all []trace.Change
	_, secret := obj.(*corev1.Secret)
	compare(old, obj, func(path string, a, b reflect.Value) bool {
		if list := conditions(path, a, b); len(list) > 0 {
			all = append(all, list...)
			return len(all) < maxFields
		}
		change := trace.Change{Path: path}
		if !secret && !sensitive(path) {
			change.Old, change.New = show(a, b)
		}
		all = append(all, change)
		return len(all) < maxFields
	})
	return all[:min(len(all), maxFields)]
}

// compare calls visit for each field that differs, until visit returns false.
func compare(old, obj any, visit func(path string, a, b reflect.Value) bool) {
	a, b := reflect.ValueOf(old), reflect.ValueOf(obj)
	if a.IsValid() && b.IsValid() && a.Type() == b.Type() {
		w := walker{visit: visit}
		w.walk(a, b)
	}
}

// walker goes through two objects. It allocates no memory for equal fields: each change in a cache compares hundreds of them.
type walker struct {
	names [maxDepth]string
	depth int // the number of names in use
	visit func(path string, a, b reflect.Value) bool
}

func (w *walker) path() string { return strings.Join(w.names[:w.depth], ".") }

// walk returns whether to continue.
func (w *walker) walk(a, b reflect.Value) bool {
	for a.Kind() == reflect.Pointer {
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil() || w.visit(w.path(), a, b)
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return true
		}
		a, b = a.Elem(), b.Elem()
	}
	if w.depth < maxDepth {
		if fields := fieldsOf(a.Type()); len(fields) > 0 {
			return w.walkFields(fields, a, b)
		}
	}
	return equal(a, b) || w.visit(w.path(), a, b)
}

func (w *walker) walkFields(fields []structField, a, b reflect.Value) bool {
	for _, f := range fields {
		if f.name == "" { // an embedded struct, inlined in JSON
			if !w.walk(a.Field(f.index), b.Field(f.index)) {
				return false
			}
			continue
		}
		if w.depth == 1 && w.names[0] == "metadata" && (f.name == "resourceVersion" || f.name == "managedFields") {
			continue
		}
		w.names[w.depth] = f.name
		w.depth++
		more := w.walk(a.Field(f.index), b.Field(f.index))
		w.depth--
		if !more {
			return false
		}
	}
	return true
}

// equal compares two values as a whole. An empty list or map equals nil.
func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return a.Equal(b)
	case reflect.Slice, reflect.Map:
		if a.Len() != b.Len() || a.Len() == 0 {
			return a.Len() == b.Len()
		}
	}
	if a.CanAddr() && b.CanAddr() { // A pointer avoids a copy of each.
		return equality.Semantic.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
	}
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

type structField struct {
	index int
	name  string
}

// fieldsByType caches the fields of struct types.
var fieldsByType sync.Map // reflect.Type → []structField

// fieldsOf returns the fields of a struct that have a JSON name, and its embedded structs. It returns none for other types, and none for
// a struct with a MarshalJSON, such as a time or a quantity.
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
