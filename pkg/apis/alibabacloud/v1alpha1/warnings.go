/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

// Warnings returns what is legal but unwise about a valid ECSInstance with defaults, each
// beginning with the field; nil for nothing. kubectl shows them.
//
// That an adopted instance is in no VPC is none of it: it is where it is.
func (e *ECSInstance) Warnings() []string {
	var warnings []string
	s := &e.Spec
	if s.VSwitchID == "" && s.AdoptInstanceID == "" {
		warnings = append(warnings, "spec.vSwitchID: without it ECS is asked for an instance in the classic network, "+
			"which it refuses to most accounts")
	}
	if s.InstanceChargeType == PrePaid && s.DeletionPolicy == DeletionDelete {
		warnings = append(warnings, "spec.deletionPolicy: ECS does not delete a PrePaid instance before its period has ended: "+
			"with Delete this object cannot go before that")
	}
	if s.RecreatePolicy == RecreateAlways && s.Disks != nil && len(s.Disks.Data) > 0 {
		warnings = append(warnings, "spec.recreatePolicy: with Always another instance gets new disks, "+
			"without what was on those of the one that is gone")
	}
	return warnings
}
