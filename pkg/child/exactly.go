// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// unowned has the fields of a configuration that identify the object. No field manager owns them.
var unowned = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("metadata", "uid"), fieldpath.MakePathOrDie("metadata", "resourceVersion"),
)

// isExactly reports whether the fields of object that this operator owns are those of the configuration, with the same values and in the
// same order: an extraction would return the configuration, and an apply would change nothing. It is faster than an extraction, and needs
// no schema. If it is in doubt, it returns false.
func isExactly[T Object, A any](object T, configuration A) bool {
	own := OwnFields(object.GetManagedFields())
	if len(own) != 1 || own[0].FieldsV1 == nil {
		return false
	}
	fields, err := share(own[0].FieldsV1).set()
	if err != nil {
		return false
	}
	desired, err1 := value.NewValueReflect(configuration)
	present, err2 := value.NewValueReflect(object)
	return err1 == nil && err2 == nil && sameFields(fields, unowned, desired, present)
}

// atomicFields are the fields of our children that are one value, although they are maps or structs. Lists of structs without fields below
// them, and items that have keys, are one value, too.
var atomicFields = sets.New("selector", "podSelector", "fieldRef", "secretKeyRef", "configMapKeyRef")

// sameFields reports whether a value has the fields of a set, and no others but those of ignored, and whether another value is the same in
// these fields. Items of lists must have the same order; other items may be between them.
func sameFields(fields, ignored *fieldpath.Set, a, b value.Value) bool {
	notOwned := entries(a, ignored)
	var positions []int // of the items of the list a in the list b
	if a.IsList() {
		positions = make([]int, notOwned)
	}
	same := true // The iterators of a set cannot stop early.
	compare := func(element fieldpath.PathElement, equal func(x, y value.Value) bool) {
		notOwned--
		if !same {
			return
		}
		x, i := part(element, a)
		y, j := part(element, b)
		same = x != nil && y != nil && equal(x, y)
		if same && positions != nil {
			positions[i] = j
		}
	}
	fields.Children.Iterate(func(element fieldpath.PathElement) {
		below, _ := fields.Children.Get(element)
		compare(element, func(x, y value.Value) bool { return sameFields(below, ignored.WithPrefix(element), x, y) })
	})
	fields.Members.Iterate(func(element fieldpath.PathElement) {
		if _, hasBelow := fields.Children.Get(element); !hasBelow {
			compare(element, func(x, y value.Value) bool { return isOneValue(element, x) && equal(x, y) })
		}
	})
	return same && notOwned == 0 && slices.IsSorted(positions)
}

// isOneValue reports whether a field without fields below it is owned as a whole. A struct that was applied empty has no fields below it
// either, and is not.
func isOneValue(element fieldpath.PathElement, of value.Value) bool {
	return !of.IsMap() || of.AsMap().Length() == 0 || element.FieldName == nil || atomicFields.Has(*element.FieldName)
}

// equal compares two values as their JSON would be. value.Equals compares lists of different Go types by their types, too.
func equal(a, b value.Value) bool {
	switch {
	case a.IsList() && b.IsList():
		x, y := a.AsList(), b.AsList()
		for i := range min(x.Length(), y.Length()) {
			if !equal(x.At(i), y.At(i)) {
				return false
			}
		}
		return x.Length() == y.Length()
	case a.IsMap() && b.IsMap():
		x, y := a.AsMap(), b.AsMap()
		return x.Length() == y.Length() && x.Iterate(func(key string, of value.Value) bool {
			other, ok := y.Get(key)
			return ok && equal(of, other)
		})
	}
	return value.Equals(a, b)
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
		if found, _ := part(element, of); found != nil {
			n--
		}
	})
	return n
}

// part returns the part of a value that an element of a path names, and its index in a list. The part is nil if there is none, or if
// several items of a list have these keys.
func part(element fieldpath.PathElement, of value.Value) (named value.Value, at int) {
	switch {
	case element.FieldName != nil && of.IsMap():
		named, _ = of.AsMap().Get(*element.FieldName)
	case (element.Key != nil || element.Value != nil) && of.IsList():
		list := of.AsList()
		for i := range list.Length() {
			item := list.At(i)
			switch {
			case !isNamed(element, item):
			case named != nil:
				return nil, 0
			default:
				named, at = item, i
			}
		}
	}
	return named, at
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
