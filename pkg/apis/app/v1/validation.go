// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "k8s.io/apimachinery/pkg/util/validation/field"

// Validate returns an error if a has no image, without which there is nothing to run. The schema has this rule and all others. The
// argument is the object that a replaces: it is not used, because no field of an Application is immutable.
//
// The API server may reject a Deployment or a Service for other reasons, when the controller applies it: then the condition Degraded has
// its message.
func (a *Application) Validate(_ *Application) field.ErrorList {
	if a.Spec.Image == "" {
		return field.ErrorList{field.Required(field.NewPath("spec", "image"), `say which image to run, like "nginx:1.27"`)}
	}
	return nil
}
