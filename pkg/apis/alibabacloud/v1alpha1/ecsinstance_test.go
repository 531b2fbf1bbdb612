// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// valid returns the seed's ECSInstance, which is valid, after mutate has been at its spec.
// Without defaults what mutate sets goes by them.
func valid(mutate func(s *ECSInstanceSpec)) *ECSInstance {
	e := &ECSInstance{ObjectMeta: metav1.ObjectMeta{Name: "ecsinstance-sample"}}
	e.Spec = ECSInstanceSpec{
		ImageID: "centos_7_8_x64_20G_alibase_20200519.vhd", InstanceType: "ecs.g6.large", RegionID: "cn-beijing", InstanceName: "ins-0702",
	}
	mutate(&e.Spec)
	e.Default()
	return e
}

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
		"what is set stays": {set, set},
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
		"an unknown value stays, for the schema to reject": {
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

// TestValidate has what the operator does not send to ECS.
func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		mutate func(*ECSInstanceSpec)
		want   string // the field of the error; "" for none
	}{
		"all of it":                       {func(*ECSInstanceSpec) {}, ""},
		"an adopted instance has no disk": {func(s *ECSInstanceSpec) { s.ImageID, s.AdoptInstanceID = "", "i-1" }, ""},
		"no image":                        {func(s *ECSInstanceSpec) { s.ImageID = "" }, "spec.imageID"},
		"no type":                         {func(s *ECSInstanceSpec) { s.InstanceType = "" }, "spec.instanceType"},
		"no region":                       {func(s *ECSInstanceSpec) { s.RegionID = "" }, "spec.regionID"},
		"a region that leads to another host": {
			func(s *ECSInstanceSpec) { s.RegionID = "example.com/" }, "spec.regionID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := valid(test.mutate).Validate(nil)
			if len(errs) > 1 || (len(errs) == 0) != (test.want == "") || len(errs) == 1 && errs[0].Field != test.want {
				t.Errorf("got %v, want an error about %q", errs, test.want)
			}
		})
	}
}

// TestAdoptionIsFixedOnceAnInstanceMayExist: the schema knows only of instances that have an ID.
func TestAdoptionIsFixedOnceAnInstanceMayExist(t *testing.T) {
	old, now := valid(func(*ECSInstanceSpec) {}), valid(func(s *ECSInstanceSpec) { s.AdoptInstanceID = "i-1" })
	if errs := now.Validate(old); len(errs) > 0 {
		t.Errorf("got %v before an instance is asked for, want none", errs.ToAggregate())
	}
	old.Status.Create = &Create{}
	if errs := now.Validate(old); len(errs) != 1 || errs[0].Field != "spec.adoptInstanceID" {
		t.Errorf("got %v, want one error about spec.adoptInstanceID", errs.ToAggregate())
	}
}

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
	pay := func(s *ECSInstanceSpec) { s.InstanceChargeType, s.Period = PrePaid, ptr.To[int32](1) }
	data := &Disks{Data: []DataDisk{{SizeGiB: ptr.To[int32](20)}}}
	for name, test := range map[string]struct {
		object *ECSInstance
		want   []string
	}{
		"in a VPC there is nothing to say":   {connected(func(*ECSInstanceSpec) {}), nil},
		"an adopted instance is where it is": {valid(func(s *ECSInstanceSpec) { s.AdoptInstanceID = "i-1" }), nil},
		"what is paid for can be kept":       {connected(func(s *ECSInstanceSpec) { pay(s); s.DeletionPolicy = DeletionRetain }), nil},
		"another instance has another system disk": {
			connected(func(s *ECSInstanceSpec) { s.RecreatePolicy, s.Disks = RecreateAlways, &Disks{System: &SystemDisk{}} }), nil,
		},
		"there is no other instance": {connected(func(s *ECSInstanceSpec) { s.Disks = data }), nil},
		"all of it": {valid(func(s *ECSInstanceSpec) { pay(s); s.RecreatePolicy, s.Disks = RecreateAlways, data }),
			[]string{network, deletion, disks}},
	} {
		t.Run(name, func(t *testing.T) {
			if errs := test.object.Validate(nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if got := test.object.Warnings(); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
