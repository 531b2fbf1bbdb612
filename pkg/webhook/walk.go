// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	stdjson "encoding/json"
)

// walk reads JSON from the beginning to the end without decoding or allocations. For invalid JSON, walk terminates, but its result is
// undefined. Decoding then reports the error.
type walk struct {
	data []byte
	at   int
}

// peek moves to the next byte that is not white space, and returns it; 0 at the end.
func (w *walk) peek() byte {
	for ; w.at < len(w.data); w.at++ {
		switch c := w.data[w.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// skip moves behind the next byte if it is c, and reports whether it is.
func (w *walk) skip(c byte) bool {
	if w.peek() != c {
		return false
	}
	w.at++
	return true
}

// members calls value for each member of the object that begins here. The callback must move behind the value of the member. The key has
// quotes, as in the JSON.
func (w *walk) members(value func(key []byte)) {
	for w.skip('{'); w.peek() == '"'; w.skip(',') {
		key := w.value()
		if !w.skip(':') {
			break
		}
		value(key)
	}
	w.end('}')
}

// elements calls element for each element of the list that begins here. The callback must move behind the element.
func (w *walk) elements(element func()) {
	w.skip('[')
	for w.peek() != ']' {
		before := w.at
		element()
		if w.at == before || !w.skip(',') {
			break
		}
	}
	w.end(']')
}

// element moves behind the next element of a list, and returns it: nil at the end of the list.
func (w *walk) element() []byte {
	if !w.skip('[') && !w.skip(',') || w.peek() == ']' {
		return nil
	}
	return w.value()
}

// length returns the number of elements of a list.
func length(list []byte) int {
	n := 0
	for w := (walk{data: list}); w.element() != nil; n++ {
	}
	return n
}

// fields returns the members of an object by their keys, and an empty map for other JSON.
func fields(object []byte) map[string][]byte {
	all := map[string][]byte{}
	w := walk{data: object}
	w.members(func(key []byte) { all[string(unquote(key))] = w.value() })
	return all
}

// end moves behind the end of an object or a list. Without such an end the JSON is invalid, and the walk ends.
func (w *walk) end(c byte) {
	if !w.skip(c) {
		w.at = len(w.data)
	}
}

// value moves behind a value, and returns it.
func (w *walk) value() []byte {
	w.peek()
	start, depth := w.at, 0
	for w.at < len(w.data) {
		switch c := w.data[w.at]; c {
		case '"':
			w.text()
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			if depth == 0 {
				return w.data[start:w.at] // the end of the surrounding object or list
			}
			depth--
			w.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return w.data[start:w.at]
			}
			w.at++
			continue
		default:
			w.at++
			continue // in the middle of a number, or of null, true or false
		}
		if depth == 0 {
			break
		}
	}
	return w.data[start:w.at]
}

// text moves behind a string.
func (w *walk) text() {
	w.at++
	for quote := -1; w.at < len(w.data); {
		if quote < w.at { // Search each quote only once: repeated searches in a string of escapes are quadratic.
			next := bytes.IndexByte(w.data[w.at:], '"')
			if next < 0 {
				break
			}
			quote = w.at + next
		}
		escape := bytes.IndexByte(w.data[w.at:quote], '\\')
		if escape < 0 {
			w.at = quote + 1
			return
		}
		w.at += escape + 2
	}
	w.at = len(w.data)
}

// unquote returns the value of a JSON string, and any other JSON unchanged. It allocates only if the string has escapes.
func unquote(text []byte) []byte {
	if len(text) < 2 || text[0] != '"' {
		return text
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	var value string
	if stdjson.Unmarshal(text, &value) != nil {
		return nil
	}
	return []byte(value)
}

// isObject reports whether JSON is an object.
func isObject(data []byte) bool { return (&walk{data: data}).peek() == '{' }

// isList reports whether JSON is a list.
func isList(data []byte) bool { return (&walk{data: data}).peek() == '[' }

// find returns the value of the last member with a key, like decoders; nil if there is none.
func find(object []byte, key string) []byte {
	var found []byte
	w := &walk{data: object}
	w.members(func(name []byte) {
		value := w.value()
		// An escape takes up to six bytes for one. Unquoting longer names would waste memory.
		if len(name) <= 6*len(key)+len(`""`) && string(unquote(name)) == key {
			found = value
		}
	})
	return found
}
