// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// form is the JSON of a type.
type form struct {
	marshals bool    // by its MarshalJSON, as a time or a quantity does
	fields   []field // of a struct without it
}

// field is a field of a struct that JSON has.
type field struct {
	index               int
	name                string
	key                 string // "name":
	inline              bool
	omitEmpty, omitZero bool
	omitted             bool // not recorded
	shown               bool // whether its text, or the texts in its list, are recorded
	shownOnPage         bool // whether the page shows its text, if that is short
	secret              bool // whether the page shows nothing of it
}

var forms sync.Map // reflect.Type → *form

func formOf(t reflect.Type) *form {
	if known, ok := forms.Load(t); ok {
		return known.(*form)
	}
	f := &form{marshals: reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())}
	if t.Kind() == reflect.Struct && !f.marshals {
		for i := range t.NumField() {
			if field, ok := fieldOf(t, i); ok {
				f.fields = append(f.fields, field)
			}
		}
	}
	forms.Store(t, f)
	return f
}

func fieldOf(t reflect.Type, i int) (field, bool) {
	structField := t.Field(i)
	name, options, _ := strings.Cut(structField.Tag.Get("json"), ",")
	if !structField.IsExported() || name == "-" {
		return field{}, false
	}
	f := field{
		index: i, name: cmp.Or(name, structField.Name), inline: name == "" && structField.Anonymous,
		omitEmpty: strings.Contains(options, "omitempty"), omitZero: strings.Contains(options, "omitzero"),
	}
	f.key = strconv.Quote(f.name) + ":"
	f.omitted = !f.inline && isAPI(t.PkgPath()) && slices.Contains(omitted, f.name)
	f.shown, f.secret = isShown(t, f.name), suggestsSecret(f.name)
	f.shownOnPage = f.shown || shownOnPage.Has(f.name)
	return f, true
}

// PathsOf returns the paths of all fields that the JSON of a value of this type can have, sorted. It returns no path into a type of the
// API. These types have versions of their own: if an earlier version of the type did not have a field, then no object of that version has
// it.
func PathsOf(value any) []string {
	var paths []string
	addPaths("", reflect.TypeOf(value), &paths)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// addPaths adds path, which has the type t, and the paths of the fields in t.
func addPaths(path string, t reflect.Type, paths *[]string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if path != "" {
		*paths = append(*paths, path)
	}
	if isAPI(t.PkgPath()) {
		return
	}
	for _, f := range formOf(t).fields {
		fieldPath := path
		if !f.inline {
			fieldPath = strings.TrimPrefix(path+"."+f.name, ".")
		}
		addPaths(fieldPath, t.Field(f.index).Type, paths)
	}
}
