/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package changes

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/trace"
)

// maxText is the longest text that is shown, in bytes.
const maxText = 64

const none = "none"

// sensitive reports whether a field may hold a secret, by its name.
func sensitive(path string) bool {
	name := strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
	return slices.ContainsFunc([]string{"password", "secret", "token", "credential", "accesskey", "userdata", "cabundle"},
		func(word string) bool {
			return strings.Contains(name, word)
		})
}

// show returns two values as a person reads them; "" both, if one of them is not shown.
func show(a, b reflect.Value) (string, string) {
	old, shown := render(a)
	now, also := render(b)
	if !shown || !also || old == now { // The same in what is shown of it, such as a length.
		return "", ""
	}
	return old, now
}

// render returns v as a person reads it, if it is shown.
func render(v reflect.Value) (string, bool) {
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
		return v.String(), v.Len() <= maxText
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

// renderStruct is render for those that have one value: times, durations and quantities.
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
	if text, ok := value.(fmt.Stringer); ok && len(fieldsOf(v.Type())) == 0 {
		s := text.String()
		return s, len(s) <= maxText
	}
	return "", false
}

// conditions returns how the conditions in two lists differ; nothing, if they are none.
func conditions(path string, a, b reflect.Value) []trace.Change {
	before, now := statesOf(a), statesOf(b)
	var all []trace.Change
	for _, state := range now {
		if was := find(before, state.kind); was != state.text {
			all = append(all, trace.Change{Path: path + "[" + state.kind + "]", Old: was, New: state.text})
		}
	}
	for _, state := range before {
		if find(now, state.kind) == none {
			all = append(all, trace.Change{Path: path + "[" + state.kind + "]", Old: state.text, New: none})
		}
	}
	return all
}

// state is the type and the status of a condition, as text.
type state struct{ kind, text string }

func find(states []state, kind string) string {
	for _, s := range states {
		if s.kind == kind {
			return s.text
		}
	}
	return none
}

// statesOf returns what the elements of a list say that have a Type and a Status, as all kinds
// of conditions do.
func statesOf(list reflect.Value) []state {
	if list.Kind() != reflect.Slice || list.Type().Elem().Kind() != reflect.Struct {
		return nil
	}
	var all []state
	for i := range list.Len() {
		kind, status, reason := text(list.Index(i), "Type"), text(list.Index(i), "Status"), text(list.Index(i), "Reason")
		if kind == "" || status == "" {
			return nil
		}
		all = append(all, state{short(kind), short(strings.TrimSpace(status + " " + reason))})
	}
	return all
}

// short returns what is shown of a text that others write.
func short(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

func text(v reflect.Value, field string) string {
	if f := v.FieldByName(field); f.IsValid() && f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}
