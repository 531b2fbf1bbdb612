// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"maps"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Snapshot is the state of a Loop at one moment.
type Snapshot struct {
	// Workers counts the workers that run.
	Workers int
	// Waiting holds the keys that were added since their last sync began. A key can also be in Syncing:
	// the queue returns it again when that sync has ended.
	Waiting map[cache.ObjectName]Pending
	// Syncing holds the keys that workers sync now. Since is the time at which the sync began.
	Syncing map[cache.ObjectName]Pending
	// Timers holds the times at which the queue returns keys again. A key whose time has passed waits in the queue.
	Timers map[cache.ObjectName]time.Time
}

// Snapshot returns a copy of the present state. Do not change the causes: they are shared.
func (l *Loop) Snapshot() Snapshot {
	l.causes.mu.Lock()
	defer l.causes.mu.Unlock()
	s := Snapshot{
		Workers: int(l.workers.Load()), Syncing: maps.Clone(l.causes.syncing),
		Waiting: make(map[cache.ObjectName]Pending, len(l.causes.waiting)), Timers: make(map[cache.ObjectName]time.Time, len(l.causes.timers)),
	}
	for key, p := range l.causes.waiting {
		s.Waiting[key] = *p
	}
	for key, timer := range l.causes.timers {
		s.Timers[key] = timer.at
	}
	return s
}

// Waiting returns how many keys wait in the queue. Queue.Len does not count those that are held back: see order.
func (l *Loop) Waiting() int { return l.order.all() }
