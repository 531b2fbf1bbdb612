// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// urgentInARow is the largest number of consecutive urgent keys while other keys wait.
const urgentInARow = 7

// order is the order in which a workqueue returns its keys:
//
//   - Urgent keys come before the others. So a change, or a key that is due, does not wait behind all objects of a restart, a resync or an
//     outage. While other keys wait, at least every eighth key is not urgent, so that no key waits forever.
//   - Among equals, the namespaces take turns, and the keys of a namespace come in the order in which they were added. So thousands of
//     objects in one namespace do not delay the objects of the others.
//   - Once there are keys of a second namespace, at most half of the workers sync keys of one at the same time. So its slow servers leave
//     workers for the others.
//
// The workqueue calls the methods of its interface with its lock held. The function urgent takes the lock of causes.
type order struct {
	urgent func(cache.ObjectName) bool

	mu       sync.Mutex
	lines    map[bool]*line            // the urgent keys (true), and the others; a key that became urgent is in both
	isUrgent map[cache.ObjectName]bool // whether the key is urgent, for each key that waits
	inARow   int                       // urgent keys that Pop returned since the last other key

	workers int            // 0 before Run: without workers, no key is held back
	seen    *string        // the namespace of the first key
	several bool           // whether there was a key of another namespace
	waiting map[string]int // keys that wait, by namespace
	running map[string]int // keys that Pop returned and that are not done, by namespace
}

var _ workqueue.Queue[cache.ObjectName] = &order{}

func newOrder(urgent func(cache.ObjectName) bool) *order {
	return &order{
		urgent:   urgent,
		lines:    map[bool]*line{true: {keys: map[string][]cache.ObjectName{}}, false: {keys: map[string][]cache.ObjectName{}}},
		isUrgent: map[cache.ObjectName]bool{}, waiting: map[string]int{}, running: map[string]int{},
	}
}

// Push adds a key that is not in the queue.
func (o *order) Push(key cache.ObjectName) {
	urgent := o.urgent(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = &key.Namespace
	}
	o.several = o.several || *o.seen != key.Namespace
	o.waiting[key.Namespace]++
	o.add(key, urgent)
}

// Touch is called when a key that waits is added again.
func (o *order) Touch(key cache.ObjectName) {
	becomes := o.urgent(key)
	o.mu.Lock()
	defer o.mu.Unlock()
	if urgent, waits := o.isUrgent[key]; waits && !urgent && becomes {
		o.add(key, true)
	}
}

func (o *order) add(key cache.ObjectName, urgent bool) {
	o.isUrgent[key] = urgent
	o.lines[urgent].add(key)
}

// Len returns how many keys wait and are not held back. A worker waits while Len is 0. A key that done makes available wakes no worker: the
// worker that is done calls Len next.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.isUrgent)
	for namespace := range o.running {
		if o.isFull(namespace) {
			n -= o.waiting[namespace]
		}
	}
	return n
}

// all returns how many keys wait.
func (o *order) all() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.isUrgent)
}

// setWorkers sets the number of workers, of which a namespace gets half.
func (o *order) setWorkers(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.workers = n
}

// isFull reports whether a namespace of several has half of the workers, rounded up.
func (o *order) isFull(namespace string) bool {
	return o.several && o.workers > 0 && 2*o.running[namespace] >= o.workers
}

// Pop removes the next key, and returns it. Len must not be 0. The caller calls done when it has processed the key.
func (o *order) Pop() cache.ObjectName {
	o.mu.Lock()
	defer o.mu.Unlock()
	urgent := o.inARow < urgentInARow
	key, found := o.take(urgent)
	if !found {
		urgent = !urgent
		key, _ = o.take(urgent)
	}
	if urgent {
		o.inARow++
	} else {
		o.inARow = 0
	}
	o.running[key.Namespace]++
	return key
}

// done records that a key which Pop returned is processed.
func (o *order) done(key cache.ObjectName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	decrement(o.running, key.Namespace)
}

// take removes the next key that is urgent, or not, and returns it. It skips keys that became urgent.
func (o *order) take(urgent bool) (key cache.ObjectName, found bool) {
	key, found = o.lines[urgent].take(o.isFull, func(key cache.ObjectName) bool {
		is, waits := o.isUrgent[key]
		return waits && is == urgent
	})
	if found {
		delete(o.isUrgent, key)
		decrement(o.waiting, key.Namespace)
	}
	return key, found
}

// decrement subtracts 1. A number that is 0 has no entry.
func decrement(numbers map[string]int, namespace string) {
	if numbers[namespace]--; numbers[namespace] == 0 {
		delete(numbers, namespace)
	}
}

// line is a queue of keys in which namespaces take turns.
type line struct {
	turns []string                      // the namespaces that have keys; the next one is first
	keys  map[string][]cache.ObjectName // by namespace
}

func (l *line) add(key cache.ObjectName) {
	if len(l.keys[key.Namespace]) == 0 {
		l.turns = append(l.turns, key.Namespace)
	}
	l.keys[key.Namespace] = append(l.keys[key.Namespace], key)
}

// take removes the next key for which valid is true, and the invalid keys before it. It passes over namespaces that are full.
func (l *line) take(full func(namespace string) bool, valid func(cache.ObjectName) bool) (key cache.ObjectName, found bool) {
	for range len(l.turns) {
		namespace := l.turns[0]
		l.turns = l.turns[1:]
		keys := l.keys[namespace]
		for !full(namespace) && len(keys) > 0 && !found {
			key, found = keys[0], valid(keys[0])
			keys[0] = cache.ObjectName{} // for the garbage collector
			keys = keys[1:]
		}
		if len(keys) > 0 {
			l.keys[namespace] = keys
			l.turns = append(l.turns, namespace)
		} else {
			delete(l.keys, namespace)
		}
		if found {
			return key, true
		}
	}
	return cache.ObjectName{}, false
}
