// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxWordsLength = 100

var controlCharacters = regexp.MustCompile(`[[:cntrl:]]`)

// Validate returns the errors of a, or nil: words that are too long, or have control characters. The argument is the object that a
// replaces: it is not used, because no field is immutable.
func (a *ApiExampleA) Validate(_ *ApiExampleA) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	for _, words := range []struct{ field, value string }{
		{"foo", a.Spec.Foo}, {"first_name", a.Spec.FirstName}, {"last_name", a.Spec.LastName},
	} {
		if utf8.RuneCountInString(words.value) > maxWordsLength || controlCharacters.MatchString(words.value) {
			errs = append(errs, field.Invalid(spec.Child(words.field), words.value,
				fmt.Sprintf("must be one line of no more than %d characters, without control characters", maxWordsLength)))
		}
	}
	return errs
}
