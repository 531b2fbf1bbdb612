/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// request is the instance that ECS is asked for: all that can be said of it at once. It has
// no token yet. script is the Secret of its user data, nil for none.
func request(ecs *v1alpha1.ECSInstance, script *corev1.Secret) aliyun.CreateRequest {
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
	}
	if len(s.SecurityGroupIDs) > 0 {
		r.SecurityGroupID = s.SecurityGroupIDs[0] // CreateInstance knows one; the others come after.
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
	if script != nil {
		r.UserData = script.Data[s.UserDataSecretRef.Key]
	}
	return r
}

// tags are those that the instance is to have, and among them those that say whose it is.
func tags(ecs *v1alpha1.ECSInstance) map[string]string {
	all := maps.Clone(ecs.Spec.Tags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, ownership(ecs))
	return all
}

// maxTagValue bounds the value of a tag.
const maxTagValue = 128

// ownership are the tags that say whose an instance is.
func ownership(ecs *v1alpha1.ECSInstance) map[string]string {
	object := ecs.Namespace + "/" + ecs.Name
	return map[string]string{v1alpha1.TagUID: string(ecs.UID), v1alpha1.TagObject: object[:min(len(object), maxTagValue)]}
}

// token is the client token of an attempt. UIDs are never used again, so neither is it.
func token(ecs *v1alpha1.ECSInstance, attempt int64) string {
	return fmt.Sprintf("%s-%d", ecs.UID, attempt)
}

// digest is the same for two requests of an object only if ECS takes them for the same. Of the
// user data it only has which key of which version of which Secret they are: they may be
// secret.
func digest(ecs *v1alpha1.ECSInstance, r aliyun.CreateRequest, script *corev1.Secret) (string, error) {
	r.ClientToken, r.UserData = "", nil
	text, err := json.Marshal(r) // The keys of maps are sorted.
	if err != nil {
		return "", fmt.Errorf("write down a CreateInstance: %w", err)
	}
	if script != nil {
		text = fmt.Append(text, script.UID, script.ResourceVersion, ecs.Spec.UserDataSecretRef.Key)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// tagChanges are what brings the tags of an instance to what they are to be: those of the spec,
// and none that the spec once had. Others are left alone, and so are those that say whose it
// is.
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

// change is what of an instance is to be changed that can be changed in any state.
func change(ecs *v1alpha1.ECSInstance, instance *aliyun.Instance) (aliyun.Change, bool) {
	var c aliyun.Change
	if name := ecs.Spec.InstanceName; name != "" && name != instance.Name {
		c.Name = &name
	}
	if groups := slices.Sorted(slices.Values(ecs.Spec.SecurityGroupIDs)); len(groups) > 0 && !slices.Equal(groups, instance.SecurityGroupIDs) {
		c.SecurityGroupIDs = groups
	}
	return c, c.Name != nil || c.SecurityGroupIDs != nil
}

// drift is in what an instance differs from the spec, in a way that only another instance could
// mend.
func drift(ecs *v1alpha1.ECSInstance, instance *aliyun.Instance, region string) []string {
	var fields []string
	s := &ecs.Spec
	charge := string(s.InstanceChargeType)
	if ecs.Status.Adopted {
		charge = "" // It has a default, and need not be meant.
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
			fields = append(fields, fmt.Sprintf("%s is %q and not %q", f.name, f.is, f.want))
		}
	}
	return fields
}
