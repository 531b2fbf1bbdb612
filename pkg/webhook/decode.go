/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"cmp"
	"errors"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// errNumber says that an integer does not fit, or a quantity takes too long to read. A schema
// bounds the exponent, and not the number of digits.
var errNumber = errors.New("a number is too large, or a quantity has more than 100 digits or an exponent of more than two")

// decode reads an object, and returns its fields besides, also those that its type does
// not know. A quantity like 1e-999999999 takes hours to read, and all memory; and what
// defaults is asked before the schema refuses it. So quantities are looked at before they
// are read.
func decode(raw []byte, obj any) (map[string]any, error) {
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("it is null")
	}
	if !readable(reflect.TypeOf(obj), fields) {
		return nil, errNumber
	}
	return fields, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, obj)
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	// quantity is what every schema here allows, as far as that is read in no time.
	quantity = regexp.MustCompile(`^[-+]?[0-9.]{1,100}([eE][-+]?[0-9]{1,2}|[a-zA-Z]{0,2})$`)
)

// readable reports whether each quantity in a JSON value, of which an object of type t is
// read, is a plain one, and each integer fits: of 1<<32 + 3, FromUnstructured makes 3.
func readable(t reflect.Type, value any) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == quantityType {
		text, isText := value.(string)
		return !isText || quantity.MatchString(strings.TrimSpace(text)) // A number is small already.
	}
	isInt := reflect.Zero(t).CanInt()
	switch value := value.(type) {
	case int64:
		return !isInt || !t.OverflowInt(value)
	case float64:
		return !isInt
	case map[string]any:
		return readableFields(t, value)
	case []any:
		for _, element := range value {
			if t.Kind() == reflect.Slice && !readable(t.Elem(), element) {
				return false
			}
		}
	}
	return true
}

func readableFields(t reflect.Type, fields map[string]any) bool {
	switch t.Kind() {
	case reflect.Map:
		for _, value := range fields {
			if !readable(t.Elem(), value) {
				return false
			}
		}
	case reflect.Struct:
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous && name == "" {
				if !readable(field.Type, fields) {
					return false
				}
				continue
			}
			if value, there := fields[cmp.Or(name, field.Name)]; there && !readable(field.Type, value) {
				return false
			}
		}
	}
	return true
}
