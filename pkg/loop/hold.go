/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// HoldLimit is how long syncs are held, or delayed, at most.
const HoldLimit = 5 * time.Minute

// Hold says that syncs are held by hand, or delayed: for learning.
type Hold struct {
	Since, Until time.Time
	// Delay is how long each sync waits; 0: for as long as they are held.
	Delay time.Duration
}

// Hold has every sync that begins from now on wait until Release, or for HoldLimit; or for delay,
// if that is positive. Its key is with its worker: what is put in meanwhile is synced again
// afterwards. It takes the place of an earlier Hold.
func (l *Loop) Hold(delay time.Duration) { l.hold.begin(delay) }

// Release lets syncs go on.
func (l *Loop) Release() { l.hold.end() }

// Held tells whether syncs are held; nil if they are not.
func (l *Loop) Held() *Hold {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	return l.hold.now
}

// hold is where workers wait.
type hold struct {
	on atomic.Bool

	mu       sync.Mutex
	now      *Hold         // nil: nobody waits
	released chan struct{} // closed when nobody waits any longer
	limit    *time.Timer
}

func (h *hold) begin(delay time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked()
	now := time.Now()
	h.now, h.released = &Hold{Since: now, Until: now.Add(HoldLimit), Delay: delay}, make(chan struct{})
	this := h.now
	h.limit = time.AfterFunc(HoldLimit, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.now == this { // and not one that has come after it
			h.endLocked()
		}
	})
	h.on.Store(true)
}

func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked()
}

// endLocked is end for a caller that holds h.mu.
func (h *hold) endLocked() {
	if h.now == nil {
		return
	}
	h.limit.Stop()
	close(h.released)
	h.now = nil
	h.on.Store(false)
}

// wait waits as long as a sync has to, or until ctx ends.
func (h *hold) wait(ctx context.Context) {
	if !h.on.Load() {
		return
	}
	h.mu.Lock()
	if h.now == nil {
		h.mu.Unlock()
		return
	}
	released := h.released
	var passed <-chan time.Time // never, if there is no delay
	if h.now.Delay > 0 {
		timer := time.NewTimer(h.now.Delay)
		defer timer.Stop()
		passed = timer.C
	}
	h.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-released:
	case <-passed:
	}
}
