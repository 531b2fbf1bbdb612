// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"crypto/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/must"
)

// fullECS is an object of which all is set that can be.
func fullECS() *v1alpha1.ECSInstance {
	ecs := &v1alpha1.ECSInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "full", UID: "0a1b2c3d-0000-4000-8000-000000000001"},
		Spec: v1alpha1.ECSInstanceSpec{
			RegionID: "cn-beijing", InstanceType: "ecs.g6.large", ImageID: "a.vhd", InstanceName: "full-vm",
			InstanceChargeType: v1alpha1.PrePaid, Period: ptr.To(int32(3)), PeriodUnit: v1alpha1.Week,
			ZoneID: "cn-beijing-h", VSwitchID: "vsw-a", SecurityGroupIDs: []string{"sg-b", "sg-a"}, KeyPairName: "mine",
			InternetMaxBandwidthOut: ptr.To(int32(5)),
			Disks: &v1alpha1.Disks{
				System: &v1alpha1.SystemDisk{Category: "cloud_essd", PerformanceLevel: "PL1", SizeGiB: ptr.To(int32(40))},
				Data: []v1alpha1.DataDisk{
					{Category: "cloud_essd", PerformanceLevel: "PL0", SizeGiB: ptr.To(int32(100)), Encrypted: true},
					{SnapshotID: "s-a", KeepOnRelease: true},
				},
			},
			UserDataSecretRef:    &v1alpha1.SecretKeyReference{Name: "script"},
			Tags:                 map[string]string{"team": "a", "stage": "test"},
			CredentialsSecretRef: &v1alpha1.SecretReference{Name: "aliyun"},
		},
	}
	ecs.Default()
	return ecs
}

func scriptSecret() *corev1.Secret {
	s := userData("script")
	s.UID, s.ResourceVersion = "5ec4e7", "12"
	return s
}

func TestRequest(t *testing.T) {
	minimal := &v1alpha1.ECSInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "least", UID: "0a1b2c3d-0000-4000-8000-000000000002"},
		Spec:       v1alpha1.ECSInstanceSpec{RegionID: "cn-beijing", InstanceType: "ecs.g6.large", ImageID: "a.vhd"},
	}
	minimal.Default()
	for sentence, test := range map[string]struct {
		ecs    *v1alpha1.ECSInstance
		script []byte
		want   aliyun.CreateRequest
	}{
		"nothing but what is needed": {minimal, nil, aliyun.CreateRequest{
			Type: "ecs.g6.large", ImageID: "a.vhd", ChargeType: "PostPaid",
			Tags: map[string]string{"glassback.dev/uid": "0a1b2c3d-0000-4000-8000-000000000002", "glassback.dev/object": "default/least"},
		}},
		"all that can be set": {fullECS(), []byte(script), aliyun.CreateRequest{
			Name: "full-vm", Type: "ecs.g6.large", ImageID: "a.vhd", ChargeType: "PrePaid", Period: 3, PeriodUnit: "Week",
			ZoneID: "cn-beijing-h", VSwitchID: "vsw-a", SecurityGroupID: "sg-b", KeyPairName: "mine", InternetMaxBandwidthOut: 5,
			SystemDisk: &aliyun.Disk{Category: "cloud_essd", PerformanceLevel: "PL1", SizeGiB: 40},
			DataDisks: []aliyun.Disk{
				{Category: "cloud_essd", PerformanceLevel: "PL0", SizeGiB: 100, Encrypted: true},
				{SnapshotID: "s-a", KeepOnRelease: true},
			},
			UserData: []byte(script),
			Tags: map[string]string{
				"team": "a", "stage": "test", "glassback.dev/uid": "0a1b2c3d-0000-4000-8000-000000000001", "glassback.dev/object": "default/full",
			},
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			before := test.ecs.DeepCopy()
			if got := request(test.ecs, test.script); !reflect.DeepEqual(got, test.want) {
				t.Errorf("it is\n%+v, want\n%+v", got, test.want)
			}
			if !reflect.DeepEqual(test.ecs, before) {
				t.Error("the object has changed")
			}
		})
	}
	// A field that is new is either asked for, or named here.
	v := reflect.ValueOf(request(fullECS(), []byte(script)))
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "ClientToken" {
			t.Errorf("%s is not asked for", name)
		}
	}
}

func TestDigest(t *testing.T) {
	of := func(ecs *v1alpha1.ECSInstance, s *corev1.Secret) string {
		t.Helper()
		r := request(ecs, s.Data[ecs.Spec.UserDataSecretRef.Key])
		r.ClientToken = rand.Text() // The digest does not depend on it.
		d, err := digest(ecs, r, &secretState{Name: s.Name, Exists: true, UID: s.UID, ResourceVersion: s.ResourceVersion})
		must.Succeed(t, err)
		return d
	}
	same := of(fullECS(), scriptSecret())
	if len(same) != 32 {
		t.Errorf("it is %q", same)
	}
	seen := map[string]string{same: "nothing"}
	for sentence, change := range map[string]func(*v1alpha1.ECSInstance, *corev1.Secret){
		"the type":           func(e *v1alpha1.ECSInstance, _ *corev1.Secret) { e.Spec.InstanceType = "ecs.g6.xlarge" },
		"the first group":    func(e *v1alpha1.ECSInstance, _ *corev1.Secret) { slices.Reverse(e.Spec.SecurityGroupIDs) },
		"a data disk":        func(e *v1alpha1.ECSInstance, _ *corev1.Secret) { e.Spec.Disks.Data[1].KeepOnRelease = false },
		"the order of disks": func(e *v1alpha1.ECSInstance, _ *corev1.Secret) { slices.Reverse(e.Spec.Disks.Data) },
		"the value of a tag": func(e *v1alpha1.ECSInstance, _ *corev1.Secret) { e.Spec.Tags["team"] = "b" },
		"the key of a tag": func(e *v1alpha1.ECSInstance, _ *corev1.Secret) {
			e.Spec.Tags = map[string]string{"team": "a", "stages": "test"}
		},
		"the Secret's version": func(_ *v1alpha1.ECSInstance, s *corev1.Secret) { s.ResourceVersion = "13" },
		"the Secret":           func(_ *v1alpha1.ECSInstance, s *corev1.Secret) { s.UID = "5ec4e8" },
		"the object":           func(e *v1alpha1.ECSInstance, _ *corev1.Secret) { e.UID = "0a1b2c3d-0000-4000-8000-000000000009" },
		"the key of the Secret": func(e *v1alpha1.ECSInstance, s *corev1.Secret) {
			e.Spec.UserDataSecretRef.Key, s.Data["b"] = "b", []byte("echo b")
		},
	} {
		ecs, s := fullECS(), scriptSecret()
		change(ecs, s)
		d := of(ecs, s)
		if other, ok := seen[d]; ok {
			t.Errorf("with a change of %s it is the same as with one of %s", sentence, other)
		}
		seen[d] = sentence
	}
	ecs := fullECS()
	ecs.Spec.SecurityGroupIDs[1] = "sg-c" // comes after
	ecs.Spec.PowerState = v1alpha1.PowerStopped
	ecs.Spec.RecreatePolicy, ecs.Spec.DeletionPolicy = v1alpha1.RecreateAlways, v1alpha1.DeletionRetain
	ecs.ResourceVersion, ecs.Generation, ecs.Labels = "99", 9, map[string]string{"a": "b"}
	otherScript := scriptSecret()
	otherScript.Data["userData"] = []byte("#!/bin/sh\necho another\n") // A digest must not show whether a guess at the script is right.
	if of(ecs, otherScript) != same {
		t.Error("it changes with what ECS is not asked for, or with the script in the same version of the same Secret")
	}
}

func TestOwnership(t *testing.T) {
	ecs := fullECS()
	ecs.Name = strings.Repeat("n", 253)
	owned := ownership(ecs)
	if len(owned) != 2 || owned[v1alpha1.TagUID] != string(ecs.UID) || len(owned[v1alpha1.TagObject]) != maxTagValue {
		t.Errorf("it is %v", owned)
	}
	ecs.Spec.Tags = map[string]string{v1alpha1.TagUID: "another UID", "team": "a"}
	if all := tags(ecs); all[v1alpha1.TagUID] != string(ecs.UID) || all["team"] != "a" || ecs.Spec.Tags[v1alpha1.TagUID] != "another UID" {
		t.Errorf("they are %v, of %v", all, ecs.Spec.Tags)
	}
}

func TestDrift(t *testing.T) {
	instance := aliyun.Instance{
		ImageID: "a.vhd", ChargeType: "PrePaid", ZoneID: "cn-beijing-h", VSwitchID: "vsw-a", KeyPairName: "mine",
		Type: "ecs.other", Name: "other",
	}
	for sentence, test := range map[string]struct {
		change func(*v1alpha1.ECSInstance)
		want   []string
	}{
		"what the spec does not say": {func(e *v1alpha1.ECSInstance) {
			e.Spec.ZoneID, e.Spec.VSwitchID, e.Spec.KeyPairName, e.Spec.ImageID = "", "", "", ""
		}, nil},
		"how one that was adopted is": {
			func(e *v1alpha1.ECSInstance) { e.Spec.InstanceChargeType, e.Status.Adopted = v1alpha1.PostPaid, true }, nil,
		},
		"the zone, the vSwitch and key": {
			func(e *v1alpha1.ECSInstance) { e.Spec.ZoneID, e.Spec.VSwitchID, e.Spec.KeyPairName = "z", "v", "k" },
			[]string{`zoneID is "cn-beijing-h", not "z"`, `vSwitchID is "vsw-a", not "v"`, `keyPairName is "mine", not "k"`},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			ecs := fullECS()
			test.change(ecs)
			if got := drift(ecs, &instance, "cn-beijing"); !slices.Equal(got, test.want) {
				t.Errorf("it is %q, want %q", got, test.want)
			}
		})
	}
}
