// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// stored returns a valid RedisCluster with storage, after mutate has been at its spec.
func stored(mutate func(s *RedisClusterSpec)) *RedisCluster {
	return valid(func(s *RedisClusterSpec) {
		s.Storage = &Storage{Size: resource.MustParse("1Gi")}
		mutate(s)
	})
}

// limited returns one whose nodes have 100 MiB of memory, and this maxmemory unless "".
func limited(maxmemory ConfigValue) *RedisCluster {
	return stored(func(s *RedisClusterSpec) {
		s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}}
		if maxmemory != "" {
			s.Config = map[string]ConfigValue{"maxmemory": maxmemory}
		}
	})
}

func TestWarnings(t *testing.T) {
	const (
		replicas = "spec.replicasPerMaster: with 0 no replica takes over the slots of a master that fails"
		storage  = "spec.storage: without it a Pod's data is gone with the Pod"
		password = "spec.access.external: without authSecretRef and users, clients need no password"
		memory   = "spec.config: unless maxmemory is below the memory limit, a full node is killed before it evicts keys or rejects writes"
	)
	outside := func(s *RedisClusterSpec) { s.Access = &Access{External: &ExternalAccess{Type: ExternalNodePort}} }
	for name, test := range map[string]struct {
		object *RedisCluster
		want   []string
	}{
		"the seed has no storage":              {valid(func(*RedisClusterSpec) {}), []string{storage}},
		"with storage there is nothing to say": {stored(func(*RedisClusterSpec) {}), nil},
		"no replicas": {
			stored(func(s *RedisClusterSpec) { s.ReplicasPerMaster = ptr.To[int32](0) }), []string{replicas},
		},
		"what config says in so many words": {stored(func(s *RedisClusterSpec) {
			s.Config = map[string]ConfigValue{"save": "", "appendfsync": "no", "maxmemory": "0"}
		}), nil},
		"a limit of CPU, or a request for memory, kills no Pod": {stored(func(s *RedisClusterSpec) {
			s.Resources = &corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
		}), nil},
		"no maxmemory below the limit":                 {limited(""), []string{memory}},
		"a maxmemory of 0 is none":                     {limited("0"), []string{memory}},
		"a maxmemory of as much as the limit":          {limited("100mb"), []string{memory}},
		"a maxmemory above the limit":                  {limited("1GB"), []string{memory}},
		"a maxmemory in bytes, of as much":             {limited("104857600"), []string{memory}},
		"a maxmemory in bytes, of one less, gets none": {limited("104857599"), nil},
		"a maxmemory below the limit gets none":        {limited("75mb"), nil},
		"100m are less than 100mb, and get none":       {limited("100m"), nil},
		"a maxmemory in kilobytes gets none":           {limited("70000K"), nil},
		"a maxmemory in bytes, with a unit, gets none": {limited("75000000b"), nil},
		"what redis-server will refuse gets none":      {limited("a lot"), nil},
		"what no number holds gets none":               {limited("9999999999999gb"), nil},
		"a unit alone gets none":                       {limited("mb"), nil},
		"a unit of units gets none":                    {limited("1mbmb"), nil},
		"less than nothing gets none":                  {limited("-1"), nil},
		"access from outside without a password":       {stored(outside), []string{password}},
		"access from outside with a password": {stored(func(s *RedisClusterSpec) {
			outside(s)
			s.AuthSecretRef = &SecretKeyReference{Name: "demo", Key: "password"}
		}), nil},
		"access from outside with users": {stored(func(s *RedisClusterSpec) {
			outside(s)
			password := &SecretKeyReference{Name: "demo", Key: "password"}
			s.Users = []User{{Name: "default", Rules: "off"}, {Name: "app", Rules: "+@read", PasswordSecretRef: password}}
		}), nil},
		"all of it": {valid(func(s *RedisClusterSpec) {
			s.ReplicasPerMaster, s.Resources = ptr.To[int32](0), limited("").Spec.Resources
		}), []string{replicas, storage, memory}},
	} {
		t.Run(name, func(t *testing.T) {
			if errs := test.object.Validate(nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			got := test.object.Warnings()
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, warning := range got {
				if len(warning) > 120 {
					t.Errorf("too long for one line: %q", warning)
				}
			}
		})
	}
}

func TestWithoutAWarningThereIsNoAllocation(t *testing.T) {
	r := limited("75mb")
	if n := testing.AllocsPerRun(100, func() { r.Warnings() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
