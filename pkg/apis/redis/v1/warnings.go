/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import (
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Warnings returns what is legal but unwise about a valid RedisCluster with defaults, each
// beginning with the field; nil for nothing. kubectl shows them.
//
// What config says in so many words is none of it: who writes that appendfsync is "no"
// knows what that means.
func (r *RedisCluster) Warnings() []string {
	var warnings []string
	if *r.Spec.ReplicasPerMaster == 0 {
		warnings = append(warnings, "spec.replicasPerMaster: with 0 no replica takes over the slots of a master that fails")
	}
	if r.Spec.Storage == nil {
		warnings = append(warnings, "spec.storage: without it a Pod's data is gone with the Pod")
	}
	if r.Spec.killedWhenFull() {
		warnings = append(warnings, "spec.config: unless maxmemory is less than the limit of memory, "+
			"a full node is killed instead of evicting or refusing")
	}
	return warnings
}

// killedWhenFull returns whether a node reaches its limit of memory before it knows that it
// is full.
func (s *RedisClusterSpec) killedWhenFull() bool {
	if s.Resources == nil {
		return false
	}
	limit, limited := s.Resources.Limits[corev1.ResourceMemory]
	if !limited {
		return false
	}
	most, ok := bytesOf(string(s.Config["maxmemory"]))
	return ok && (most == 0 || most >= limit.Value())
}

// bytesOf reads an amount of memory as redis.conf has it, like "100mb", and returns false if
// it is none, as redis-server will say. "" is 0, which to Redis is no limit.
func bytesOf(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, true
	}
	digits := strings.TrimRight(text, "bBkKmMgG")
	unit, ok := units[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// units are those of redis.conf. Without its b, a unit is one of a thousand.
var units = map[string]int64{
	"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000_000, "mb": 1 << 20, "g": 1000_000_000, "gb": 1 << 30,
}
