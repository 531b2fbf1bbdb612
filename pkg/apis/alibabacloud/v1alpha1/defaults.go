/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

// DefaultUserDataKey is the key of userDataSecretRef, unless it says another one.
const DefaultUserDataKey = "userData"

// Default fills in what the schema defaults, for objects that did not come by it, and what
// depends on another field, which the schema cannot. The latter is never stored: it would
// stay when the other field changes.
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
