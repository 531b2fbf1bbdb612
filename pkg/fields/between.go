// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"reflect"
	"strings"

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
	compare(old, obj, func(path string, _ *field, _, _ reflect.Value) bool {
		paths = append(paths, path)
		return len(paths) < maxFields
	})
	return paths
}

// Between returns the fields that Paths returns, with the values that the page may show: see shown.go. Each condition that differs is a
// separate field: "status.conditions[Ready]".
func Between(old, obj any) []trace.Change {
	var all []trace.Change
	hidden := hidesAll(obj)
	compare(old, obj, func(path string, f *field, a, b reflect.Value) bool {
		if list := conditions(path, a, b); len(list) > 0 {
			all = append(all, list...)
			return len(all) < maxFields
		}
		change := trace.Change{Path: path}
		if !hidden && !f.secret {
			change.Old, change.New = show(a, b, f.shownOnPage)
		}
		all = append(all, change)
		return len(all) < maxFields
	})
	return all[:min(len(all), maxFields)]
}

// visit gets a field that differs, with both values. It returns whether to continue.
type visit func(path string, f *field, a, b reflect.Value) bool

// compare calls visit for each field that differs, until visit returns false.
func compare(old, obj any, visit visit) {
	a, b := reflect.ValueOf(old), reflect.ValueOf(obj)
	if a.IsValid() && b.IsValid() && a.Type() == b.Type() {
		w := walker{visit: visit}
		w.walk(&whole, a, b)
	}
}

// whole is the field of an object that is nil in one version.
var whole field

// walker goes through two objects. It allocates no memory for equal fields: each change in a cache compares hundreds of them.
type walker struct {
	names [maxDepth]string
	depth int // the number of names in use
	visit visit
}

func (w *walker) path() string { return strings.Join(w.names[:w.depth], ".") }

// walk returns whether to continue.
func (w *walker) walk(f *field, a, b reflect.Value) bool {
	for a.Kind() == reflect.Pointer {
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil() || w.visit(w.path(), f, a, b)
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return true
		}
		a, b = a.Elem(), b.Elem()
	}
	if w.depth < maxDepth {
		if fields := formOf(a.Type()).fields; len(fields) > 0 {
			return w.walkFields(fields, a, b)
		}
	}
	return equal(a, b) || w.visit(w.path(), f, a, b)
}

func (w *walker) walkFields(fields []field, a, b reflect.Value) bool {
	for i := range fields {
		f := &fields[i]
		if f.inline {
			if !w.walk(f, a.Field(f.index), b.Field(f.index)) {
				return false
			}
			continue
		}
		if w.depth == 1 && w.names[0] == "metadata" && (f.name == "resourceVersion" || f.name == "managedFields") {
			continue
		}
		w.names[w.depth] = f.name
		w.depth++
		more := w.walk(f, a.Field(f.index), b.Field(f.index))
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
