// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// faulty is an object with any errors.
type faulty struct {
	metav1.ObjectMeta

	errs field.ErrorList
}

func (f *faulty) DeepCopy() *faulty                { return &faulty{errs: f.errs} }
func (*faulty) Default()                           {}
func (f *faulty) Validate(*faulty) field.ErrorList { return f.errs }
func (*faulty) Warnings() []string                 { return nil }

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
			errs := newErrors(&faulty{errs: field.ErrorList{test.now, other, test.now}}, &faulty{errs: field.ErrorList{test.old, test.old}})
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
