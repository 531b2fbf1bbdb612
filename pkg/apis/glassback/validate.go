// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package glassback

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rules of fields that several kinds have. The schemas have the same rules.
var (
	// ImageName matches the name of a container image.
	ImageName = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/|[[][0-9A-Fa-f:]+](:[0-9]+)?/)?` + // registry
		`[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*` + // repository
		`(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?` + // tag
		`(@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]+)?$`) // digest
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	secretKey  = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
)

// ValidateText returns an error if a text is too long, or not ok: must says what it has to be.
func ValidateText(path *field.Path, text string, maxLength int, ok func(string) bool, must string) field.ErrorList {
	switch {
	case utf8.RuneCountInString(text) > maxLength:
		return field.ErrorList{field.TooLong(path, text, maxLength)}
	case !ok(text):
		return field.ErrorList{field.Invalid(path, text, must)}
	}
	return nil
}

// ValidateObjectName returns an error if a text is not the name of an object. kind is like "a Secret", and example is a name.
func ValidateObjectName(path *field.Path, name, kind, example string) field.ErrorList {
	return ValidateText(path, name, validation.DNS1123SubdomainMaxLength, objectName.MatchString,
		`must be the name of `+kind+`, like "`+example+`": lower case letters, digits, "-" and "."`)
}

// ValidateSecretKey returns an error if a text is not a key of a Secret.
func ValidateSecretKey(path *field.Path, key, example string) field.ErrorList {
	return ValidateText(path, key, validation.DNS1123SubdomainMaxLength, secretKey.MatchString,
		`must be a key of a Secret, like "`+example+`": letters, digits, "-", "_" and "."`)
}

// ValidateRange returns an error if there is a value that is not from low to high.
func ValidateRange(path *field.Path, value *int32, low, high int32) field.ErrorList {
	if value == nil || *value >= low && *value <= high {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be from %d to %d", low, high))}
}

// ValidateResources returns an error if a container requests more of a resource than its limit.
func ValidateResources(path *field.Path, r *corev1.ResourceRequirements) field.ErrorList {
	if r == nil {
		return nil
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		request, requested := r.Requests[name]
		limit, limited := r.Limits[name]
		if requested && limited && request.Cmp(limit) > 0 {
			return field.ErrorList{field.Invalid(path.Child("requests").Key(string(name)), request.String(), "must not be more than its limit")}
		}
	}
	return nil
}
