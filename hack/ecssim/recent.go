// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import "time"

// recent remembers each value for the duration ttl.
type recent[K comparable, V any] struct {
	ttl      time.Duration
	values   map[K]V
	expiries []expiry[K] // in order of time
}

type expiry[K comparable] struct {
	key K
	at  time.Time
}

func newRecent[K comparable, V any](ttl time.Duration) *recent[K, V] {
	return &recent[K, V]{ttl: ttl, values: map[K]V{}}
}

// get returns the value of a key if put was called for the key less than ttl ago. It removes expired values.
func (r *recent[K, V]) get(key K, now time.Time) (V, bool) {
	for len(r.expiries) > 0 && !now.Before(r.expiries[0].at) {
		delete(r.values, r.expiries[0].key)
		r.expiries = r.expiries[1:]
	}
	value, found := r.values[key]
	return value, found
}

// put adds a key. The key must not be present: callers call get first.
func (r *recent[K, V]) put(key K, value V, now time.Time) {
	r.values[key] = value
	r.expiries = append(r.expiries, expiry[K]{key: key, at: now.Add(r.ttl)})
}
