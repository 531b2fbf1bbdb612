// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// errNumber is the error for an integer that is too large, or a quantity that takes too long to
// parse. A schema limits the exponent, but not the number of digits.
var errNumber = errors.New("a number is too large, or a quantity has more than 100 digits or an exponent of more than two")

// decode decodes an object. Parsing a quantity like 1e-999999999 takes hours and all memory. The API server calls a mutating webhook
// before the schema can reject it. So decode checks quantities before it parses them.
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
	case strings.HasPrefix(mistyped.Value, "number "): // Its digits follow: the integer is too large.
		return errNumber
	}
	return fmt.Errorf("%s must be of type %s, and not %s", mistyped.Field, mistyped.Type, mistyped.Value)
}

// quantity matches the quantities that every schema here allows and that are parsed quickly.
var quantity = regexp.MustCompile(`^[-+]?[0-9.]{1,100}([eE][-+]?[0-9]{1,2}|[a-zA-Z]{0,2})$`)

// meter computes the memory of decoded JSON without decoding it, from the numbers of structs, list items and map entries. A list of "{}"
// may take 300 times its length.
//
// It does not count strings: a decoded string takes no more bytes than its JSON, if that is valid UTF-8. It does not count a type with an
// own UnmarshalJSON: such a value keeps its JSON, or is short. Fields that the type does not have take no memory.
type meter struct {
	walk
	object    *shape // the type into which a RawExtension is decoded later; nil for none
	size      int64
	endless   bool  // a quantity takes too long to read
	malformed error // the first reason why the JSON cannot be from an API server, or nil
}

// maxText bounds a text, in bytes: a map key, a time or the name of an object in a request, and a text that an error quotes. API servers
// allow at most 317 bytes for such a key or name.
const maxText = 1 << 10

// measure reads one value, and counts the memory that the value refers to, but not the value itself. s is the shape into which the value
// is decoded, or nil.
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
		value := m.value()
		m.endless = m.endless || len(value) > maxText || !quantity.Match(bytes.TrimSpace(unquote(value)))
	case s.kind == reflect.Invalid && !s.verbatim:
		if len(m.value()) > maxText {
			m.refuse("a time, or a number that may be a string, has more than %d bytes", maxText)
		}
	case s.kind == reflect.Struct && c == '{':
		m.fields(s)
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

// fields measures a struct. It refuses a duplicate field, since decoders merge both values.
func (m *meter) fields(s *shape) {
	seen := uint64(0)
	m.members(func(key []byte) {
		f := s.field(key)
		if seen&f.bit != 0 {
			m.refuse("%s is there twice", key)
		}
		seen |= f.bit
		m.measure(f.shape)
	})
}

// refuse records why the JSON cannot be from an API server. The first reason stays.
func (m *meter) refuse(format string, args ...any) {
	if m.malformed == nil {
		m.malformed = fmt.Errorf(format, args...)
	}
}

// entries measures a map. A map allocates groups of eight entries, and up to twice the memory of the entries.
func (m *meter) entries(s *shape) {
	const empty, group = 64, 8
	n := int64(0)
	m.members(func(key []byte) {
		n++
		if len(key) > maxText {
			m.refuse("a key has more than %d bytes", maxText)
		}
		m.measure(s.elem)
	})
	m.size += empty
	if n > 0 {
		m.size += max(group, 2*n) * s.entry
	}
}

// shape describes a Go type into which JSON is decoded.
type shape struct {
	kind   reflect.Kind // Invalid for a type with an own UnmarshalJSON
	size   int64        // of a value, in bytes
	entry  int64        // of a map: the size of a key and a value
	elem   *shape       // of a pointer, a map or a slice
	fields map[string]structField

	quantity, raw bool // whether it is resource.Quantity, or runtime.RawExtension
	verbatim      bool // whether it keeps its JSON
}

// structField is a field of a struct.
type structField struct {
	shape *shape
	bit   uint64 // the field's bit in a set of the struct's fields
}

// field returns the field for a key, or the zero structField.
func (s *shape) field(key []byte) structField {
	if len(key) > maxText {
		return structField{} // Unquoting such a key takes several times its length in memory.
	}
	return s.fields[string(unquote(key))]
}

var (
	unmarshaler   = reflect.TypeFor[stdjson.Unmarshaler]()
	quantityType  = reflect.TypeFor[resource.Quantity]()
	extensionType = reflect.TypeFor[runtime.RawExtension]()
	managedType   = reflect.TypeFor[metav1.FieldsV1]()

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

// newShape returns the shape of a type. made has the shapes of the types that contain it.
func newShape(t reflect.Type, made map[reflect.Type]*shape) *shape {
	if s, ok := made[t]; ok {
		return s
	}
	s := &shape{size: int64(t.Size()), quantity: t == quantityType, raw: t == extensionType, verbatim: t == extensionType || t == managedType}
	made[t] = s
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return s
	}
	s.kind = t.Kind()
	switch s.kind {
	case reflect.Struct:
		s.fields = map[string]structField{}
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
func addFields(fields map[string]structField, t reflect.Type, made map[reflect.Type]*shape) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			addFields(fields, field.Type, made)
		case field.IsExported() && name != "-":
			fields[cmp.Or(name, field.Name)] = structField{newShape(field.Type, made), 1 << len(fields)}
		}
	}
}
