// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	stdjson "encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// agrees checks that a walk finds the same members and elements in JSON as a decoder.
func agrees(t *testing.T, text []byte) {
	t.Helper()
	var object map[string]stdjson.RawMessage
	var list []stdjson.RawMessage
	switch {
	case stdjson.Unmarshal(text, &object) == nil && object != nil:
		got := fields(text)
		if len(got) != len(object) {
			t.Errorf("%d members, want %d: %s", len(got), len(object), text)
		}
		for key, value := range object {
			if string(got[key]) != string(value) || string(find(text, key)) != string(value) {
				t.Errorf("for %q, fields returns %s and find returns %s, want %s: %s", key, got[key], find(text, key), value, text)
			}
			agrees(t, value)
		}
	case stdjson.Unmarshal(text, &list) == nil && list != nil:
		if got := length(text); got != len(list) {
			t.Errorf("%d elements, want %d: %s", got, len(list), text)
		}
		w := walk{data: text}
		for _, value := range list {
			if got := w.element(); string(got) != string(value) {
				t.Errorf("an element is %s, want %s: %s", got, value, text)
			}
			agrees(t, value)
		}
	}
}

// FuzzWalk walks any text. A walk must end. If a decoder can read the text, the walk must agree with the decoder.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `{`, `[`, `"`, `"\`, `{"a"`, `{"a":`, `[1`, `[,`, `[}`, `{]`, `{"a" 1}`, `nul`, `]`,
		`{ "a" : [ 1 , "]\"}" , { } , [ ] , null , -1.5e3 ] , "\u0061b" : "\\" , "" : { "" : "{" } }`,
		`[[[]],[{}],"",{"a":[]},true,false]`, "\t[\n1\r,\n2 ]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m := meter{walk: walk{data: text}, object: reviewShape}
		m.measure(reviewShape)
		length(text)
		fields(text)
		if (&walk{data: text}).value(); utf8.Valid(text) && stdjson.Valid(text) {
			agrees(t, text)
		}
	})
}

// TestWalkTakesTimeInProportion: the time of a walk is proportional to the length of any text. If the time grew with the square, these
// texts would take hours, and the timeout of go test would end the test.
func TestWalkTakesTimeInProportion(t *testing.T) {
	for name, text := range map[string]string{
		"escapes":           `"` + strings.Repeat(`\\`, 2<<20) + `"`,
		"quotes":            `"` + strings.Repeat(`\"`, 2<<20) + `"`,
		"lists in lists":    strings.Repeat(`[`, 2<<20) + strings.Repeat(`]`, 2<<20),
		"lists without end": strings.Repeat(`[`, 4<<20),
		"objects":           `[` + fill(4<<20, `{}`) + `]`,
		"keys with escapes": `{` + fill(4<<20, `"\\":0`) + `}`,
	} {
		t.Run(name, func(*testing.T) {
			m := meter{walk: walk{data: []byte(text)}, object: reviewShape}
			m.measure(reviewShape)
			(&walk{data: []byte(text)}).value()
		})
	}
}

// memoryOf returns the minimal number of bytes that a value refers to.
func memoryOf(v reflect.Value) int64 {
	size := int64(0)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			size = int64(v.Type().Elem().Size()) + memoryOf(v.Elem())
		}
	case reflect.Struct:
		if reflect.PointerTo(v.Type()).Implements(unmarshaler) {
			return 0
		}
		for _, field := range v.Fields() {
			size += memoryOf(field)
		}
	case reflect.Slice:
		size = int64(v.Type().Elem().Size()) * int64(v.Len())
		for i := range v.Len() {
			size += memoryOf(v.Index(i))
		}
	case reflect.Map:
		size = int64(v.Type().Key().Size()+v.Type().Elem().Size()) * int64(v.Len())
		for _, key := range v.MapKeys() {
			size += memoryOf(v.MapIndex(key))
		}
	}
	return size
}

// TestMeterCountsAllMemory: the meter counts at least the memory that an object needs, for any object.
func TestMeterCountsAllMemory(t *testing.T) {
	for name, kind := range reviewed {
		t.Run(name, func(t *testing.T) {
			most := int64(0)
			for seed := range uint64(100) {
				g := generator{Rand: rand.New(rand.NewPCG(seed, 2))}
				of := reflect.TypeOf(kind.object)
				raw := []byte(print(t, g.value(of, 0)))
				object := reflect.New(of)
				if json.Unmarshal(raw, object.Interface()) != nil {
					continue
				}
				m := meter{walk: walk{data: raw}}
				m.measure(shapeOf(of))
				if least := memoryOf(object.Elem()); m.size < least {
					t.Fatalf("seed %d: the meter counts %d bytes, want at least %d: %s", seed, m.size, least, raw)
				}
				most = max(most, m.size)
			}
			if most < 200 {
				t.Errorf("the largest object needs only %d bytes: the objects are too small", most)
			}
		})
	}
}

// TestMeterCountsObjectsInReviews: the meter counts a review together with its objects, even objects that appear twice or with another
// spelling of the key.
func TestMeterCountsObjectsInReviews(t *testing.T) {
	containers := `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{},{}]}}}}}}`
	object := shapeOf(reflect.TypeOf(reviewed["MyCronJob"].object))
	size := func(request string) int64 {
		m := meter{walk: walk{data: []byte(`{"request":{` + request + `}}`)}, object: object}
		m.measure(reviewShape)
		return m.size
	}
	one := size(`"object":` + containers)
	around := int64(reflect.TypeFor[admissionv1.AdmissionRequest]().Size())
	for name, test := range map[string]struct {
		request string
		want    int64
	}{
		"the old object":     {`"oldObject":` + containers, one},
		"both":               {`"oldObject":` + containers + `,"object":` + containers, 2*one - around},
		"the object twice":   {`"object":` + containers + `,"object":` + containers, 2*one - around},
		"a key with escapes": {`"\u006fbject":` + containers, one},
		"none":               {`"object":null,"uid":"1"`, around},
		"another field":      {`"Object":` + containers, around},
		"groups of the user": {`"userInfo":{"groups":["a","b","c"]}`, around + 3*16},
		"an unknown field":   {`"object":{"spec":{"x":` + containers + `}}`, around + object.size},
	} {
		t.Run(name, func(t *testing.T) {
			if got := size(test.request); got != test.want {
				t.Errorf("%d bytes, want %d", got, test.want)
			}
		})
	}
}
