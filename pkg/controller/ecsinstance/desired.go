// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// request returns the request to create the instance, without its token. userData is nil for none.
func request(ecs *v1alpha1.ECSInstance, userData []byte) aliyun.CreateRequest {
	s := &ecs.Spec
	r := aliyun.CreateRequest{
		Name:                    s.InstanceName,
		Type:                    s.InstanceType,
		ImageID:                 s.ImageID,
		ChargeType:              string(s.InstanceChargeType),
		Period:                  int(ptr.Deref(s.Period, 0)),
		PeriodUnit:              string(s.PeriodUnit),
		ZoneID:                  s.ZoneID,
		VSwitchID:               s.VSwitchID,
		KeyPairName:             s.KeyPairName,
		InternetMaxBandwidthOut: int(ptr.Deref(s.InternetMaxBandwidthOut, 0)),
		Tags:                    tags(ecs),
		UserData:                userData,
	}
	if len(s.SecurityGroupIDs) > 0 {
		r.SecurityGroupID = s.SecurityGroupIDs[0] // CreateInstance takes one. ModifyInstanceAttribute adds the others later.
	}
	if s.Disks != nil {
		if system := s.Disks.System; system != nil {
			r.SystemDisk = &aliyun.Disk{
				Category: system.Category, PerformanceLevel: system.PerformanceLevel, SizeGiB: int(ptr.Deref(system.SizeGiB, 0)),
			}
		}
		for _, d := range s.Disks.Data {
			r.DataDisks = append(r.DataDisks, aliyun.Disk{
				Category: d.Category, PerformanceLevel: d.PerformanceLevel, SizeGiB: int(ptr.Deref(d.SizeGiB, 0)),
				SnapshotID: d.SnapshotID, Encrypted: d.Encrypted, KeepOnRelease: d.KeepOnRelease,
			})
		}
	}
	return r
}

// tags returns the tags for a new instance: those of the spec, and those that name its object.
func tags(ecs *v1alpha1.ECSInstance) map[string]string {
	return labels.Merge(ecs.Spec.Tags, ownership(ecs))
}

// maxTagValue bounds the value of a tag.
const maxTagValue = 128

// ownership returns the tags that name the object of an instance.
func ownership(ecs *v1alpha1.ECSInstance) map[string]string {
	object := ecs.Namespace + "/" + ecs.Name
	return map[string]string{v1alpha1.TagUID: string(ecs.UID), v1alpha1.TagObject: object[:min(len(object), maxTagValue)]}
}

// token returns the client token of an attempt. It is unique, as a UID is.
func token(ecs *v1alpha1.ECSInstance, attempt int64) string {
	return fmt.Sprintf("%s-%d", ecs.UID, attempt)
}

// digest returns the same text for two requests of an object only if ECS treats them as equal. The user data may be secret, so the digest
// covers the UID, the version and the key of its Secret instead.
func digest(ecs *v1alpha1.ECSInstance, r aliyun.CreateRequest, userData *secretState) (string, error) {
	r.ClientToken, r.UserData = "", nil
	text, err := json.Marshal(r) // The keys of maps are sorted.
	if err != nil {
		return "", fmt.Errorf("encode a CreateInstance: %w", err)
	}
	if userData != nil {
		text = fmt.Append(text, userData.UID, userData.ResourceVersion, ecs.Spec.UserDataSecretRef.Key)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// tagChanges returns the tags to set, which differ from the spec, and the keys to drop, which left the spec.
// Other tags of the instance stay as they are.
func tagChanges(ecs *v1alpha1.ECSInstance, instance *aliyun.Instance) (set map[string]string, drop []string) {
	for key, value := range ecs.Spec.Tags {
		if has, ok := instance.Tags[key]; !ok || has != value {
			if set == nil {
				set = map[string]string{}
			}
			set[key] = value
		}
	}
	for _, key := range ecs.Status.TagKeys {
		_, wanted := ecs.Spec.Tags[key]
		if _, has := instance.Tags[key]; has && !wanted {
			drop = append(drop, key)
		}
	}
	return set, drop
}

// attributeChange returns the corrections that ECS accepts in any state of an instance, nil if there are none.
func attributeChange(ecs *v1alpha1.ECSInstance, instance *aliyun.Instance) *aliyun.Change {
	var c aliyun.Change
	if name := ecs.Spec.InstanceName; name != "" && name != instance.Name {
		c.Name = &name
	}
	if groups := slices.Sorted(slices.Values(ecs.Spec.SecurityGroupIDs)); len(groups) > 0 && !slices.Equal(groups, instance.SecurityGroupIDs) {
		c.SecurityGroupIDs = groups
	}
	if c.Name == nil && c.SecurityGroupIDs == nil {
		return nil
	}
	return &c
}

// drift returns the differences to the spec that ECS cannot change in an existing instance.
func drift(ecs *v1alpha1.ECSInstance, instance *aliyun.Instance, region string) []string {
	var fields []string
	s := &ecs.Spec
	charge := string(s.InstanceChargeType)
	if ecs.Status.Adopted {
		charge = "" // The value may be only the default of the spec.
	}
	for _, f := range []struct{ name, want, is string }{
		{"regionID", s.RegionID, region},
		{"imageID", s.ImageID, instance.ImageID},
		{"instanceChargeType", charge, instance.ChargeType},
		{"zoneID", s.ZoneID, instance.ZoneID},
		{"vSwitchID", s.VSwitchID, instance.VSwitchID},
		{"keyPairName", s.KeyPairName, instance.KeyPairName},
	} {
		if f.want != "" && f.want != f.is {
			fields = append(fields, fmt.Sprintf("%s is %q, not %q", f.name, f.is, f.want))
		}
	}
	return fields
}
