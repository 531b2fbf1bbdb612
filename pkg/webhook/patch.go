/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// The operations of JSON Patch (RFC 6902) that a difference is made of.
const (
	add     = "add"
	remove  = "remove"
	replace = "replace"
)

// operation is one of a JSON Patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"` // a JSON Pointer (RFC 6901)
	Value any    `json:"value,omitempty"`

	was any // what the user gave instead, if that is known
}

// warning says that a value which the user gave is not what is stored, or is empty if
// that is not so.
func (o operation) warning() string {
	if o.was == nil {
		return ""
	}
	for _, value := range []any{o.was, o.Value} {
		switch value.(type) {
		case map[string]any, []any:
			return "" // too long to be said
		}
	}
	return fmt.Sprintf("%s: %#v is stored as %#v", strings.ReplaceAll(strings.TrimPrefix(o.Path, "/"), "/", "."), o.was, o.Value)
}

// difference returns what makes of raw, the fields that before was read from, what after
// is. What of raw has no place in the type stays as it is.
func difference(raw map[string]any, before, after any) ([]operation, error) {
	from, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before)
	if err != nil {
		return nil, err
	}
	to, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if err != nil {
		return nil, err
	}
	return appendDifference(nil, "", raw, from, to), nil
}

// appendDifference appends what changes raw at path as from changes to to.
func appendDifference(operations []operation, path string, raw, from, to any) []operation {
	if reflect.DeepEqual(from, to) {
		return operations
	}
	switch to := to.(type) {
	case map[string]any:
		if raw, ok := raw.(map[string]any); ok {
			from, _ := from.(map[string]any)
			return appendFields(operations, path, raw, from, to)
		}
	case []any:
		raw, isList := raw.([]any)
		from, wasList := from.([]any)
		if isList && wasList && len(raw) == len(to) && len(from) == len(to) {
			for i := range to {
				operations = appendDifference(operations, fmt.Sprintf("%s/%d", path, i), raw[i], from[i], to[i])
			}
			return operations
		}
	}
	return append(operations, operation{Op: replace, Path: path, Value: to, was: raw})
}

func appendFields(operations []operation, path string, raw, from, to map[string]any) []operation {
	for _, key := range slices.Sorted(maps.Keys(to)) {
		path := path + "/" + escape(key)
		if value, there := raw[key]; there {
			operations = appendDifference(operations, path, value, from[key], to[key])
		} else if !reflect.DeepEqual(from[key], to[key]) {
			operations = append(operations, operation{Op: add, Path: path, Value: to[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		_, stays := to[key]
		if _, there := raw[key]; there && !stays {
			operations = append(operations, operation{Op: remove, Path: path + "/" + escape(key)})
		}
	}
	return operations
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// escape makes of a key a reference token of a JSON Pointer.
func escape(key string) string { return pointer.Replace(key) }
