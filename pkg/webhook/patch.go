// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
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
	if o.was == nil {
		return ""
	}
	for _, value := range []any{o.was, o.Value} {
		if _, isLong := value.(stdjson.RawMessage); isLong {
			return ""
		}
	}
	return fmt.Sprintf("%s: %#v is stored as %#v", strings.ReplaceAll(strings.TrimPrefix(o.Path, "/"), "/", "."), o.was, o.Value)
}

// difference calls change, which changes obj, and returns the operations that change raw, the JSON of obj, in the same way. Fields of raw
// that the type does not have stay. After more than maxOperations, it skips the other list elements.
//
// It does not copy obj, which may be large.
func difference(raw []byte, obj any, change func()) ([]operation, error) {
	from, err := marshal(obj)
	if err != nil {
		return nil, err
	}
	change()
	to, err := marshal(obj)
	if err != nil {
		return nil, err
	}
	return appendDifference(nil, "", raw, from, to), nil
}

// marshal writes an object as JSON. Unlike json.Marshal, it does not escape "<" with six bytes: a large object may consist of "<".
func marshal(obj any) ([]byte, error) {
	text := &bytes.Buffer{}
	encoder := stdjson.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(obj)
	return bytes.TrimSpace(text.Bytes()), err
}

// appendDifference appends the operations that repeat the change between from and to in raw, which is at path. All three are JSON. Equal
// values must have the same text in from and to.
func appendDifference(operations []operation, path string, raw, from, to []byte) []operation {
	switch {
	case bytes.Equal(from, to):
		return operations
	case isObject(raw) && isObject(to):
		return appendFields(operations, path, raw, from, to)
	case isList(raw) && isList(from) && isList(to) && length(raw) == length(to) && length(from) == length(to):
		theirs, before, after := walk{data: raw}, walk{data: from}, walk{data: to}
		for i := range length(to) {
			if len(operations) > maxOperations {
				break
			}
			operations = appendDifference(operations, fmt.Sprintf("%s/%d", path, i), theirs.element(), before.element(), after.element())
		}
		return operations
	}
	return append(operations, operation{Op: replace, Path: path, Value: scalar(to), was: scalar(raw)})
}

func appendFields(operations []operation, path string, raw, from, to []byte) []operation {
	before, after := fields(from), fields(to)
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if bytes.Equal(before[key], after[key]) {
			continue
		}
		path := path + "/" + escape(key)
		if value := find(raw, key); value != nil {
			operations = appendDifference(operations, path, value, before[key], after[key])
		} else {
			operations = append(operations, operation{Op: add, Path: path, Value: scalar(after[key])})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, stays := after[key]; !stays && find(raw, key) != nil {
			operations = append(operations, operation{Op: remove, Path: path + "/" + escape(key)})
		}
	}
	return operations
}

// scalar returns the decoded value of JSON, but an object or a list as a RawMessage.
func scalar(text []byte) any {
	if isObject(text) || isList(text) {
		return stdjson.RawMessage(text)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return stdjson.RawMessage(text) // Invalid JSON was refused before.
	}
	return value
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// escape returns a key as a reference token of a JSON Pointer.
func escape(key string) string { return pointer.Replace(key) }
