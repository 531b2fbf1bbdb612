// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDefault(t *testing.T) {
	for name, spec := range map[string]ApiExampleASpec{
		"nothing stays nothing": {},
		"what is set stays":     {Foo: "bar", FirstName: "Jimmy", LastName: "Song"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &ApiExampleA{Spec: spec}
			a.Default()
			if !reflect.DeepEqual(a.Spec, spec) {
				t.Errorf("got %+v, want %+v", a.Spec, spec)
			}
		})
	}
}

func TestGreeting(t *testing.T) {
	for name, test := range map[string]struct {
		spec ApiExampleASpec
		want string
	}{
		"both names, as the seed logs them": {ApiExampleASpec{FirstName: "Jimmy", LastName: "Song"}, "Greetings to Jimmy Song"},
		"the given name alone":              {ApiExampleASpec{FirstName: "Jimmy"}, "Greetings to Jimmy"},
		"the family name alone":             {ApiExampleASpec{LastName: "Song"}, "Greetings to Song"},
		"names are greeted before foo": {
			ApiExampleASpec{Foo: "bar", FirstName: "Jimmy", LastName: "Song"}, "Greetings to Jimmy Song",
		},
		"without a name foo is greeted":              {ApiExampleASpec{Foo: "bar"}, "Greetings to bar"},
		"names of nothing but spaces are none":       {ApiExampleASpec{Foo: "bar", FirstName: " ", LastName: "  "}, "Greetings to bar"},
		"without anything the object is greeted":     {ApiExampleASpec{}, "Greetings to sample"},
		"spaces around a name do not come out again": {ApiExampleASpec{FirstName: " Jimmy", LastName: "Song "}, "Greetings to Jimmy Song"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &ApiExampleA{ObjectMeta: metav1.ObjectMeta{Name: "sample"}, Spec: test.spec}
			if got := a.Greeting(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
