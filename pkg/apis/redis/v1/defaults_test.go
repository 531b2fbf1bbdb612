// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func TestDefault(t *testing.T) {
	defaults := RedisClusterSpec{Size: ptr.To[int32](6), ReplicasPerMaster: ptr.To[int32](1), Image: "redis:7"}
	set := RedisClusterSpec{
		Addr:              "192.168.1.10:6379",
		Size:              ptr.To[int32](9),
		ReplicasPerMaster: ptr.To[int32](2),
		Image:             "redis:7.4",
		Storage:           &Storage{Size: resource.MustParse("1Gi"), StorageClassName: ptr.To("standard")},
		Config:            map[string]ConfigValue{"maxmemory": "100mb"},
		AuthSecretRef:     &SecretKeyReference{Name: "redis-password", Key: "default"},
	}
	with := func(mutate func(s *RedisClusterSpec)) RedisClusterSpec {
		s := *defaults.DeepCopy()
		mutate(&s)
		return s
	}
	auth := func(key string) RedisClusterSpec {
		return with(func(s *RedisClusterSpec) { s.AuthSecretRef = &SecretKeyReference{Name: "redis-password", Key: key} })
	}
	storage := with(func(s *RedisClusterSpec) { s.Storage = &Storage{Size: resource.MustParse("1Gi")} })
	for name, test := range map[string]struct{ spec, want RedisClusterSpec }{
		"an empty spec gets what the schema defaults, and no addr": {RedisClusterSpec{}, defaults},
		"what is set stays": {set, set},
		"no replicas are said, and stay none": {
			RedisClusterSpec{ReplicasPerMaster: ptr.To[int32](0)}, with(func(s *RedisClusterSpec) { s.ReplicasPerMaster = ptr.To[int32](0) }),
		},
		"the seed's size of 3 is raised to 6":                {RedisClusterSpec{Size: ptr.To[int32](3)}, defaults},
		"a key of the Secret is password":                    {auth(""), auth("password")},
		"storage gets no class: it is the cluster's default": {storage, storage},
		"a size that is too large stays, for Validate to refuse": {
			RedisClusterSpec{Size: ptr.To[int32](501)}, with(func(s *RedisClusterSpec) { s.Size = ptr.To[int32](501) }),
		},
		"defaults get no more defaults": {defaults, defaults},
	} {
		t.Run(name, func(t *testing.T) {
			r := &RedisCluster{Spec: *test.spec.DeepCopy()}
			r.Default()
			if !reflect.DeepEqual(r.Spec, test.want) {
				t.Errorf("got %+v, want %+v", r.Spec, test.want)
			}
		})
	}
}

// There is no size that is refused for being small.
func TestSize(t *testing.T) {
	for name, test := range map[string]struct {
		size, replicas *int32
		want, masters  int32
	}{
		"not set, it is six":                                    {nil, nil, 6, 3},
		"the seed's 3 is raised to six":                         {ptr.To[int32](3), nil, 6, 3},
		"nothing is raised to six":                              {ptr.To[int32](0), nil, 6, 3},
		"less than nothing is raised to six":                    {ptr.To[int32](-1), nil, 6, 3},
		"the least number of all is raised to six":              {ptr.To[int32](math.MinInt32), nil, 6, 3},
		"one too few is raised to six":                          {ptr.To[int32](5), nil, 6, 3},
		"six stays":                                             {ptr.To[int32](6), nil, 6, 3},
		"seven stays: a master has two replicas":                {ptr.To[int32](7), nil, 7, 3},
		"the most there may be stays":                           {ptr.To[int32](500), nil, 500, 250},
		"three masters with two replicas are nine":              {nil, ptr.To[int32](2), 9, 3},
		"six are too few for two replicas":                      {ptr.To[int32](6), ptr.To[int32](2), 9, 3},
		"ten are three masters with two replicas, and one more": {ptr.To[int32](10), ptr.To[int32](2), 10, 3},
		"five replicas need eighteen":                           {ptr.To[int32](17), ptr.To[int32](5), 18, 3},
		"without replicas all six are masters":                  {ptr.To[int32](3), ptr.To[int32](0), 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			r := &RedisCluster{Spec: RedisClusterSpec{Size: test.size, ReplicasPerMaster: test.replicas}}
			r.Default()
			if got := *r.Spec.Size; got != test.want {
				t.Errorf("got size %d, want %d", got, test.want)
			}
			if got := r.Spec.Masters(); got != test.masters {
				t.Errorf("got %d masters, want %d", got, test.masters)
			}
		})
	}
}

// A number of replicas that Validate refuses must not lead to an impossible allocation.
func TestTheLeastSizeIsOfReplicasThatThereMayBe(t *testing.T) {
	for replicas, want := range map[int32]int32{math.MinInt32: 6, -1: 6, 0: 6, 1: 6, 2: 9, 5: 18, 6: 18, math.MaxInt32: 18} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			if got := (&RedisClusterSpec{ReplicasPerMaster: &replicas}).LeastSize(); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
}
