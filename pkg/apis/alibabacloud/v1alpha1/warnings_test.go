// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"
	"testing"

	"k8s.io/utils/ptr"
)

func TestWarnings(t *testing.T) {
	const (
		network  = "spec.vSwitchID: without a vSwitch, the operator requests the classic network, which ECS rejects for most accounts"
		deletion = "spec.deletionPolicy: ECS does not delete a PrePaid instance before its period ends: " +
			"with Delete, the deletion of this object waits until then"
		disks = "spec.recreatePolicy: with Always, a new instance gets new data disks, without the data of the old ones"
	)
	connected := func(mutate func(s *ECSInstanceSpec)) *ECSInstance {
		return valid(func(s *ECSInstanceSpec) {
			s.VSwitchID = "vsw-1"
			mutate(s)
		})
	}
	paid := func(mutate func(s *ECSInstanceSpec)) *ECSInstance {
		return connected(func(s *ECSInstanceSpec) {
			s.InstanceChargeType, s.Period = PrePaid, ptr.To[int32](1)
			mutate(s)
		})
	}
	data := &Disks{Data: []DataDisk{{SizeGiB: ptr.To[int32](20)}}}
	for name, test := range map[string]struct {
		object *ECSInstance
		want   []string
	}{
		"the seed is in no VPC":              {valid(func(*ECSInstanceSpec) {}), []string{network}},
		"in a VPC there is nothing to say":   {connected(func(*ECSInstanceSpec) {}), nil},
		"an adopted instance is where it is": {valid(func(s *ECSInstanceSpec) { s.AdoptInstanceID = "i-1" }), nil},
		"what is paid for cannot be deleted": {paid(func(*ECSInstanceSpec) {}), []string{deletion}},
		"... but kept":                       {paid(func(s *ECSInstanceSpec) { s.DeletionPolicy = DeletionRetain }), nil},
		"another instance has other disks": {
			connected(func(s *ECSInstanceSpec) { s.RecreatePolicy, s.Disks = RecreateAlways, data }), []string{disks},
		},
		"... but not for a system disk": {
			connected(func(s *ECSInstanceSpec) { s.RecreatePolicy, s.Disks = RecreateAlways, &Disks{System: &SystemDisk{}} }), nil,
		},
		"... or of none":             {connected(func(s *ECSInstanceSpec) { s.RecreatePolicy = RecreateAlways }), nil},
		"there is no other instance": {connected(func(s *ECSInstanceSpec) { s.Disks = data }), nil},
		"all of it": {paid(func(s *ECSInstanceSpec) { s.VSwitchID, s.RecreatePolicy, s.Disks = "", RecreateAlways, data }),
			[]string{network, deletion, disks}},
	} {
		t.Run(name, func(t *testing.T) {
			test.object.Default()
			if errs := test.object.Validate(nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if got := test.object.Warnings(); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
