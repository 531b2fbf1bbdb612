/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import (
	"bytes"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// unowned has the fields of a configuration that identify the object. No field manager owns them.
var unowned = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("metadata", "uid"), fieldpath.MakePathOrDie("metadata", "resourceVersion"),
)

// isExactly reports whether the fields of object that this operator owns are those of the configuration, with the same values: an
// extraction would return the configuration. It takes a fifth of the time of an extraction, and needs no schema. If it is in doubt, it
// returns false.
func isExactly[T Object, A any](object T, configuration A) bool {
	own := OwnFields(object.GetManagedFields())
	if len(own) != 1 || own[0].FieldsV1 == nil {
		return false
	}
	var fields fieldpath.Set
	if err := fields.FromJSON(bytes.NewReader(own[0].FieldsV1.GetRawBytes())); err != nil {
		return false
	}
	desired, err1 := value.NewValueReflect(configuration)
	present, err2 := value.NewValueReflect(object)
	return err1 == nil && err2 == nil && sameFields(&fields, unowned, desired, present)
}

// sameFields reports whether a value has the fields of a set, and no others but those of unowned, and whether another value is the same in
// these fields. A field without fields below it is one value as a whole, also if it is a list or a map: its type is atomic.
func sameFields(fields, unowned *fieldpath.Set, a, b value.Value) bool {
	missing := entries(a, unowned)
	same := true // The iterators of a set cannot stop early.
	compare := func(element fieldpath.PathElement, equal func(x, y value.Value) bool) {
		missing--
		if same {
			x, y := part(element, a), part(element, b)
			same = x != nil && y != nil && equal(x, y)
		}
	}
	fields.Children.Iterate(func(element fieldpath.PathElement) {
		below, _ := fields.Children.Get(element)
		compare(element, func(x, y value.Value) bool { return sameFields(below, unowned.WithPrefix(element), x, y) })
	})
	fields.Members.Iterate(func(element fieldpath.PathElement) {
		if _, hasBelow := fields.Children.Get(element); !hasBelow {
			compare(element, value.Equals)
		}
	})
	return same && missing == 0
}

// entries returns the number of fields of a map or struct, without those of a set, or of the elements of a list.
func entries(of value.Value, without *fieldpath.Set) int {
	switch {
	case of.IsList():
		return of.AsList().Length()
	case !of.IsMap():
		return 0
	}
	n := of.AsMap().Length()
	without.Members.Iterate(func(element fieldpath.PathElement) {
		if part(element, of) != nil {
			n--
		}
	})
	return n
}

// part returns the part of a value that an element of a path names; nil if there is none, or if several items of a list have these keys.
func part(element fieldpath.PathElement, of value.Value) value.Value {
	switch {
	case element.FieldName != nil && of.IsMap():
		field, _ := of.AsMap().Get(*element.FieldName)
		return field
	case (element.Key != nil || element.Value != nil) && of.IsList():
		var named value.Value
		list := of.AsList()
		for i := range list.Length() {
			if item := list.At(i); isNamed(element, item) {
				if named != nil {
					return nil
				}
				named = item
			}
		}
		return named
	}
	return nil
}

// isNamed reports whether an element of a path names this item of a list: by its keys, or by its value.
func isNamed(element fieldpath.PathElement, item value.Value) bool {
	if element.Value != nil {
		return value.Equals(item, *element.Value)
	}
	return item.IsMap() && !slices.ContainsFunc(*element.Key, func(key value.Field) bool {
		field, ok := item.AsMap().Get(key.Name)
		return !ok || !value.Equals(field, key.Value)
	})
}
