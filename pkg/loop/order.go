// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// urgentInARow is the largest number of consecutive urgent keys while other keys wait.
const urgentInARow = 7

// order is the order in which a workqueue returns its keys. Urgent keys come before the others; among equals, the first key that was
// added comes first. So a change, or a key that is due, does not wait behind all objects of a restart, a resync or an outage. While other
// keys wait, at least every eighth key is not urgent, so that no key waits forever.
//
// The workqueue calls the methods of order with its lock held. The function urgent takes the lock of causes.
type order struct {
	urgent      func(cache.ObjectName) bool
	first, rest []cache.ObjectName        // the urgent keys, and the others; a key that became urgent is in both
	isUrgent    map[cache.ObjectName]bool // whether the key is urgent, for each key that waits
	inARow      int                       // urgent keys that Pop returned since the last other key
}

var _ workqueue.Queue[cache.ObjectName] = &order{}

func newOrder(urgent func(cache.ObjectName) bool) *order {
	return &order{urgent: urgent, isUrgent: map[cache.ObjectName]bool{}}
}

// Push adds a key that is not in the queue.
func (o *order) Push(key cache.ObjectName) { o.add(key, o.urgent(key)) }

// Touch is called when a key that waits is added again.
func (o *order) Touch(key cache.ObjectName) {
	if urgent, waits := o.isUrgent[key]; waits && !urgent && o.urgent(key) {
		o.add(key, true)
	}
}

func (o *order) add(key cache.ObjectName, urgent bool) {
	o.isUrgent[key] = urgent
	line := o.line(urgent)
	*line = append(*line, key)
}

func (o *order) line(urgent bool) *[]cache.ObjectName {
	if urgent {
		return &o.first
	}
	return &o.rest
}

// Len returns how many keys wait.
func (o *order) Len() int { return len(o.isUrgent) }

// Pop removes the next key, and returns it. The queue must not be empty.
func (o *order) Pop() cache.ObjectName {
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
	return key
}

// take removes the first key of first (urgent) or rest, and returns it. It skips keys of rest that became urgent.
func (o *order) take(urgent bool) (key cache.ObjectName, found bool) {
	line := o.line(urgent)
	for len(*line) > 0 && !found {
		key = (*line)[0]
		(*line)[0] = cache.ObjectName{} // for the garbage collector
		*line = (*line)[1:]
		is, waits := o.isUrgent[key]
		found = waits && is == urgent
	}
	if found {
		delete(o.isUrgent, key)
	}
	return key, found
}
