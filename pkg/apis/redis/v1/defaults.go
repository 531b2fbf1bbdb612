// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "k8s.io/utils/ptr"

// The defaults of a RedisCluster.
const (
	DefaultSize              = 6
	DefaultReplicasPerMaster = 1
	DefaultImage             = "redis:7"
	DefaultAuthKey           = "password"
)

const (
	// MinMasters is the number of masters that a Redis Cluster needs to survive the loss of one
	// (https://redis.io/docs/latest/operate/oss_and_stack/management/scaling/).
	MinMasters = 3
	// MinSize is the smallest size, for any number of replicas.
	MinSize = 6
)

// Default sets the defaults of the schema, for objects without them, and raises a size that
// is too small.
func (r *RedisCluster) Default() {
	s := &r.Spec
	set(&s.Size, ptr.To[int32](DefaultSize))
	set(&s.ReplicasPerMaster, ptr.To[int32](DefaultReplicasPerMaster))
	set(&s.Image, DefaultImage)
	if least := s.LeastSize(); *s.Size < least {
		s.Size = &least
	}
	if s.AuthSecretRef != nil {
		set(&s.AuthSecretRef.Key, DefaultAuthKey)
	}
	for i := range s.Users {
		s.Users[i].setDefaults()
	}
	if s.TLS != nil {
		set(&s.TLS.Mode, TLSPreferred)
		set(&s.TLS.Port, DefaultTLSPort)
	}
	s.setBackupDefaults()
	if s.PodTemplate != nil {
		s.PodTemplate.Default()
	}
}

// LeastSize returns the smallest size for replicasPerMaster.
func (s *RedisClusterSpec) LeastSize() int32 {
	replicas := min(max(ptr.Deref(s.ReplicasPerMaster, DefaultReplicasPerMaster), 0), maxReplicasPerMaster)
	return max(MinSize, MinMasters*(1+replicas))
}

// Masters returns the number of masters of a RedisCluster with defaults.
func (s *RedisClusterSpec) Masters() int32 { return *s.Size / (1 + *s.ReplicasPerMaster) }

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
