// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// ecsInstance returns the seed's, with more in its spec, or less: what is nil is left out.
func ecsInstance(spec map[string]any) map[string]any {
	merged := map[string]any{
		"imageID": "centos_7_8_x64_20G_alibase_20200519.vhd", "instanceType": "ecs.g6.large",
		"regionID": "cn-beijing", "instanceName": "ins-0702",
	}
	maps.Copy(merged, spec)
	maps.DeleteFunc(merged, func(_ string, value any) bool { return value == nil })
	return map[string]any{
		"apiVersion": "alibabacloud.zhouzhengxi.com/v1alpha1", "kind": "ECSInstance",
		"metadata": map[string]any{"name": "sample"},
		"spec":     runtime.DeepCopyJSON(merged),
	}
}

// prePaid returns one that is paid for in advance.
func prePaid(spec map[string]any) map[string]any {
	merged := map[string]any{"instanceChargeType": "PrePaid", "period": int64(1)}
	maps.Copy(merged, spec)
	return ecsInstance(merged)
}

// made returns obj as it is when there is an instance of it.
func made(obj map[string]any) map[string]any {
	obj = runtime.DeepCopyJSON(obj)
	obj["status"] = map[string]any{"instanceID": "i-2zeh8k2m5q1d4w7p9x3c"}
	return obj
}

func TestSchemaAndValidateAgreeOnRegions(t *testing.T) {
	agreeOnEach(t, "ECSInstance", map[string]bool{
		"cn-beijing": true, "us-west-1": true, "cn-hangzhou-finance": true, "me-central-1": true, "x": true,
		"1": true, strings.Repeat("x", 63): true,

		"": false, " ": false, "CN-Beijing": false, "cn_beijing": false, "cn beijing": false, "-cn": false, "cn-": false, "cn-beijing\n": false,
		"cn.beijing": false, "a/": false, "a#": false, "a?": false, "a@b": false, "a:80": false, "ü": false, strings.Repeat("x", 64): false,
	}, func(region string) map[string]any { return ecsInstance(map[string]any{"regionID": region}) })
}

func TestSchemaAndValidateAgreeOnIDs(t *testing.T) {
	ids := map[string]bool{
		"i-2zeh8k2m5q1d4w7p9x3c": true, "x": true, "ecs.g6.large": true, "m-2ze_A.b:c/d": true, "~!": true, strings.Repeat("x", 128): true,

		" ": false, "a b": false, " a": false, "a\n": false, "a\t": false, "a\x00": false, "ü": false, strings.Repeat("x", 129): false,
	}
	for _, name := range []string{"imageID", "instanceType", "zoneID", "vSwitchID", "adoptInstanceID"} {
		t.Run(name, func(t *testing.T) {
			agreeOnEach(t, "ECSInstance", ids, func(id string) map[string]any { return ecsInstance(map[string]any{name: id}) })
		})
	}
	t.Run("security group", func(t *testing.T) {
		agreeOnEach(t, "ECSInstance", ids, func(id string) map[string]any {
			return ecsInstance(map[string]any{"securityGroupIDs": []any{"sg-1", id}})
		})
	})
	t.Run("snapshot", func(t *testing.T) {
		agreeOnEach(t, "ECSInstance", ids, func(id string) map[string]any {
			return ecsInstance(map[string]any{"disks": map[string]any{"data": []any{map[string]any{"snapshotID": id}}}})
		})
	})
	t.Run("what is needed", func(t *testing.T) {
		agreeOnEach(t, "ECSInstance", map[string]bool{"instanceType": false, "regionID": false, "imageID": false, "instanceName": true},
			func(name string) map[string]any { return ecsInstance(map[string]any{name: nil}) })
	})
}

func TestSchemaAndValidateAgreeOnNamesOfInstancesAndKeyPairs(t *testing.T) {
	t.Run("instance", func(t *testing.T) {
		agreeOnEach(t, "ECSInstance", map[string]bool{
			"ins-0702": true, "ab": true, "Ab": true, "ü1": true, "实例": true, "a[1,2]b": true, "httpd": true, "a http://b": true, "a b": true,
			strings.Repeat("实", 128): true,

			"a": false, "实": false, "0702": false, "-a": false, "_a": false, " ab": false, "http://a": false, "https://a": false, "ab\n": false,
			"a\tb": false, "a\x7f": false, strings.Repeat("x", 129): false, strings.Repeat("实", 129): false,
		}, func(name string) map[string]any { return ecsInstance(map[string]any{"instanceName": name}) })
	})
	t.Run("key pair", func(t *testing.T) {
		agreeOnEach(t, "ECSInstance", map[string]bool{
			"operations": true, "a": true, "a.b_c:d-1": true, "密钥": true, strings.Repeat("密", 128): true,

			" ": false, "a b": false, "a\n": false, "a\x7f": false, strings.Repeat("密", 129): false,
		}, func(name string) map[string]any { return ecsInstance(map[string]any{"keyPairName": name}) })
	})
}

func TestSchemaAndValidateAgreeOnPeriods(t *testing.T) {
	months := map[int64]bool{0: false, -1: false, 10: false, 11: false, 13: false, 61: false, 1 << 31: false, 1 << 40: false,
		12: true, 24: true, 36: true, 48: true, 60: true}
	weeks := map[int64]bool{0: false, -1: false, 5: false, 12: false, 60: false, 1 << 31: false}
	for n := range int64(9) {
		months[n+1] = true
	}
	for n := range int64(4) {
		weeks[n+1] = true
	}
	agreeOnEach(t, "ECSInstance", months, func(period int64) map[string]any { return prePaid(map[string]any{"period": period}) })
	agreeOnEach(t, "ECSInstance", months, func(period int64) map[string]any {
		return prePaid(map[string]any{"period": period, "periodUnit": "Month"})
	})
	agreeOnEach(t, "ECSInstance", weeks, func(period int64) map[string]any {
		return prePaid(map[string]any{"period": period, "periodUnit": "Week"})
	})
	for name, test := range map[string]struct {
		obj  map[string]any
		want bool
	}{
		"PrePaid needs a period":       {prePaid(map[string]any{"period": nil}), false},
		"... even with a unit":         {prePaid(map[string]any{"period": nil, "periodUnit": "Week"}), false},
		"a unit that there is not":     {prePaid(map[string]any{"periodUnit": "Year"}), false},
		"PostPaid has no period":       {ecsInstance(map[string]any{"instanceChargeType": "PostPaid", "period": int64(1)}), false},
		"... and that is the default":  {ecsInstance(map[string]any{"period": int64(1)}), false},
		"PostPaid has no unit":         {ecsInstance(map[string]any{"periodUnit": "Month"}), false},
		"an adopted instance has none": {prePaid(map[string]any{"adoptInstanceID": "i-1"}), false},
		"... nor a unit": {
			prePaid(map[string]any{"adoptInstanceID": "i-1", "period": nil, "periodUnit": "Week"}), false,
		},
		"... and may be PrePaid without":              {prePaid(map[string]any{"adoptInstanceID": "i-1", "period": nil}), true},
		"a charge type that there is not":             {ecsInstance(map[string]any{"instanceChargeType": "Free"}), false},
		"a charge type that there is not of a period": {prePaid(map[string]any{"instanceChargeType": "Free"}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := servers(t)["ECSInstance"].agree(t, test.obj); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

// What can be compared with an instance that is there already may be said of it; what only matters when one is made may not.
func TestSchemaAndValidateAgreeOnAdoption(t *testing.T) {
	for name, test := range map[string]struct {
		spec map[string]any
		want bool
	}{
		"nothing besides": {nil, true},
		"no image":        {map[string]any{"imageID": nil}, true},
		"no type":         {map[string]any{"instanceType": nil}, false},
		"what it is":      {map[string]any{"zoneID": "a", "vSwitchID": "b", "keyPairName": "c", "instanceChargeType": "PrePaid"}, true},
		"what it is to be": {
			map[string]any{"securityGroupIDs": []any{"sg-1"}, "tags": map[string]any{"a": "b"}, "powerState": "Stopped"}, true,
		},
		"that it is deleted":      {map[string]any{"deletionPolicy": "Delete"}, true},
		"that it is not replaced": {map[string]any{"recreatePolicy": "Never"}, true},
		"that it is replaced":     {map[string]any{"recreatePolicy": "Always"}, false},
		"disks":                   {map[string]any{"disks": map[string]any{}}, false},
		"user data":               {map[string]any{"userDataSecretRef": map[string]any{"name": "a"}}, false},
		"a bandwidth":             {map[string]any{"internetMaxBandwidthOut": int64(0)}, false},
		"several of these":        {map[string]any{"disks": map[string]any{}, "period": int64(1), "recreatePolicy": "Always"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj := ecsInstance(test.spec)
			obj["spec"].(map[string]any)["adoptInstanceID"] = "i-2zeh8k2m5q1d4w7p9x3c"
			if got := servers(t)["ECSInstance"].agree(t, obj); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

func TestSchemaAndValidateAgreeOnDisks(t *testing.T) {
	data := func(disk map[string]any) map[string]any { return map[string]any{"data": []any{disk}} }
	system := func(disk map[string]any) map[string]any { return map[string]any{"system": disk} }
	disks := func(n int) map[string]any {
		all := make([]any, 0, n)
		for range n {
			all = append(all, map[string]any{"sizeGiB": int64(20)})
		}
		return map[string]any{"data": all}
	}
	for name, test := range map[string]struct {
		disks map[string]any
		want  bool
	}{
		"none":                          {map[string]any{}, true},
		"a system disk of the defaults": {system(map[string]any{}), true},
		"a small system disk":           {system(map[string]any{"sizeGiB": int64(20)}), true},
		"a large system disk":           {system(map[string]any{"sizeGiB": int64(2048)}), true},
		"a system disk too small":       {system(map[string]any{"sizeGiB": int64(19)}), false},
		"a system disk too large":       {system(map[string]any{"sizeGiB": int64(2049)}), false},
		"a level":                       {system(map[string]any{"category": "cloud_essd", "performanceLevel": "PL3"}), true},
		"a level that there is not":     {system(map[string]any{"category": "cloud_essd", "performanceLevel": "PL4"}), false},
		"a level of no category":        {system(map[string]any{"performanceLevel": "PL1"}), false},
		"a level of another category":   {system(map[string]any{"category": "cloud_ssd", "performanceLevel": "PL1"}), false},
		"a category of spaces":          {system(map[string]any{"category": "cloud essd"}), false},
		"a category too long":           {system(map[string]any{"category": strings.Repeat("x", 65)}), false},
		"a data disk with a size":       {data(map[string]any{"sizeGiB": int64(1)}), true},
		"a data disk of a snapshot":     {data(map[string]any{"snapshotID": "s-1"}), true},
		"a data disk of neither":        {data(map[string]any{"category": "cloud_essd"}), false},
		"a data disk too small":         {data(map[string]any{"sizeGiB": int64(0)}), false},
		"a data disk too large":         {data(map[string]any{"sizeGiB": int64(65537)}), false},
		"a data disk beyond a Go type":  {data(map[string]any{"sizeGiB": int64(1 << 31)}), false},
		"a data disk's level": {
			data(map[string]any{"sizeGiB": int64(1), "category": "cloud_essd", "performanceLevel": "PL0"}), true,
		},
		"a data disk's level of no category": {data(map[string]any{"sizeGiB": int64(1), "performanceLevel": "PL0"}), false},
		"an encrypted one that outlives it":  {data(map[string]any{"sizeGiB": int64(1), "encrypted": true, "keepOnRelease": true}), true},
		"as many as there can be":            {disks(16), true},
		"one more":                           {disks(17), false},
		"a mistake in both": {
			map[string]any{"system": map[string]any{"sizeGiB": int64(1)}, "data": []any{map[string]any{}}}, false,
		},
		"a mistake in the second":                {map[string]any{"data": []any{map[string]any{"sizeGiB": int64(1)}, map[string]any{}}}, false},
		"a data disk that is not encrypted":      {data(map[string]any{"sizeGiB": int64(1), "encrypted": false}), true},
		"a list that is empty":                   {map[string]any{"data": []any{}}, true},
		"a system disk that is a null":           {map[string]any{"system": nil}, true},
		"a data disk with a snapshot and a size": {data(map[string]any{"sizeGiB": int64(1), "snapshotID": "s-1"}), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := servers(t)["ECSInstance"].agree(t, ecsInstance(map[string]any{"disks": test.disks})); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

func TestSchemaAndValidateAgreeOnTags(t *testing.T) {
	agreeOnEach(t, "ECSInstance", map[string]bool{
		"team": true, "cost center": true, "kubernetes.io/cluster": true, "团队": true, "a:b": true, "acs": true, "my-aliyun": true,
		"glassback.dev": true, "httpd": true, strings.Repeat("团", 128): true,

		"": false, "aliyun": false, "aliyun-x": false, "acs:": false, "acs:rm": false, "glassback.dev/": false, "glassback.dev/uid": false,
		"glassback.dev/mine": false, "http://a": false, "a https://b": false, strings.Repeat("x", 129): false, strings.Repeat("团", 129): false,
	}, func(key string) map[string]any {
		return ecsInstance(map[string]any{"tags": map[string]any{"a": "1", key: "b"}})
	})
	agreeOnEach(t, "ECSInstance", map[string]bool{
		"": true, "web": true, "a b": true, "网": true, "aliyun": true, "acs:": true, "http:/a": true, strings.Repeat("网", 128): true,

		"http://a": false, "a https://b": false, strings.Repeat("x", 129): false, strings.Repeat("网", 129): false,
	}, func(value string) map[string]any {
		return ecsInstance(map[string]any{"tags": map[string]any{"a": value}})
	})
}

// The most of everything is within what the rules may cost when they run; one more is too many.
func TestSchemaAndValidateAgreeOnTheLargestECSInstance(t *testing.T) {
	server := servers(t)["ECSInstance"]
	largest := func(tags, groups int) map[string]any {
		spec := map[string]any{"tags": map[string]any{}}
		for i := range tags {
			spec["tags"].(map[string]any)[fmt.Sprintf("%s%03d", strings.Repeat("团", 125), i)] = strings.Repeat("网", 128)
		}
		var ids, data []any
		for i := range groups {
			ids = append(ids, fmt.Sprintf("%s%03d", strings.Repeat("x", 125), i))
		}
		for range 16 {
			data = append(data, map[string]any{"snapshotID": strings.Repeat("x", 128), "category": strings.Repeat("x", 64)})
		}
		spec["securityGroupIDs"], spec["disks"] = ids, map[string]any{"data": data}
		return ecsInstance(spec)
	}
	for name, test := range map[string]struct {
		obj  map[string]any
		want bool
	}{
		"the most":              {largest(17, 16), true},
		"one tag more":          {largest(18, 16), false},
		"one group more":        {largest(17, 17), false},
		"a group that is twice": {ecsInstance(map[string]any{"securityGroupIDs": []any{"a", "b", "a"}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := server.agree(t, test.obj); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
			if test.want && !server.agreeOnUpdate(t, test.obj, made(test.obj)) {
				t.Error("refused as it was")
			}
		})
	}
}

func TestSchemaAndValidateAgreeOnSecretsOfECSInstances(t *testing.T) {
	names := map[string]bool{
		"ecs-credentials": true, "a.b": true, "1": true, strings.Repeat("x", 253): true,

		"": false, " ": false, "Ecs": false, "my_secret": false, "a.": false, "a..b": false, "a/b": false,
		"a\n": false, strings.Repeat("x", 254): false,
	}
	for _, ref := range []string{"credentialsSecretRef", "userDataSecretRef"} {
		t.Run(ref, func(t *testing.T) {
			agreeOnEach(t, "ECSInstance", names, func(name string) map[string]any {
				return ecsInstance(map[string]any{ref: map[string]any{"name": name}})
			})
		})
	}
	t.Run("key", func(t *testing.T) {
		agreeOnEach(t, "ECSInstance", map[string]bool{
			"userData": true, "a.B_c-1": true, strings.Repeat("x", 253): true, " ": false, "my script": false, "a/b": false,
			"ü": false, strings.Repeat("x", 254): false,
		}, func(key string) map[string]any {
			return ecsInstance(map[string]any{"userDataSecretRef": map[string]any{"name": "a", "key": key}})
		})
	})
}

// Before there is an instance, everything can change. When there is one, what ECS does not change of it cannot.
func TestSchemaAndValidateAgreeOnChangesOfECSInstances(t *testing.T) {
	disks := func(size int64) map[string]any {
		return map[string]any{"data": []any{map[string]any{"sizeGiB": size}}}
	}
	plain := disks(20)
	plain["data"].([]any)[0].(map[string]any)["encrypted"] = false
	secret := map[string]any{"name": "a"}
	for name, test := range map[string]struct {
		old, obj map[string]any
		want     bool // when there is an instance
	}{
		"nothing":                     {nil, nil, true},
		"the region":                  {nil, map[string]any{"regionID": "cn-hangzhou"}, false},
		"the type":                    {nil, map[string]any{"instanceType": "ecs.g7.large"}, true},
		"what is done about the type": {nil, map[string]any{"instanceTypeChangePolicy": "Restart"}, true},
		"the image":                   {nil, map[string]any{"imageID": "m-1"}, false},
		"the name":                    {nil, map[string]any{"instanceName": "other"}, true},
		"the name is no longer said":  {nil, map[string]any{"instanceName": nil}, true},
		"how it is paid for":          {nil, map[string]any{"instanceChargeType": "PrePaid", "period": int64(1)}, false},
		"... said as it is":           {nil, map[string]any{"instanceChargeType": "PostPaid"}, true},
		"a zone":                      {nil, map[string]any{"zoneID": "cn-beijing-h"}, false},
		"another zone":                {map[string]any{"zoneID": "a"}, map[string]any{"zoneID": "b"}, false},
		"no zone":                     {map[string]any{"zoneID": "a"}, nil, false},
		"a switch":                    {nil, map[string]any{"vSwitchID": "vsw-1"}, false},
		"the security groups": {
			map[string]any{"securityGroupIDs": []any{"sg-1"}}, map[string]any{"securityGroupIDs": []any{"sg-2", "sg-3"}}, true,
		},
		"a bandwidth":                   {nil, map[string]any{"internetMaxBandwidthOut": int64(5)}, false},
		"a bandwidth of nothing":        {nil, map[string]any{"internetMaxBandwidthOut": int64(0)}, true},
		"disks":                         {nil, map[string]any{"disks": disks(20)}, false},
		"other disks":                   {map[string]any{"disks": disks(20)}, map[string]any{"disks": disks(21)}, false},
		"no disks":                      {map[string]any{"disks": disks(20)}, nil, false},
		"the same disks, in more words": {map[string]any{"disks": disks(20)}, map[string]any{"disks": plain}, true},
		"the same disks, in fewer":      {map[string]any{"disks": plain}, map[string]any{"disks": disks(20)}, true},
		"a key pair":                    {nil, map[string]any{"keyPairName": "a"}, false},
		"another key pair":              {map[string]any{"keyPairName": "b"}, map[string]any{"keyPairName": "a"}, false},
		"user data":                     {nil, map[string]any{"userDataSecretRef": secret}, false},
		"no user data":                  {map[string]any{"userDataSecretRef": secret}, nil, false},
		"another key of it": {
			map[string]any{"userDataSecretRef": secret}, map[string]any{"userDataSecretRef": map[string]any{"name": "a", "key": "b"}}, false,
		},
		"its default key": {
			map[string]any{"userDataSecretRef": secret}, map[string]any{"userDataSecretRef": map[string]any{"name": "a", "key": "userData"}}, true,
		},
		"tags": {
			map[string]any{"tags": map[string]any{"a": "b"}}, map[string]any{"tags": map[string]any{"a": "c", "d": ""}}, true,
		},
		"whether it runs":          {nil, map[string]any{"powerState": "Stopped"}, true},
		"what becomes of it":       {nil, map[string]any{"deletionPolicy": "Retain"}, true},
		"whether there is another": {nil, map[string]any{"recreatePolicy": "Always"}, true},
		"the credentials":          {nil, map[string]any{"credentialsSecretRef": secret}, true},
		"another instance":         {map[string]any{"adoptInstanceID": "i-1"}, map[string]any{"adoptInstanceID": "i-2"}, false},
		"that it is adopted":       {nil, map[string]any{"adoptInstanceID": "i-1"}, false},
		"that it is not":           {map[string]any{"adoptInstanceID": "i-1"}, nil, false},
		"several":                  {nil, map[string]any{"regionID": "a", "imageID": "b", "zoneID": "c"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			wantChange(t, ecsInstance(test.old), ecsInstance(test.obj), test.want)
		})
	}
	for name, test := range map[string]struct {
		old, obj map[string]any
		want     bool
	}{
		"the period":                  {nil, map[string]any{"period": int64(2)}, false},
		"the unit":                    {nil, map[string]any{"periodUnit": "Week"}, false},
		"the unit, said as it is":     {nil, map[string]any{"periodUnit": "Month"}, true},
		"the unit is no longer said":  {map[string]any{"periodUnit": "Month"}, nil, true},
		"... though it was another":   {map[string]any{"periodUnit": "Week"}, nil, false},
		"it is no longer PrePaid":     {nil, map[string]any{"instanceChargeType": nil, "period": nil}, false},
		"... and counted weeks":       {map[string]any{"periodUnit": "Week"}, map[string]any{"instanceChargeType": nil, "period": nil}, false},
		"nothing of what is paid for": {map[string]any{"periodUnit": "Week"}, map[string]any{"periodUnit": "Week"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			wantChange(t, prePaid(test.old), prePaid(test.obj), test.want)
		})
	}
}

// wantChange fails the test unless old can become obj while there is no instance, and, if want says so, when there is one.
func wantChange(t *testing.T, old, obj map[string]any, want bool) {
	t.Helper()
	server := servers(t)["ECSInstance"]
	if !server.agreeOnUpdate(t, obj, old) {
		t.Error("refused though there is no instance")
	}
	if got := server.agreeOnUpdate(t, made(obj), made(old)); got != want {
		t.Errorf("when there is an instance: accepted: %t, want %t", got, want)
	}
	// Whoever changes both at once goes by what there was.
	if !server.agreeOnUpdate(t, made(obj), old) {
		t.Error("refused in the moment when the instance is made")
	}
	if got := server.agreeOnUpdate(t, obj, made(old)); got != want {
		t.Errorf("in the moment when the instance is given up: accepted: %t, want %t", got, want)
	}
}

// Both sides say the same of what cannot be changed, to the letter.
func TestSchemaAndValidateSayTheSameOfAChange(t *testing.T) {
	const words = "spec.zoneID: Forbidden: cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
	old, obj := made(ecsInstance(nil)), made(ecsInstance(map[string]any{"zoneID": "cn-beijing-h"}))
	_, errs := servers(t)["ECSInstance"].judge(t, obj, old)
	if len(errs) != 1 || errs[0].Error() != words {
		t.Errorf("the schema says %v, want %s", errs, words)
	}
	inGo, err := verdicts["ECSInstance"](obj, old)
	if err != nil || len(inGo.errs) != 1 || inGo.errs[0].Error() != words {
		t.Errorf("Validate says %v (%v), want %s", inGo.errs, err, words)
	}
}

func TestSchemaAndValidateAgreeOnEveryECSInstance(t *testing.T) {
	agreeOnAll(t, "ECSInstance", generator.ecsInstance)
}

func TestSchemaAndValidateAgreeOnEveryChangeOfAnECSInstance(t *testing.T) {
	server := servers(t)["ECSInstance"]
	g := generator{rand.New(rand.NewPCG(1, 2))}
	accepted, refused := 0, 0
	for accepted+refused < 1000 && !t.Failed() {
		old := g.ecsInstance()
		if _, errs := server.judge(t, old, nil); len(errs) > 0 {
			continue
		}
		obj, other := runtime.DeepCopyJSON(old), g.ecsInstance()
		for name, value := range other["spec"].(map[string]any) {
			if g.oneIn(4) {
				obj["spec"].(map[string]any)[name] = value
			}
		}
		if g.oneIn(2) {
			old = made(old)
		}
		if server.agreeOnUpdate(t, obj, old) {
			accepted++
		} else {
			refused++
		}
	}
	t.Logf("%d were accepted, %d refused", accepted, refused)
	if accepted < 200 || refused < 200 {
		t.Error("the generator should give some of both")
	}
}

func (g generator) ecsInstance() map[string]any {
	spec := map[string]any{}
	for name, value := range map[string]string{
		"regionID": "cn-beijing", "instanceType": "ecs.g6.large", "imageID": "m-2ze", "instanceName": "ins-0702", "zoneID": "cn-beijing-h",
		"vSwitchID": "vsw-2ze", "keyPairName": "operations",
	} {
		if g.oneIn(3) {
			spec[name] = g.mutate(value, "aA1 -.\nü")
		}
	}
	g.choice(spec, "instanceTypeChangePolicy", "Never", "WhenStopped", "Restart")
	g.choice(spec, "powerState", "Running", "Stopped")
	g.choice(spec, "deletionPolicy", "Delete", "Retain")
	if g.oneIn(6) {
		spec["imageID"] = nil
	}
	g.payment(spec)
	for _, part := range []struct {
		name  string
		value any
	}{
		{"disks", g.disks()}, {"tags", g.tags()}, {"securityGroupIDs", []any{"sg-1", g.mutate("sg-2", "1 -ü")}},
		{"internetMaxBandwidthOut", pick(g, int64(-1), 0, 100, 101)},
		{"userDataSecretRef", g.secretKey()}, {"credentialsSecretRef", map[string]any{"name": g.mutate("ecs-credentials", "P_ -.")}},
	} {
		if g.oneIn(5) {
			spec[part.name] = part.value
		}
	}
	if g.oneIn(5) {
		spec["adoptInstanceID"] = g.mutate("i-2ze", "aA1 -.\nü")
		g.choice(spec, "recreatePolicy", "Never", "Always")
	}
	return ecsInstance(spec)
}

func (g generator) payment(spec map[string]any) {
	if g.oneIn(3) {
		spec["instanceChargeType"] = "PrePaid"
		g.number(spec, "period", 1, 9)
		g.choice(spec, "periodUnit", "Week", "Month")
	}
	if g.oneIn(20) {
		spec["period"] = pick(g, int64(1), 10, 12)
	}
}

func (g generator) disks() any {
	disks := map[string]any{}
	disk := func(low, high int64) map[string]any {
		d := map[string]any{}
		g.number(d, "sizeGiB", low, high)
		if g.oneIn(2) {
			d["category"] = pick(g, "cloud_essd", "cloud_essd", "cloud_efficiency", "cloud auto")
		}
		if g.oneIn(4) {
			d["performanceLevel"] = pick(g, "PL0", "PL1", "pl1")
		}
		return d
	}
	if g.oneIn(2) {
		disks["system"] = disk(20, 2048)
	}
	if g.oneIn(2) {
		data := disk(1, 65536)
		if g.oneIn(2) {
			data["snapshotID"] = g.mutate("s-2ze", "1 -ü")
		}
		disks["data"] = []any{data}
	}
	return disks
}

func (g generator) tags() any {
	tags := map[string]any{}
	for range 1 + g.IntN(3) {
		key := g.mutate(pick(g, "team", "cost-center", "http:/a", "acs", "aliyu"), "n:/ 团")
		tags[key] = g.mutate(pick(g, "web", "4711", "http:/a"), "/ \n团")
	}
	return tags
}
