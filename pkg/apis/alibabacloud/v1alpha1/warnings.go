/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1alpha1

// Warnings returns what is valid but unwise in a valid ECSInstance with defaults, or nil.
// Each warning begins with the field. kubectl prints them.
//
// There is no warning about an adopted instance outside of a VPC: the operator cannot move it.
func (e *ECSInstance) Warnings() []string {
	var warnings []string
	s := &e.Spec
	if s.VSwitchID == "" && s.AdoptInstanceID == "" {
		warnings = append(warnings, "spec.vSwitchID: without it the operator requests an instance in the classic network, "+
			"which ECS refuses to most accounts")
	}
	if s.InstanceChargeType == PrePaid && s.DeletionPolicy == DeletionDelete {
		warnings = append(warnings, "spec.deletionPolicy: ECS does not delete a PrePaid instance before its period has ended: "+
			"with Delete this object stays until then")
	}
	if s.RecreatePolicy == RecreateAlways && s.Disks != nil && len(s.Disks.Data) > 0 {
		warnings = append(warnings, "spec.recreatePolicy: with Always another instance gets new disks, "+
			"without the data of the old ones")
	}
	return warnings
}
