// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package breakpoint stops single stages of a running operator, for learning: what piles up before a
// stage, and how does the operator catch up afterwards? Nothing is lost.
//
// Each breakpoint wraps a part from outside, and the part does not know it:
//
//	Wire   a reflector's cache.ListerWatcher
//	Queue  the delta queue that a reflector writes into
//	Sync   observes a Loop, and holds its syncs
//
// Without --inspect-breakpoints there are no wrappers.
package breakpoint

import (
	"sync"
	"time"
)

// Limit is the time after which a breakpoint releases itself.
const Limit = 5 * time.Minute

// Hold describes a breakpoint that is held. Its JSON is part of the page's API.
type Hold struct {
	Since time.Time `json:"since"`
	// Until is the time at which it releases itself.
	Until time.Time `json:"until"`
	// Delay is how long each sync waits, in seconds; 0: until the release.
	Delay float64 `json:"delay,omitempty"`
	// Kept counts the deltas or keys that wait before it now.
	Kept int `json:"kept"`
}

// latch is the common part of all breakpoints.
type latch struct {
	mu    sync.Mutex
	hold  *Hold // nil: not held
	limit *time.Timer
}

// Held returns the present hold; nil if the breakpoint is not held.
func (l *latch) Held() *Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold == nil {
		return nil
	}
	hold := *l.hold
	return &hold
}

// close begins a hold. After Limit it calls open with l.mu held, unless another hold has begun. The caller holds l.mu.
func (l *latch) close(delay time.Duration, open func()) {
	now := time.Now()
	hold := &Hold{Since: now, Until: now.Add(Limit), Delay: delay.Seconds()}
	l.hold = hold
	l.limit = time.AfterFunc(Limit, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.hold == hold {
			open()
		}
	})
}

// open ends the hold, if there is one. The caller holds l.mu.
func (l *latch) open() {
	if l.hold != nil {
		l.limit.Stop()
		l.hold = nil
	}
}
