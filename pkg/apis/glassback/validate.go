// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package glassback

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateRange returns an error if there is a value that is not from low to high.
func ValidateRange(path *field.Path, value *int32, low, high int32) field.ErrorList {
	if value == nil || *value >= low && *value <= high {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be from %d to %d", low, high))}
}
