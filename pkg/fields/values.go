// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/trace"
)

// maxText is the longest text that is shown, in bytes.
const maxText = 64

const none = "none"

// show returns two values as text. It returns "" twice if one value is not shown, or if both have the same text: two lists of equal length.
// texts says whether the texts of the field may be shown.
func show(a, b reflect.Value, texts bool) (string, string) {
	before, shownBefore := render(a, texts)
	now, shownNow := render(b, texts)
	if !shownBefore || !shownNow || before == now {
		return "", ""
	}
	return before, now
}

// render returns v as text, and whether it is shown.
func render(v reflect.Value, texts bool) (string, bool) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return none, true
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return fmt.Sprint(v.Interface()), true
	case reflect.String:
		if v.Len() == 0 {
			return none, true
		}
		return v.String(), texts && v.Len() <= maxText
	case reflect.Slice:
		if v.Len() == 1 {
			return "1 item", true
		}
		return fmt.Sprintf("%d items", v.Len()), true
	case reflect.Struct:
		return renderStruct(v)
	}
	return "", false
}

// renderStruct renders structs with a single value: times, durations and quantities.
func renderStruct(v reflect.Value) (string, bool) {
	value := v.Interface()
	if v.CanAddr() {
		value = v.Addr().Interface()
	}
	if timed, ok := value.(interface {
		IsZero() bool
		Format(string) string
	}); ok {
		if timed.IsZero() {
			return none, true
		}
		return timed.Format(time.RFC3339), true
	}
	if text, ok := value.(fmt.Stringer); ok && len(formOf(v.Type()).fields) == 0 {
		s := text.String()
		return s, len(s) <= maxText
	}
	return "", false
}

// conditions returns the conditions that differ between two lists, or nil if they are not lists of conditions.
func conditions(path string, a, b reflect.Value) []trace.Change {
	before, now := parseConditions(a), parseConditions(b)
	var all []trace.Change
	for _, c := range now {
		if old := find(before, c.kind); old != c.text {
			all = append(all, trace.Change{Path: path + "[" + c.kind + "]", Old: old, New: c.text})
		}
	}
	for _, c := range before {
		if find(now, c.kind) == none {
			all = append(all, trace.Change{Path: path + "[" + c.kind + "]", Old: c.text, New: none})
		}
	}
	return all
}

// condition is a condition of any API group: its type, and its status and reason as text.
type condition struct{ kind, text string }

func find(list []condition, kind string) string {
	for _, c := range list {
		if c.kind == kind {
			return c.text
		}
	}
	return none
}

// parseConditions returns the conditions in a list. It returns nil if an element has no Type or no Status.
func parseConditions(list reflect.Value) []condition {
	if list.Kind() != reflect.Slice || list.Type().Elem().Kind() != reflect.Struct {
		return nil
	}
	var all []condition
	for i := range list.Len() {
		kind, status, reason := text(list.Index(i), "Type"), text(list.Index(i), "Status"), text(list.Index(i), "Reason")
		if kind == "" || status == "" {
			return nil
		}
		all = append(all, condition{short(kind, maxText), short(strings.TrimSpace(status+" "+reason), maxText)})
	}
	return all
}

// short cuts a text to size bytes.
func short(s string, size int) string {
	if len(s) <= size {
		return s
	}
	return strings.ToValidUTF8(s[:size], "") + "…"
}

func text(v reflect.Value, field string) string {
	if f := v.FieldByName(field); f.IsValid() && f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}
