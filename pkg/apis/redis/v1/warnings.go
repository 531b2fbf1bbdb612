// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Warnings returns what is valid but unwise in a valid RedisCluster with defaults, or nil.
// Each warning begins with the field. kubectl prints them.
//
// There is no warning about an explicit choice in config, such as appendfsync "no".
func (r *RedisCluster) Warnings() []string {
	var warnings []string
	if *r.Spec.ReplicasPerMaster == 0 {
		warnings = append(warnings, "spec.replicasPerMaster: with 0 no replica takes over the slots of a master that fails")
	}
	if r.Spec.Storage == nil {
		warnings = append(warnings, "spec.storage: without it a Pod's data is gone with the Pod")
	}
	if r.Spec.killedWhenFull() {
		warnings = append(warnings, "spec.config: unless maxmemory is below the memory limit, "+
			"a full node is killed before it evicts keys or rejects writes")
	}
	if r.Spec.External() != nil && r.Spec.AuthSecretRef == nil && len(r.Spec.Users) == 0 {
		warnings = append(warnings, "spec.access.external: without authSecretRef and users, clients need no password")
	}
	return warnings
}

// killedWhenFull returns whether a node reaches its limit of memory before it reaches
// maxmemory.
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

// bytesOf parses an amount of memory of redis.conf, like "100mb". It returns false if the text
// is invalid: redis-server reports that. "" is 0, which means no limit.
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

// units are the units of redis.conf, in bytes. A unit without b is a power of 1000.
var units = map[string]int64{
	"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000_000, "mb": 1 << 20, "g": 1000_000_000, "gb": 1 << 30,
}
