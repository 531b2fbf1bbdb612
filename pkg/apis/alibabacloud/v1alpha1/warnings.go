// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Warnings returns one message for each legal but unwise setting of a valid ECSInstance with
// defaults, or nil. Each message begins with the field. kubectl prints them.
//
// An adopted instance in no VPC gets no warning: the spec does not choose its network.
func (e *ECSInstance) Warnings() []string {
	var warnings []string
	s := &e.Spec
	if s.VSwitchID == "" && s.AdoptInstanceID == "" {
		warnings = append(warnings, "spec.vSwitchID: without a vSwitch, the operator requests the classic network, "+
			"which ECS rejects for most accounts")
	}
	if s.InstanceChargeType == PrePaid && s.DeletionPolicy == DeletionDelete {
		warnings = append(warnings, "spec.deletionPolicy: ECS does not delete a PrePaid instance before its period ends: "+
			"with Delete, the deletion of this object waits until then")
	}
	if s.RecreatePolicy == RecreateAlways && s.Disks != nil && len(s.Disks.Data) > 0 {
		warnings = append(warnings, "spec.recreatePolicy: with Always, a new instance gets new data disks, "+
			"without the data of the old ones")
	}
	return warnings
}
