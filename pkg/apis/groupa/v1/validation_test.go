// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidate(t *testing.T) {
	named := func(name string) *ApiExampleA { return &ApiExampleA{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	spec := func(spec ApiExampleASpec) *ApiExampleA {
		a := named("sample")
		a.Spec = spec
		return a
	}
	for name, test := range map[string]struct {
		object *ApiExampleA
		want   string // in the error; "" for none
	}{
		"nothing is valid":      {spec(ApiExampleASpec{}), ""},
		"the seed's is valid":   {spec(ApiExampleASpec{Foo: "bar"}), ""},
		"names are valid":       {spec(ApiExampleASpec{FirstName: "Jimmy", LastName: "Song"}), ""},
		"any script is valid":   {spec(ApiExampleASpec{FirstName: "净超", LastName: "宋"}), ""},
		"100 letters are valid": {spec(ApiExampleASpec{Foo: strings.Repeat("宋", 100)}), ""},
		"a name of 63 is valid": {named(strings.Repeat("x", 63)), ""},
		"a name of 64 is no label": {named(strings.Repeat("x", 64)),
			"metadata.name: Invalid value: \"" + strings.Repeat("x", 64) + "\": must have no more than 63 characters"},
		"101 letters": {spec(ApiExampleASpec{Foo: strings.Repeat("x", 101)}),
			"spec.foo: Invalid value: \"" + strings.Repeat("x", 101) + "\": must be one line of no more than 100 characters"},
		"a given name of two lines": {
			spec(ApiExampleASpec{FirstName: "Jimmy\nSong"}), `spec.first_name: Invalid value: "Jimmy\nSong": must be one line`,
		},
		"a family name with an escape": {
			spec(ApiExampleASpec{LastName: "\x1b[31mSong"}), `spec.last_name: Invalid value: "\x1b[31mSong": must be one line`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := test.object.Validate(nil)
			switch {
			case test.want == "" && len(errs) > 0:
				t.Errorf("got %v, want none", errs.ToAggregate())
			case test.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), test.want)):
				t.Errorf("got %v, want %s", errs.ToAggregate(), test.want)
			}
		})
	}
}

// FuzzValidate reads objects as clients send them.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"apiexamplea-sample"},"spec":{"foo":"bar"}}`,
		`{"spec":{"first_name":"Jimmy","last_name":"Song"}}`,
		`{"spec":{"foo":"\u0000","first_name":" ","last_name":"\u2028"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &ApiExampleA{}
		if json.Unmarshal(data, a) != nil {
			return
		}
		a.Default()
		again := a.DeepCopy()
		again.Default()
		errs := again.Validate(nil)
		if !reflect.DeepEqual(a, again) {
			t.Errorf("Default or Validate changed an object with defaults: %+v became %+v", a, again)
		}
		for _, err := range errs {
			if err.Field == "" {
				t.Errorf("names no field: %v", err)
			}
		}
		if len(errs) > 0 {
			return
		}
		// What is valid makes one line, that a ConfigMap takes.
		greeting := a.Greeting()
		if !utf8.ValidString(greeting) || strings.ContainsAny(strings.TrimSuffix(greeting, a.Name), "\x00\r\n") {
			t.Errorf("valid with the greeting %q", greeting)
		}
	})
}
