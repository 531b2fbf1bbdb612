// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/descriptor"
)

// TestDecodeReadsNoQuantityThatTakesLong: decode refuses objects with a quantity that needs hours or too much memory to parse. It accepts
// objects in which another field looks like such a quantity.
func TestDecodeReadsNoQuantityThatTakesLong(t *testing.T) {
	for name, test := range map[string]struct {
		json string
		ok   bool
	}{
		"a number":                              {`{"spec":{"resources":{"limits":{"cpu":0.5}}}}`, true},
		"an exponent of two digits":             {`{"spec":{"storage":{"size":"1.5e-99"}}}`, true},
		"a hundred digits":                      {`{"spec":{"storage":{"size":"` + strings.Repeat("1", 100) + `"}}}`, true},
		"an exponent that makes a small number": {`{"spec":{"storage":{"size":"1e-999999999"}}}`, false},
		"this exponent without quotes":          {`{"spec":{"storage":{"size":1e-999999999}}}`, false},
		"this exponent with an escape":          {`{"spec":{"storage":{"size":"\u0031e-999999999"}}}`, false},
		"this exponent in a map":                {`{"spec":{"resources":{"limits":{"cpu":".1e-000999999"}}}}`, false},
		"this exponent in the last quantity":    {`{"spec":{"resources":{"requests":{"cpu":"1","memory":"1e-999999999"}}}}`, false},
		"very many digits":                      {`{"spec":{"storage":{"size":"` + strings.Repeat("1", 5_000_000) + `"}}}`, false},
		"very many digits after the point":      {`{"spec":{"storage":{"size":0.` + strings.Repeat("1", 5_000_000) + `}}}`, false},
		"a UID is not a quantity": {
			`{"metadata":{"uid":"4110527e-3178-4123-8a1e-123456789012","ownerReferences":[{"uid":"1e-99999999"}]}}`, true,
		},
		"labels and annotations are no quantities":  {`{"metadata":{"labels":{"a":"1e-999999999"},"annotations":{"b":"1e-999999999"}}}`, true},
		"a value of config is not a quantity":       {`{"spec":{"config":{"a":"1e-999999999"}}}`, true},
		"an unknown field is not a quantity":        {`{"unknown":{"size":"1e-999999999"},"spec":{"size2":"1e-999999999"}}`, true},
		"a field in another case is not a quantity": {`{"spec":{"storage":{"Size":"1e-999999999"}}}`, true},
		"a list instead of an object":               {`{"spec":{"storage":["1e-999999999"]}}`, false},
		"nothing":                                   {``, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode([]byte(test.json), &redisv1.RedisCluster{})
			if (err == nil) != test.ok {
				t.Errorf("error %v, want an error: %t", err, !test.ok)
			}
		})
	}
}

// TestDecodeFindsEveryQuantity: decode finds the quantities of the other kinds too: in lists, in inlined types, and behind pointers.
func TestDecodeFindsEveryQuantity(t *testing.T) {
	const endless = `"1e-999999999"`
	for name, test := range map[string]struct {
		obj  any
		json string
	}{
		"a volume of a Job": {
			&mcjv1.MyCronJob{},
			`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"volumes":[{"name":"a","emptyDir":{"sizeLimit":` + endless + `}}]}}}}}}`,
		},
		"the environment of an Application": {
			&appv1.Application{},
			`{"spec":{"env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":` + endless + `}}}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := decode([]byte(test.json), test.obj); !errors.Is(err, errNumber) {
				t.Errorf("error %v, want a refused quantity", err)
			}
		})
	}
}

// faulty is an object with any errors.
type faulty struct {
	descriptor.Object

	errs field.ErrorList
}

func validateFaulty(now, _ descriptor.Object) field.ErrorList { return now.(*faulty).errs }

// TestNewErrors: an error is old if the object had an equal error before the update. The values that they quote have the same type then.
func TestNewErrors(t *testing.T) {
	path := field.NewPath("spec", "x")
	invalid := func(value any) *field.Error { return field.Invalid(path, value, "must be another one") }
	for name, test := range map[string]struct {
		now, old *field.Error
		isOld    bool
	}{
		"the same text":                     {invalid("a"), invalid("a"), true},
		"another text":                      {invalid("a"), invalid("b"), false},
		"the same number of another type":   {invalid(int32(1)), invalid(int64(1)), false},
		"the same list":                     {invalid([]string{"a"}), invalid([]string{"a"}), true},
		"another list":                      {invalid([]string{"a"}), invalid([]string{"b"}), false},
		"the same text at another address":  {invalid(ptr.To("a")), invalid(ptr.To("a")), true},
		"no value":                          {invalid(nil), invalid(nil), true},
		"the same field of another element": {field.Required(path.Index(0), ""), field.Required(path.Index(1), ""), false},
		"another detail":                    {field.Required(path, "a"), field.Required(path, "b"), false},
		"another type of error":             {field.Required(path, "a"), field.Forbidden(path, "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			other := field.Required(path.Child("other"), "")
			errs := newErrors(validateFaulty, &faulty{errs: field.ErrorList{test.now, other, test.now}},
				&faulty{errs: field.ErrorList{test.old, test.old}})
			want := 3
			if test.isOld {
				want = 1
			}
			if len(errs) != want || errs[len(errs)/2] != other {
				t.Errorf("new are %v, want %d errors", errs, want)
			}
		})
	}
}
