// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"testing"

	"k8s.io/utils/ptr"
)

func TestDefault(t *testing.T) {
	defaults := ECSInstanceSpec{
		InstanceTypeChangePolicy: "WhenStopped", InstanceChargeType: "PostPaid", PowerState: "Running",
		DeletionPolicy: "Delete", RecreatePolicy: "Never",
	}
	set := ECSInstanceSpec{
		RegionID: "cn-beijing", InstanceType: "ecs.g6.large", ImageID: "m-1",
		InstanceTypeChangePolicy: "Restart", InstanceChargeType: "PrePaid", Period: ptr.To[int32](1), PeriodUnit: "Week",
		PowerState: "Stopped", DeletionPolicy: "Retain", RecreatePolicy: "Always",
		UserDataSecretRef: &SecretKeyReference{Name: "script", Key: "default"},
	}
	with := func(mutate func(s *ECSInstanceSpec)) ECSInstanceSpec {
		s := *defaults.DeepCopy()
		mutate(&s)
		return s
	}
	for name, test := range map[string]struct{ spec, want ECSInstanceSpec }{
		"an empty spec gets what the schema defaults, and is deleted": {ECSInstanceSpec{}, defaults},
		"what is set stays":    {set, set},
		"defaults get no more": {defaults, defaults},
		"an adopted instance is kept": {
			ECSInstanceSpec{AdoptInstanceID: "i-1"}, with(func(s *ECSInstanceSpec) { s.AdoptInstanceID, s.DeletionPolicy = "i-1", "Retain" }),
		},
		"... unless it says otherwise": {
			ECSInstanceSpec{AdoptInstanceID: "i-1", DeletionPolicy: "Delete"}, with(func(s *ECSInstanceSpec) { s.AdoptInstanceID = "i-1" }),
		},
		"what is paid for is counted in months": {ECSInstanceSpec{InstanceChargeType: "PrePaid"},
			with(func(s *ECSInstanceSpec) { s.InstanceChargeType, s.PeriodUnit = "PrePaid", "Month" })},
		"... but not of an adopted instance, for which nothing is paid": {ECSInstanceSpec{InstanceChargeType: "PrePaid", AdoptInstanceID: "i-1"},
			with(func(s *ECSInstanceSpec) {
				s.InstanceChargeType, s.AdoptInstanceID, s.DeletionPolicy = "PrePaid", "i-1", "Retain"
			})},
		"a key of the Secret is userData": {ECSInstanceSpec{UserDataSecretRef: &SecretKeyReference{Name: "a"}},
			with(func(s *ECSInstanceSpec) { s.UserDataSecretRef = &SecretKeyReference{Name: "a", Key: "userData"} })},
		"an unknown value stays, for Validate to refuse": {
			ECSInstanceSpec{PowerState: "Off"}, with(func(s *ECSInstanceSpec) { s.PowerState = "Off" }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &ECSInstance{Spec: *test.spec.DeepCopy()}
			e.Default()
			if !reflect.DeepEqual(e.Spec, test.want) {
				t.Errorf("got %+v, want %+v", e.Spec, test.want)
			}
		})
	}
}
