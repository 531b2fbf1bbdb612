// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// urgentInARow is the largest number of consecutive urgent keys while others wait.
const urgentInARow = 7

// order is the order in which a workqueue hands out its keys. Urgent keys come before the others, and both come in the order in which they
// were added: a change, or a time that has come, does not wait behind all objects of a restart, of a resync, or of an outage that made
// every sync fail. Every eighth key is not an urgent one, so that none waits forever.
//
// The workqueue calls it with its lock held. urgent takes the lock of causes.
type order struct {
	urgent      func(cache.ObjectName) bool
	first, rest []cache.ObjectName        // the urgent keys, and the others; those that moved from rest to first are in both
	isUrgent    map[cache.ObjectName]bool // for each key that waits, whether it is in first
	inARow      int                       // urgent keys that were handed out
}

var _ workqueue.Queue[cache.ObjectName] = &order{}

func newOrder(urgent func(cache.ObjectName) bool) *order {
	return &order{urgent: urgent, isUrgent: map[cache.ObjectName]bool{}}
}

// Push adds a key that does not wait.
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

// Pop removes the next key, and returns it. At least one waits.
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

// take removes the first key of a line. It skips those that have moved to the other line.
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
