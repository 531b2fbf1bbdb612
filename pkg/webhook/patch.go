// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// The operations of JSON Patch (RFC 6902) in a difference.
const (
	add     = "add"
	remove  = "remove"
	replace = "replace"
)

// maxOperations is how many operations a patch may have. An object that its schema admits needs
// some 260 at most: one for each variable of an Application.
const maxOperations = 1000

// operation is an operation of a JSON Patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"` // a JSON Pointer (RFC 6901)
	Value any    `json:"value,omitempty"`

	was any // the value of the user, if it is known
}

// warning returns the warning that the stored value differs from the value of the user, "" for none.
func (o operation) warning() string {
	if o.was == nil || isLong(o.was) || isLong(o.Value) {
		return ""
	}
	return fmt.Sprintf("%s: %s is stored as %s", strings.ReplaceAll(strings.TrimPrefix(o.Path, "/"), "/", "."), text(o.was), text(o.Value))
}

// isLong returns whether a value is an object or a list.
func isLong(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func text(value any) string {
	if number, ok := value.(stdjson.Number); ok {
		return string(number)
	}
	return fmt.Sprintf("%#v", value)
}

// appendDifference appends the operations that repeat the change between before and after in raw, which is at path. Fields that raw has
// and the others do not have stay. After more than maxOperations, it skips the other list elements.
func appendDifference(operations []operation, path string, raw, before, after any) []operation {
	if reflect.DeepEqual(before, after) {
		return operations
	}
	switch after := after.(type) {
	case map[string]any:
		if raw, ok := raw.(map[string]any); ok {
			before, _ := before.(map[string]any)
			return appendFields(operations, path, raw, before, after)
		}
	case []any:
		raw, ok := raw.([]any)
		before, wasList := before.([]any)
		if !ok || !wasList || len(raw) != len(after) || len(before) != len(after) {
			break
		}
		for i := range after {
			if len(operations) > maxOperations {
				break
			}
			operations = appendDifference(operations, fmt.Sprintf("%s/%d", path, i), raw[i], before[i], after[i])
		}
		return operations
	}
	return append(operations, operation{Op: replace, Path: path, Value: after, was: raw})
}

func appendFields(operations []operation, path string, raw, before, after map[string]any) []operation {
	for _, key := range slices.Sorted(maps.Keys(after)) {
		path := path + "/" + pointer.Replace(key)
		if was, ok := raw[key]; ok {
			operations = appendDifference(operations, path, was, before[key], after[key])
		} else if !reflect.DeepEqual(before[key], after[key]) {
			operations = append(operations, operation{Op: add, Path: path, Value: after[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		_, stays := after[key]
		if _, ok := raw[key]; ok && !stays {
			operations = append(operations, operation{Op: remove, Path: path + "/" + pointer.Replace(key)})
		}
	}
	return operations
}

// pointer writes a key as a reference token of a JSON Pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// marshal writes an object as JSON. Unlike json.Marshal, it does not escape "<" with six bytes: a large object may consist of "<".
func marshal(obj any) ([]byte, error) {
	text := &bytes.Buffer{}
	encoder := stdjson.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(obj)
	return bytes.TrimSpace(text.Bytes()), err
}
