/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// Counts says what a Loop has done so far, and what it has before it.
type Counts struct {
	// Workers is how many run.
	Workers int
	// Added is how often a key was put in by a handler; Syncs how many have ended, of which
	// Failed have with an error, and Panics of these by a panic.
	Added, Syncs, Failed, Panics int64
	// Waiting is the length of the queue; Processing is how many keys workers have; Timers how
	// many come back at a time, and Retrying of these because their sync has failed.
	Waiting, Processing, Timers, Retrying int
}

// Counts returns them as they are now.
func (l *Loop) Counts() Counts {
	counts := Counts{
		Workers: int(l.workers.Load()), Added: l.added.Load(), Syncs: l.syncs.Load(), Failed: l.failed.Load(), Panics: l.panics.Load(),
		Waiting: l.Queue.Len(),
	}
	now := time.Now()
	l.causes.mu.Lock()
	defer l.causes.mu.Unlock()
	counts.Processing = len(l.causes.syncing)
	for _, timer := range l.causes.timers {
		if timer.at.After(now) {
			counts.Timers++
			if timer.failures > 0 {
				counts.Retrying++
			}
		}
	}
	return counts
}

// State is what is in a Loop's workqueue, and with its workers.
type State struct {
	// Waiting are the keys that were put in and that no worker has taken: those that came
	// first are first.
	Waiting []Entry
	// Processing are the keys that workers have: those that they have had for longest are
	// first.
	Processing []Entry
	// Timers are the keys that come back, in the order of their times.
	Timers []Timer
}

// Entry is one key, and why it is there.
type Entry struct {
	Key    cache.ObjectName
	Since  time.Time
	Causes []trace.Cause
	More   int // further causes, which were not kept
	// Again says of a key that a worker has that it was put in once more meanwhile. The queue
	// holds it back until the worker is done: no object is synced twice at a time.
	Again bool
}

// Timer is one key that comes back.
type Timer struct {
	Key cache.ObjectName
	At  time.Time
	// Retries is how often its sync has failed in a row; 0: the sync has asked for it.
	Retries int
}

// State returns it as it is now: a copy.
func (l *Loop) State() State {
	now := time.Now()
	var state State
	l.causes.mu.Lock()
	defer l.causes.mu.Unlock()
	for key, s := range l.causes.syncing {
		_, again := l.causes.byKey[key]
		state.Processing = append(state.Processing, Entry{key, s.since, s.why.causes, s.why.more, again})
	}
	for key, p := range l.causes.byKey {
		if _, syncing := l.causes.syncing[key]; !syncing {
			state.Waiting = append(state.Waiting, Entry{Key: key, Since: p.causes[0].Time, Causes: slices.Clone(p.causes), More: p.more})
		}
	}
	for key, timer := range l.causes.timers {
		if timer.at.After(now) {
			state.Timers = append(state.Timers, Timer{key, timer.at, timer.failures})
			continue
		}
		_, because := l.causes.byKey[key]
		if _, syncing := l.causes.syncing[key]; !because && !syncing {
			state.Waiting = append(state.Waiting, Entry{Key: key, Since: timer.at}) // It has come back.
		}
	}
	byTime := func(a, b Entry) int { return compare(a.Since, b.Since, a.Key, b.Key) }
	slices.SortFunc(state.Waiting, byTime)
	slices.SortFunc(state.Processing, byTime)
	slices.SortFunc(state.Timers, func(a, b Timer) int { return compare(a.At, b.At, a.Key, b.Key) })
	return state
}

func compare(a, b time.Time, x, y cache.ObjectName) int {
	if order := a.Compare(b); order != 0 {
		return order
	}
	return strings.Compare(x.String(), y.String())
}
