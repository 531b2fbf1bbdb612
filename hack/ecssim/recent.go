// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import "time"

// recent remembers each value for the duration ttl.
type recent[K comparable, V any] struct {
	ttl    time.Duration
	values map[K]V
	ends   []ending[K] // in order of time
}

type ending[K comparable] struct {
	key K
	at  time.Time
}

func newRecent[K comparable, V any](ttl time.Duration) *recent[K, V] {
	return &recent[K, V]{ttl: ttl, values: map[K]V{}}
}

// get returns the value of a key that was put in less than ttl ago.
func (r *recent[K, V]) get(key K, now time.Time) (V, bool) {
	for len(r.ends) > 0 && !now.Before(r.ends[0].at) {
		delete(r.values, r.ends[0].key)
		r.ends = r.ends[1:]
	}
	value, found := r.values[key]
	return value, found
}

// put adds a key that get does not find.
func (r *recent[K, V]) put(key K, value V, now time.Time) {
	r.values[key] = value
	r.ends = append(r.ends, ending[K]{key: key, at: now.Add(r.ttl)})
}
