// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// Encode returns the JSON of a value as encoding/json writes it, but with tokens in place of the texts that must not be recorded: see
// shown.go. Encode does not change or copy value, and other goroutines may read value too.
//
// A decision that compares two texts stays the same with tokens. A token is a digest with a key. The process makes the key for its first
// token, and writes it nowhere, so a guess of a text cannot be checked. The tokens of two processes differ.
func Encode(value any) json.RawMessage { return encodeWith(value, token) }

// EncodeAgain is Encode for a value that was read from a record, or computed from one: tokens stay unchanged.
func EncodeAgain(value any) json.RawMessage { return encodeWith(value, keepToken) }

func encodeWith(value any, hide func(string) string) json.RawMessage {
	e := encoder{out: make([]byte, 0, 4096), hide: hide}
	e.value(reflect.ValueOf(value), true)
	return e.out
}

type encoder struct {
	out  []byte
	hide func(string) string
}

// value appends the JSON of v. show says whether a text is recorded.
func (e *encoder) value(v reflect.Value, show bool) {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	if !v.IsValid() {
		e.out = append(e.out, "null"...)
		return
	}
	form := formOf(v.Type())
	if form.marshals {
		e.marshaler(v)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		e.out = strconv.AppendBool(e.out, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.out = strconv.AppendInt(e.out, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.out = strconv.AppendUint(e.out, v.Uint(), 10)
	case reflect.String:
		e.text(v.String(), show)
	case reflect.Struct:
		e.out = append(e.out, '{')
		e.fields(v, form.fields)
		e.close('}')
	case reflect.Slice, reflect.Array:
		e.list(v, show)
	case reflect.Map:
		e.dictionary(v)
	default: // No kind has numbers with a fraction, and they might be secret.
		e.out = append(e.out, "null"...)
	}
}

// close ends an object or a list, whose last element has a comma behind it.
func (e *encoder) close(bracket byte) {
	e.out = append(bytes.TrimSuffix(e.out, []byte{','}), bracket)
}

func (e *encoder) fields(v reflect.Value, fields []field) {
	for i := range fields {
		f := &fields[i]
		value := v.Field(f.index)
		switch {
		case f.inline:
			for value.Kind() == reflect.Pointer && !value.IsNil() {
				value = value.Elem()
			}
			if value.Kind() == reflect.Struct {
				e.fields(value, formOf(value.Type()).fields)
			}
		case f.omitted, f.omitEmpty && isEmpty(value), f.omitZero && isZero(value):
		default:
			e.out = append(e.out, f.key...)
			e.value(value, f.shown)
			e.out = append(e.out, ',')
		}
	}
}

func (e *encoder) list(v reflect.Value, show bool) {
	// Bytes are data, which must not be recorded.
	if (v.Kind() == reflect.Slice && v.IsNil()) || v.Type().Elem().Kind() == reflect.Uint8 {
		e.out = append(e.out, "null"...)
		return
	}
	e.out = append(e.out, '[')
	for i := range v.Len() {
		e.value(v.Index(i), show)
		e.out = append(e.out, ',')
	}
	e.close(']')
}

// dictionary appends a map. All keys but lastApplied are recorded, and the texts of the keys for which isShownKey is true.
func (e *encoder) dictionary(v reflect.Value) {
	if v.IsNil() {
		e.out = append(e.out, "null"...)
		return
	}
	type entry struct {
		key   string
		show  bool
		value reflect.Value
	}
	var entries []entry
	for all := v.MapRange(); all.Next(); {
		switch key := all.Key(); {
		case key.Kind() != reflect.String:
			entries = append(entries, entry{strconv.FormatInt(key.Int(), 10), true, all.Value()})
		case key.String() != lastApplied:
			entries = append(entries, entry{key.String(), isShownKey(key.String()), all.Value()})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	e.out = append(e.out, '{')
	for _, entry := range entries {
		e.quote(entry.key)
		e.out = append(e.out, ':')
		e.value(entry.value, entry.show)
		e.out = append(e.out, ',')
	}
	e.close('}')
}

// marshaler appends the result of MarshalJSON of v: a time, a quantity or a number of replicas.
func (e *encoder) marshaler(v reflect.Value) {
	if !v.CanAddr() {
		addressable := reflect.New(v.Type()).Elem()
		addressable.Set(v)
		v = addressable
	}
	text, err := v.Addr().Interface().(json.Marshaler).MarshalJSON()
	if err != nil {
		text = []byte("null")
	}
	e.out = append(e.out, text...)
}

func (e *encoder) text(text string, show bool) {
	if !show && text != "" {
		text = e.hide(text)
	}
	e.quote(text)
}

func (e *encoder) quote(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // It cannot fail.
			e.out = append(e.out, quoted...)
			return
		}
	}
	e.out = append(e.out, '"')
	e.out = append(e.out, text...)
	e.out = append(e.out, '"')
}

// isEmpty has the rule of omitempty of encoding/json, and isZero that of omitzero.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func isZero(v reflect.Value) bool {
	if zero, ok := reflect.TypeAssert[interface{ IsZero() bool }](v); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return zero.IsZero()
	}
	return v.IsZero()
}

// isToken matches a token.
var isToken = regexp.MustCompile(`^redacted-[0-9a-f]{16}$`).MatchString

var tokenKey = sync.OnceValue(func() (key [32]byte) {
	_, _ = rand.Read(key[:]) // crypto/rand documents that it never fails.
	return key
})

// token returns what is recorded in place of a text.
func token(text string) string {
	key := tokenKey()
	return "redacted-" + digest(string(key[:])+text)
}

// keepToken returns a text of a replayed plan: an observed token unchanged, and "redacted" for a text that only this program has made.
func keepToken(text string) string {
	if isToken(text) {
		return text
	}
	return "redacted"
}

// Digest returns a digest without a key, for a text that follows from what the record holds: it only makes the record smaller.
func Digest(text string) string { return "sha256:" + digest(text) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
