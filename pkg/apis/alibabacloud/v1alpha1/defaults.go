// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// DefaultUserDataKey is the default of userDataSecretRef.key.
const DefaultUserDataKey = "userData"

// Default sets the defaults of the schema, for objects without them, and the defaults that
// depend on another field, which a schema cannot have. The latter are never stored: a stored
// value would stay when the other field changes.
func (e *ECSInstance) Default() {
	s := &e.Spec
	set(&s.InstanceTypeChangePolicy, TypeChangeWhenStopped)
	set(&s.InstanceChargeType, PostPaid)
	set(&s.PowerState, PowerRunning)
	set(&s.RecreatePolicy, RecreateNever)
	if s.UserDataSecretRef != nil {
		set(&s.UserDataSecretRef.Key, DefaultUserDataKey)
	}
	if s.AdoptInstanceID != "" {
		set(&s.DeletionPolicy, DeletionRetain)
		return
	}
	set(&s.DeletionPolicy, DeletionDelete)
	if s.InstanceChargeType == PrePaid {
		set(&s.PeriodUnit, Month)
	}
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
