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

// isExactly reports whether this operator owns exactly the fields of configuration in object, with the same values and in the
// same order. Then an apply would change nothing. isExactly is faster than an extraction, and needs no schema. If it cannot tell, it
// returns false: an apply that changes nothing is no write.
func isExactly[T Object, A any](object T, configuration A) bool {
	own := OwnFields(object.GetManagedFields())
	if len(own) != 1 {
		return false
	}
	fields, err := setOf(own[0])
	if err != nil {
		return false
	}
	desired, err1 := value.NewValueReflect(configuration)
	present, err2 := value.NewValueReflect(object)
	return err1 == nil && err2 == nil && sameFields(fields, unowned, desired, present)
}

// atomicFields are the maps and structs in our children that a field manager owns as one value: see isOneValue.
var atomicFields = sets.New("selector", "podSelector", "labelSelector", "nodeSelector", "fieldRef", "resourceFieldRef", "secretKeyRef",
	"configMapKeyRef", "fileKeyRef", "secretRef", "nodePublishSecretRef", "dataSource", "port", "resource",
	"requiredDuringSchedulingIgnoredDuringExecution")

// sameFields reports whether a has exactly the fields of a set, apart from the ignored fields, and whether b has the same values in these
// fields. Items of lists must have the same order in both; b may have other items between them. An owned field that b lacks may be an empty
// text in a: the Go types of the API leave it out.
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
		if y == nil && element.FieldName != nil && x != nil && x.IsString() && x.AsString() == "" {
			return
		}
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

// isOneValue reports whether a field manager owns a field as a whole, if the set has no fields below that field. This holds for a scalar,
// a list, an item of a list, and one of atomicFields. It does not hold for a struct that was empty when it was applied and no longer is.
func isOneValue(element fieldpath.PathElement, field value.Value) bool {
	return !field.IsMap() || field.AsMap().Length() == 0 || element.FieldName == nil || atomicFields.Has(*element.FieldName)
}

// equal reports whether two values have the same JSON. value.Equals, by contrast, also compares the Go types of lists.
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
		return x.Length() == y.Length() && x.Iterate(func(key string, field value.Value) bool {
			other, ok := y.Get(key)
			return ok && equal(field, other)
		})
	}
	return value.Equals(a, b)
}

// entries returns the number of items of a list, or of fields of a map or struct, except the fields in without.
func entries(parent value.Value, without *fieldpath.Set) int {
	switch {
	case parent.IsList():
		return parent.AsList().Length()
	case !parent.IsMap():
		return 0
	}
	n := parent.AsMap().Length()
	without.Members.Iterate(func(element fieldpath.PathElement) {
		if found, _ := part(element, parent); found != nil {
			n--
		}
	})
	return n
}

// part returns the field or the item of parent that an element of a path names, and the index of an item. It returns nil if parent has no
// such part, or if element names several items of a list.
func part(element fieldpath.PathElement, parent value.Value) (named value.Value, at int) {
	switch {
	case element.FieldName != nil && parent.IsMap():
		named, _ = parent.AsMap().Get(*element.FieldName)
	case (element.Key != nil || element.Value != nil) && parent.IsList():
		list := parent.AsList()
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
