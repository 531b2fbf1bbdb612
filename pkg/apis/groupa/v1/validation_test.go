// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidate(t *testing.T) {
	spec := func(spec ApiExampleASpec) *ApiExampleA {
		return &ApiExampleA{ObjectMeta: metav1.ObjectMeta{Name: "sample"}, Spec: spec}
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
