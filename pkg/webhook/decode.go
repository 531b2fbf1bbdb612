/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// errNumber says that an integer does not fit, or a quantity takes too long to read. A schema
// bounds the exponent, and not the number of digits.
var errNumber = errors.New("a number is too large, or a quantity has more than 100 digits or an exponent of more than two")

// decode reads an object. A quantity like 1e-999999999 takes hours to read, and all memory;
// and a mutating webhook is asked before the schema refuses it. So quantities are looked at
// before they are read.
func decode(raw []byte, obj any) error {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return errors.New("it is null")
	}
	m := meter{walk: walk{data: raw}}
	if m.measure(shapeOf(reflect.TypeOf(obj).Elem())); m.endless {
		return errNumber
	}
	err := json.Unmarshal(raw, obj)
	mistyped, ok := errors.AsType[*stdjson.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case strings.HasPrefix(mistyped.Value, "number "): // Its digits follow: an integer that does not fit.
		return errNumber
	}
	return fmt.Errorf("%s must be of type %s, and not %s", mistyped.Field, mistyped.Type, mistyped.Value)
}

// quantity is what every schema here allows, as far as that is read in no time.
var quantity = regexp.MustCompile(`^[-+]?[0-9.]{1,100}([eE][-+]?[0-9]{1,2}|[a-zA-Z]{0,2})$`)

// meter measures what JSON takes in memory when it is decoded into a type, without decoding
// it: structs, lists and maps by their number. A list of "{}" may take 300 times its length.
//
// Strings are not counted, nor is what a type decodes itself, such as RawExtension: they take
// no more than their JSON. Fields that the type does not have take nothing.
type meter struct {
	walk
	object  *shape // of what a RawExtension is decoded into later; nil if it is not
	size    int64
	endless bool // a quantity takes too long to read
}

// measure passes a value, of which one of this shape is decoded, nil for none. It counts what
// the value refers to, and not the value itself.
func (m *meter) measure(s *shape) {
	c := m.peek()
	switch {
	case s == nil || c == 'n': // null
		m.value()
	case s.kind == reflect.Pointer:
		m.size += s.elem.size
		m.measure(s.elem)
	case s.raw && m.object != nil:
		m.size += m.object.size
		m.measure(m.object)
	case s.quantity && c != '{' && c != '[':
		m.endless = m.endless || !quantity.Match(bytes.TrimSpace(unquote(m.value())))
	case s.kind == reflect.Struct && c == '{':
		m.members(func(key []byte) { m.measure(s.fields[string(unquote(key))]) })
	case s.kind == reflect.Map && c == '{':
		m.entries(s)
	case s.kind == reflect.Slice && c == '[':
		m.elements(func() {
			m.size += s.elem.size
			m.measure(s.elem)
		})
	default:
		m.value()
	}
}

// entries measures a map. Its memory comes in groups of eight entries, and is up to twice what
// the entries take.
func (m *meter) entries(s *shape) {
	const empty, group = 64, 8
	n := int64(0)
	m.members(func([]byte) {
		n++
		m.measure(s.elem)
	})
	m.size += empty
	if n > 0 {
		m.size += max(group, 2*n) * s.entry
	}
}

// shape is a Go type, as JSON is decoded into it.
type shape struct {
	kind   reflect.Kind // Invalid for a type that decodes itself
	size   int64        // of a value, in bytes
	entry  int64        // of a map: the size of a key and a value
	elem   *shape       // of a pointer, a map or a slice
	fields map[string]*shape

	quantity, raw bool // whether it is resource.Quantity, or runtime.RawExtension
}

var (
	unmarshaler   = reflect.TypeFor[stdjson.Unmarshaler]()
	quantityType  = reflect.TypeFor[resource.Quantity]()
	extensionType = reflect.TypeFor[runtime.RawExtension]()

	shapes sync.Map // by reflect.Type
)

// shapeOf returns the shape of a type.
func shapeOf(t reflect.Type) *shape {
	known, ok := shapes.Load(t)
	if !ok {
		known, _ = shapes.LoadOrStore(t, newShape(t, map[reflect.Type]*shape{}))
	}
	return known.(*shape)
}

// newShape makes the shape of a type. made holds those of the types around it.
func newShape(t reflect.Type, made map[reflect.Type]*shape) *shape {
	if s, ok := made[t]; ok {
		return s
	}
	s := &shape{size: int64(t.Size()), quantity: t == quantityType, raw: t == extensionType}
	made[t] = s
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return s
	}
	s.kind = t.Kind()
	switch s.kind {
	case reflect.Struct:
		s.fields = map[string]*shape{}
		addFields(s.fields, t, made)
	case reflect.Map:
		s.entry = int64(t.Key().Size() + t.Elem().Size())
		s.elem = newShape(t.Elem(), made)
	case reflect.Pointer, reflect.Slice:
		s.elem = newShape(t.Elem(), made)
	}
	return s
}

// addFields adds the fields of a struct type, by their names in JSON.
func addFields(fields map[string]*shape, t reflect.Type, made map[reflect.Type]*shape) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			addFields(fields, field.Type, made)
		case field.IsExported() && name != "-":
			fields[cmp.Or(name, field.Name)] = newShape(field.Type, made)
		}
	}
}
