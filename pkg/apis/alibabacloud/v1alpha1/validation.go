// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// region matches the ID of a region. The operator signs requests to a host whose name has it.
var region = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Validate returns the errors of e, or nil. old is the object that e replaces; nil if e is new. Both have defaults.
//
// Only the schema has most of the rules. Validate repeats those without which the operator asks ECS for nothing: where, which type, and
// from what. It has one more: adoptInstanceID is fixed as soon as an instance may exist, and not only when its ID is known.
func (e *ECSInstance) Validate(old *ECSInstance) field.ErrorList {
	s, path := &e.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if !region.MatchString(s.RegionID) {
		errs = append(errs, field.Invalid(path.Child("regionID"), s.RegionID,
			`must be the ID of a region, like "cn-beijing": lower case letters, digits and "-"`))
	}
	if s.InstanceType == "" {
		errs = append(errs, field.Invalid(path.Child("instanceType"), s.InstanceType,
			`must be an instance type, like "ecs.g6.large": no spaces, and nothing but ASCII`))
	}
	if s.ImageID == "" && s.AdoptInstanceID == "" {
		errs = append(errs, field.Required(path.Child("imageID"),
			`say what the system disk is made from, like "aliyun_3_x64_20G_alibase_20240528.vhd"`))
	}
	if old != nil && (old.Status.InstanceID != "" || old.Status.Create != nil) && s.AdoptInstanceID != old.Spec.AdoptInstanceID {
		errs = append(errs, field.Forbidden(path.Child("adoptInstanceID"),
			"cannot be changed while there is an instance: make another ECSInstance, or delete this one first"))
	}
	return errs
}
