// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Field is a field in which two values differ. Old and New are empty if there is no such field, or if Hidden.
type Field struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
	// Hidden says that the values are not shown, since they may be secret.
	Hidden bool `json:"hidden,omitempty"`
}

// maxShown is how much String shows of a value, in bytes.
const maxShown = 60

// String returns the change in one line.
func (f Field) String() string {
	if f.Hidden {
		return f.Path + ": changed, values not shown"
	}
	if f.Old == f.New {
		return f.Path + ": " + orNone(f.New) + ", which another client set, too"
	}
	return fmt.Sprintf("%s: %s → %s", f.Path, orNone(f.Old), orNone(f.New))
}

func orNone(text string) string { return short(cmp.Or(text, none), maxShown) }

// Diff returns the fields in which two values differ, in the order of their paths in JSON. Either may be nil. It returns an error if a
// value has no JSON.
func Diff(before, after any) ([]Field, error) { return DiffOwned(before, after, nil) }

// DiffOwned compares the fields that the operator owns with those that it will own, and returns the fields that differ. The old value of a
// field that the operator does not own is the value in the live object.
func DiffOwned(owned, desired, live any) ([]Field, error) {
	var decoded [3]any
	for i, value := range []any{owned, desired, live} {
		var err error
		if decoded[i], err = decode(value); err != nil {
			return nil, err
		}
	}
	var fields []Field
	walk(nil, decoded[0], decoded[1], decoded[2], func(f Field) { fields = append(fields, f) })
	return fields, nil
}

// decode returns a value as JSON decodes it: maps, lists, and json.Number, string, bool or nil.
func decode(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode a %T: %w", value, err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var result any
	err = decoder.Decode(&result)
	return result, err
}

// walk calls differ for each field below path that differs between a and b.
func walk(path []string, a, b, live any, differ func(Field)) {
	key := keyOf(a, b, live)
	before, after := children(a, key), children(b, key)
	if !isParent(a, before) || !isParent(b, after) {
		if reflect.DeepEqual(a, b) {
			return
		}
		if a == nil {
			a = live
		}
		differ(newField(path, a, b))
		return
	}
	now := children(live, key)
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		walk(append(slices.Clip(path), name), before[name], after[name], now[name], differ)
	}
}

// isParent reports whether a value has children: the value is a map or a list, or there is no value.
func isParent(value any, children map[string]any) bool { return value == nil || children != nil }

// children returns the fields of a map, or the items of a list by their keys; nil for all other values.
func children(value any, key func(int, any) string) map[string]any {
	switch value := value.(type) {
	case map[string]any:
		return value
	case []any:
		items := map[string]any{}
		for i, item := range value {
			items["["+key(i, item)+"]"] = item
		}
		return items
	}
	return nil
}

// keyOf returns the function that names the items of lists: by their name or their type, if these are unique in each list, and otherwise by
// their index.
func keyOf(lists ...any) func(int, any) string {
	for _, field := range []string{"name", "type"} {
		if !slices.ContainsFunc(lists, func(list any) bool { return !isUnique(list, field) }) {
			return func(_ int, item any) string { return item.(map[string]any)[field].(string) }
		}
	}
	return func(i int, _ any) string { return strconv.Itoa(i) }
}

// isUnique reports whether each item of a list has a text in a field, and no two have the same.
func isUnique(list any, field string) bool {
	items, ok := list.([]any)
	seen := map[string]bool{}
	for _, item := range items {
		fields, isMap := item.(map[string]any)
		text, isText := fields[field].(string)
		if !isMap || !isText || seen[text] {
			return false
		}
		seen[text] = true
	}
	return ok || list == nil
}

func newField(path []string, a, b any) Field {
	_, old := a.(string)
	_, now := b.(string)
	if isSecret(path, old || now) {
		return Field{Path: join(path), Hidden: true}
	}
	return Field{Path: join(path), Old: textOf(a), New: textOf(b)}
}

// join returns a path as people write it, such as spec.containers[app].image and metadata.labels[example.com/name].
func join(path []string) string {
	var text strings.Builder
	for i, name := range path {
		switch {
		case strings.HasPrefix(name, "["):
		case strings.ContainsAny(name, "./"):
			name = "[" + name + "]"
		case i > 0:
			name = "." + name
		}
		text.WriteString(name)
	}
	return text.String()
}

func textOf(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case map[string]any, []any:
		text, _ := json.Marshal(value) // It was decoded from JSON.
		return string(text)
	}
	return fmt.Sprint(value)
}
