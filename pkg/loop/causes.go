// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// maxCauses limits the causes that are kept for one key. The first causes are kept: the beginning of a burst says more than its end.
const maxCauses = 8

// Pending says why a key waits for a sync, or is being synced.
type Pending struct {
	Since  time.Time
	Causes []trace.Cause // append-only: copies of a Pending share it
	More   int           // the number of causes that were not kept

	urgent bool // whether one of the causes is urgent: see order
}

// String renders the causes in one line, for the log.
func (p Pending) String() string {
	var b strings.Builder
	for i, cause := range p.Causes {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(cause.String())
	}
	if p.More > 0 {
		fmt.Fprintf(&b, "; and %d more", p.More)
	}
	return b.String()
}

// causes records why each key waits, and why each is being synced. A key has entries only while it waits, is being synced, or has a timer.
type causes struct {
	mu      sync.Mutex
	waiting map[cache.ObjectName]*Pending
	syncing map[cache.ObjectName]Pending
	timers  timers
}

func newCauses() causes {
	return causes{waiting: map[cache.ObjectName]*Pending{}, syncing: map[cache.ObjectName]Pending{}, timers: timers{}}
}

func (c *causes) add(key cache.ObjectName, cause trace.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.waiting[key]
	if p == nil {
		p = &Pending{Since: cause.Time}
		c.waiting[key] = p
	}
	p.urgent = p.urgent || cause.Urgent
	if len(p.Causes) == maxCauses {
		p.More++
		return
	}
	p.Causes = append(p.Causes, cause)
}

// urgent reports whether a key that is added to the queue now is urgent: it has an urgent cause, or it is due at a time that a
// sync asked for. A retry is not urgent.
func (c *causes) urgent(key cache.ObjectName, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.waiting[key]
	if p != nil && p.urgent {
		return true
	}
	set, ok := c.timers[key]
	return ok && set.asked && (p == nil || !set.at.After(now)) // Without a cause, the timer adds the key.
}

// take returns the causes of the sync of key that begins now. If there was no event, an earlier sync is
// the cause. failed says whether that sync failed; take uses it only if key has no expired timer.
func (c *causes) take(key cache.ObjectName, now time.Time, failed bool) Pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	why := Pending{Since: now}
	if p := c.waiting[key]; p != nil {
		why.Causes, why.More = p.Causes, p.More
		delete(c.waiting, key)
	} else {
		why.Causes = []trace.Cause{{Time: now, Verb: c.timers.verb(key, now, failed)}}
	}
	c.syncing[key] = why
	c.timers.expire(key, now)
	return why
}

// done records that the sync of key has ended. A positive delay is the time until the queue returns the
// key again. failed and asked say why: the sync failed, it asked for that time, or both.
func (c *causes) done(key cache.ObjectName, now time.Time, delay time.Duration, failed, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.syncing, key)
	if delay > 0 {
		c.timers.set(key, now, timer{now.Add(delay), failed, asked})
	}
}

// timers holds the keys that the workqueue returns at a later time. The workqueue has these keys too, but does not show them.
type timers map[cache.ObjectName]timer

type timer struct {
	at    time.Time
	retry bool // set because a sync failed
	asked bool // set because a sync asked for this time
}

// set sets the timer of key. Like the workqueue, it keeps the earlier of two times.
func (t timers) set(key cache.ObjectName, now time.Time, next timer) {
	if set, ok := t[key]; !ok || !set.at.After(now) || !set.at.Before(next.at) {
		t[key] = next
	}
}

// verb returns the verb of a cause without an event: VerbRetry or VerbAfter. An expired timer of key decides, and otherwise failed. The
// timer of a retry expires even if an event has led to a sync of key meanwhile.
func (t timers) verb(key cache.ObjectName, now time.Time, failed bool) string {
	if set, ok := t[key]; ok && !set.at.After(now) {
		failed = set.retry
	}
	if failed {
		return trace.VerbRetry
	}
	return trace.VerbAfter
}

// expire removes the timer of key, if its time has come.
func (t timers) expire(key cache.ObjectName, now time.Time) {
	if set, ok := t[key]; ok && !set.at.After(now) {
		delete(t, key)
	}
}
