/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecssim

import "time"

// recent remembers values for a while.
type recent[K comparable, V any] struct {
	life   time.Duration
	values map[K]V
	ends   []ending[K] // in order of time
}

type ending[K comparable] struct {
	key K
	at  time.Time
}

func newRecent[K comparable, V any](life time.Duration) *recent[K, V] {
	return &recent[K, V]{life: life, values: map[K]V{}}
}

// get returns the value of a key that was put in within the last life.
func (r *recent[K, V]) get(key K, now time.Time) (V, bool) {
	for len(r.ends) > 0 && !now.Before(r.ends[0].at) {
		delete(r.values, r.ends[0].key)
		r.ends = r.ends[1:]
	}
	value, found := r.values[key]
	return value, found
}

// put has a key that get has not found remembered from now on.
func (r *recent[K, V]) put(key K, value V, now time.Time) {
	r.values[key] = value
	r.ends = append(r.ends, ending[K]{key: key, at: now.Add(r.life)})
}
