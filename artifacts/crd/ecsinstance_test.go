// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"slices"
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

func TestFieldsOfECSInstances(t *testing.T) {
	const kind = "ECSInstance"
	with := func(name string) func(value string) map[string]any {
		return func(value string) map[string]any { return ecsInstance(map[string]any{name: value}) }
	}
	acceptsOnly(t, kind, "regionID", map[string]bool{
		"us-west-1": true, "cn-hangzhou-finance": true, "x": true, "1": true, strings.Repeat("x", 63): true,

		" ": false, "cn_beijing": false, "cn beijing": false, "-cn": false, "cn-": false, "cn-beijing\n": false, "cn.beijing": false,
		"a/": false, "a#": false, "a?": false, "a@b": false, "a:80": false, "ü": false, strings.Repeat("x", 64): false,
	}, with("regionID"))
	ids := map[string]bool{
		"i-2zeh8k2m5q1d4w7p9x3c": true, "x": true, "ecs.g6.large": true, "m-2ze_A.b:c/d": true, "~!": true, strings.Repeat("x", 128): true,

		" ": false, "a b": false, " a": false, "a\n": false, "a\x00": false, "ü": false, strings.Repeat("x", 129): false,
	}
	for name, id := range map[string]func(string) map[string]any{
		"imageID": with("imageID"), "instanceType": with("instanceType"), "zoneID": with("zoneID"), "vSwitchID": with("vSwitchID"),
		"adoptInstanceID": with("adoptInstanceID"),
		"securityGroupIDs": func(id string) map[string]any {
			return ecsInstance(map[string]any{"securityGroupIDs": []any{"sg-1", id}})
		},
		"snapshotID": func(id string) map[string]any {
			return ecsInstance(map[string]any{"disks": map[string]any{"data": []any{map[string]any{"snapshotID": id}}}})
		},
	} {
		acceptsOnly(t, kind, name, ids, id)
	}
	acceptsOnly(t, kind, "what is needed", map[string]bool{"instanceType": false, "regionID": false, "imageID": false, "instanceName": true},
		func(name string) map[string]any { return ecsInstance(map[string]any{name: nil}) })
	acceptsOnly(t, kind, "instanceName", map[string]bool{
		"ab": true, "Ab": true, "ü1": true, "实例": true, "a[1,2]b": true, "httpd": true, "a http://b": true, strings.Repeat("实", 128): true,

		"实": false, "-a": false, "_a": false, " ab": false, "https://a": false, "ab\n": false, "a\tb": false, "a\x7f": false,
		strings.Repeat("x", 129): false, strings.Repeat("实", 129): false,
	}, with("instanceName"))
	acceptsOnly(t, kind, "keyPairName", map[string]bool{
		"a.b_c:d-1": true, "密钥": true, strings.Repeat("密", 128): true,
		" ": false, "a\n": false, "a\x7f": false, strings.Repeat("密", 129): false,
	}, with("keyPairName"))
	for unit, periods := range map[string]map[int64]bool{
		"Month": {
			1: true, 9: true, 12: true, 24: true, 36: true, 48: true, 60: true,
			0: false, -1: false, 11: false, 13: false, 61: false, 1 << 31: false, 1 << 40: false,
		},
		"Week": {1: true, 4: true, 0: false, -1: false, 12: false, 60: false, 1 << 31: false},
	} {
		acceptsOnly(t, kind, unit, periods, func(period int64) map[string]any {
			return prePaid(map[string]any{"period": period, "periodUnit": unit})
		})
	}
	acceptsOnly(t, kind, "tags", map[string]bool{
		"cost center": true, "kubernetes.io/cluster": true, "团队": true, "a:b": true, "acs": true, "my-aliyun": true,
		"glassback.dev": true, "httpd": true, strings.Repeat("团", 128): true,

		"": false, "aliyun": false, "acs:": false, "glassback.dev/": false, "a https://b": false, strings.Repeat("x", 129): false,
		strings.Repeat("团", 129): false,
	}, func(key string) map[string]any {
		return ecsInstance(map[string]any{"tags": map[string]any{"a": "1", key: "b"}})
	})
	acceptsOnly(t, kind, "tags.value", map[string]bool{
		"": true, "a b": true, "网": true, "aliyun": true, "acs:": true, "http:/a": true, strings.Repeat("网", 128): true,
		"a https://b": false, strings.Repeat("x", 129): false, strings.Repeat("网", 129): false,
	}, func(value string) map[string]any {
		return ecsInstance(map[string]any{"tags": map[string]any{"a": value}})
	})
	for _, ref := range []string{"credentialsSecretRef", "userDataSecretRef"} {
		acceptsOnly(t, kind, ref, objectNames, func(name string) map[string]any {
			return ecsInstance(map[string]any{ref: map[string]any{"name": name}})
		})
	}
	acceptsOnly(t, kind, "userDataSecretRef.key", map[string]bool{
		"a.B_c-1": true, strings.Repeat("x", 253): true, " ": false, "a/b": false, "ü": false, strings.Repeat("x", 254): false,
	}, func(key string) map[string]any {
		return ecsInstance(map[string]any{"userDataSecretRef": map[string]any{"name": "a", "key": key}})
	})
}

// TestFieldsOfECSInstancesThatDependOnOthers is about payment, adoption and disks. What can be compared with an
// instance that is there already may be said of it; what only matters when one is made may not.
func TestFieldsOfECSInstancesThatDependOnOthers(t *testing.T) {
	adopted := func(spec map[string]any) map[string]any {
		obj := ecsInstance(spec)
		obj["spec"].(map[string]any)["adoptInstanceID"] = "i-2zeh8k2m5q1d4w7p9x3c"
		return obj
	}
	data := func(disks ...any) map[string]any {
		return ecsInstance(map[string]any{"disks": map[string]any{"data": disks}})
	}
	system := func(disk map[string]any) map[string]any {
		return ecsInstance(map[string]any{"disks": map[string]any{"system": disk}})
	}
	for name, test := range map[string]struct {
		obj  map[string]any
		want bool
	}{
		"PrePaid needs a period, even with a unit": {prePaid(map[string]any{"period": nil, "periodUnit": "Week"}), false},
		"PostPaid has no period": {
			ecsInstance(map[string]any{"instanceChargeType": "PostPaid", "period": int64(1)}), false,
		},
		"a charge type that there is not of a period": {prePaid(map[string]any{"instanceChargeType": "Free"}), false},
		"an adopted instance has no period":           {prePaid(map[string]any{"adoptInstanceID": "i-1"}), false},
		"an adopted instance has no unit": {
			prePaid(map[string]any{"adoptInstanceID": "i-1", "period": nil, "periodUnit": "Week"}), false,
		},
		"an adopted instance may be PrePaid without": {prePaid(map[string]any{"adoptInstanceID": "i-1", "period": nil}), true},
		"an adopted instance needs no image":         {adopted(map[string]any{"imageID": nil}), true},
		"an adopted instance needs a type":           {adopted(map[string]any{"instanceType": nil}), false},
		"a bandwidth of an adopted instance":         {adopted(map[string]any{"internetMaxBandwidthOut": int64(0)}), false},
		"several that do not go with an adopted one": {adopted(map[string]any{"disks": map[string]any{}, "recreatePolicy": "Always"}), false},
		"a system disk that is a null":               {system(nil), true},
		"a large system disk":                        {system(map[string]any{"sizeGiB": int64(2048)}), true},
		"a system disk too large":                    {system(map[string]any{"sizeGiB": int64(2049)}), false},
		"a level":                                    {system(map[string]any{"category": "cloud_essd", "performanceLevel": "PL3"}), true},
		"a level of no category":                     {system(map[string]any{"performanceLevel": "PL1"}), false},
		"a category too long":                        {system(map[string]any{"category": strings.Repeat("x", 65)}), false},
		"a data disk of a snapshot": {
			data(map[string]any{"snapshotID": "s-1", "encrypted": true, "keepOnRelease": true}), true,
		},
		"a data disk too large":                         {data(map[string]any{"sizeGiB": int64(65537)}), false},
		"a mistake in the second data disk":             {data(map[string]any{"sizeGiB": int64(1)}, map[string]any{}), false},
		"as many data disks as there can be":            {data(slices.Repeat([]any{map[string]any{"sizeGiB": int64(20)}}, 16)...), true},
		"one data disk more":                            {data(slices.Repeat([]any{map[string]any{"sizeGiB": int64(20)}}, 17)...), false},
		"a bandwidth, in the place of the default of 0": {ecsInstance(map[string]any{"internetMaxBandwidthOut": int64(100)}), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := servers(t)["ECSInstance"].accepts(t, test.obj, nil); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

// The most of everything is within what the rules may cost when they run; one more is too many.
func TestTheLargestECSInstance(t *testing.T) {
	server := servers(t)["ECSInstance"]
	largest := func(tags, groups int) map[string]any {
		spec := map[string]any{"tags": map[string]any{}}
		for i := range tags {
			spec["tags"].(map[string]any)[fmt.Sprintf("%s%03d", strings.Repeat("团", 125), i)] = strings.Repeat("网", 128)
		}
		var ids []any
		for i := range groups {
			ids = append(ids, fmt.Sprintf("%s%03d", strings.Repeat("x", 125), i))
		}
		data := slices.Repeat([]any{map[string]any{"snapshotID": strings.Repeat("x", 128), "category": strings.Repeat("x", 64)}}, 16)
		spec["securityGroupIDs"], spec["disks"] = ids, map[string]any{"data": data}
		return ecsInstance(spec)
	}
	most := largest(17, 16)
	if !server.accepts(t, most, nil) || !server.accepts(t, most, made(most)) {
		t.Error("the largest was refused")
	}
	if server.accepts(t, largest(18, 16), nil) || server.accepts(t, largest(17, 17), nil) {
		t.Error("one tag or one group more was accepted")
	}
}

// Before there is an instance, everything can change. When there is one, what ECS does not change of it cannot.
func TestChangesOfECSInstances(t *testing.T) {
	disks := func(size int64) map[string]any {
		return map[string]any{"data": []any{map[string]any{"sizeGiB": size}}}
	}
	plain := disks(20)
	plain["data"].([]any)[0].(map[string]any)["encrypted"] = false
	secret := map[string]any{"name": "a"}
	type spec = map[string]any
	for name, test := range map[string]struct {
		old, obj map[string]any
		want     bool // when there is an instance
	}{
		"the region":                    {ecsInstance(nil), ecsInstance(spec{"regionID": "cn-hangzhou"}), false},
		"the name is no longer said":    {ecsInstance(nil), ecsInstance(spec{"instanceName": nil}), true},
		"how it is paid for":            {ecsInstance(nil), prePaid(nil), false},
		"a zone":                        {ecsInstance(nil), ecsInstance(spec{"zoneID": "cn-beijing-h"}), false},
		"no zone":                       {ecsInstance(spec{"zoneID": "a"}), ecsInstance(nil), false},
		"a bandwidth of nothing":        {ecsInstance(nil), ecsInstance(spec{"internetMaxBandwidthOut": int64(0)}), true},
		"the same disks, in more words": {ecsInstance(spec{"disks": disks(20)}), ecsInstance(spec{"disks": plain}), true},
		"a key pair":                    {ecsInstance(nil), ecsInstance(spec{"keyPairName": "a"}), false},
		"user data":                     {ecsInstance(nil), ecsInstance(spec{"userDataSecretRef": secret}), false},
		"its default key": {
			ecsInstance(spec{"userDataSecretRef": secret}), ecsInstance(spec{"userDataSecretRef": spec{"name": "a", "key": "userData"}}), true,
		},
		"that it is not": {ecsInstance(spec{"adoptInstanceID": "i-1"}), ecsInstance(nil), false},
		"several":        {ecsInstance(nil), ecsInstance(spec{"regionID": "a", "imageID": "b", "zoneID": "c"}), false},
		"all that may": {ecsInstance(spec{"tags": spec{"a": "b"}}), ecsInstance(spec{
			"instanceType": "ecs.g7.large", "instanceTypeChangePolicy": "Restart", "instanceName": "other", "powerState": "Stopped",
			"deletionPolicy": "Retain", "recreatePolicy": "Always", "securityGroupIDs": []any{"sg-2"}, "tags": spec{"d": ""},
			"credentialsSecretRef": secret,
		}), true},
		"the unit":                   {prePaid(nil), prePaid(spec{"periodUnit": "Week"}), false},
		"the unit is no longer said": {prePaid(spec{"periodUnit": "Month"}), prePaid(nil), true},
		"... though it was another":  {prePaid(spec{"periodUnit": "Week"}), prePaid(nil), false},
		"... and counted weeks":      {prePaid(spec{"periodUnit": "Week"}), ecsInstance(nil), false},
	} {
		t.Run(name, func(t *testing.T) { wantChange(t, test.old, test.obj, test.want) })
	}
}

// wantChange fails the test unless old can become obj while there is no instance, and, if want says so, when there is one.
func wantChange(t *testing.T, old, obj map[string]any, want bool) {
	t.Helper()
	server := servers(t)["ECSInstance"]
	if !server.accepts(t, obj, old) {
		t.Error("refused though there is no instance")
	}
	if got := server.accepts(t, made(obj), made(old)); got != want {
		t.Errorf("when there is an instance: accepted: %t, want %t", got, want)
	}
	// Whoever changes both at once goes by what there was.
	if !server.accepts(t, made(obj), old) {
		t.Error("refused in the moment when the instance is made")
	}
	if got := server.accepts(t, obj, made(old)); got != want {
		t.Errorf("in the moment when the instance is given up: accepted: %t, want %t", got, want)
	}
}
