// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// These constants limit the cost of recording. The rates count events of the stages before Sync: 500 changes a second are 2,500 events,
// which take about 1 % of a core.
const (
	maxRate   = 2500 // events a second
	maxBurst  = 5000 // events at once, after a time with fewer events than maxRate
	window    = 100 * time.Millisecond
	perWindow = maxRate * int64(window) / int64(time.Second)
	maxMask   = 1<<16 - 1
)

// sampler decides which changes to record. It begins with all changes. Each time credit is used up, it halves the rate: one change in 2,
// one in 4, …. After a window that used at most a quarter of its credit, it doubles the rate. A hash of the resourceVersion decides. So a
// change is recorded at all its stages or at none, unless the mask changes meanwhile.
type sampler struct {
	seed maphash.Seed
	mask atomic.Uint64 // a change is recorded if its hash has none of these bits: one in mask+1

	mu      sync.Mutex
	credit  int64     // how many more events may be recorded before the mask gets one more bit
	since   time.Time // when credit was last added; only while mask is 0
	raised  bool      // whether the mask has got a bit in this window
	waiting bool      // whether a timer will call endWindow: always while mask is not 0
}

func newSampler() sampler {
	return sampler{seed: maphash.MakeSeed(), credit: maxBurst}
}

// wants reports whether to record the change that led to resourceVersion.
func (s *sampler) wants(resourceVersion string) bool {
	mask := s.mask.Load()
	return mask == 0 || resourceVersion == "" || maphash.String(s.seed, resourceVersion)&mask == 0
}

func (s *sampler) oneIn() uint32 { return uint32(s.mask.Load()) + 1 }

// spend subtracts one event from the credit.
func (s *sampler) spend(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = now
	}
	if s.credit--; s.credit > 0 {
		return
	}
	if !s.waiting {
		// All changes were recorded until now. The time since the last credit may allow more.
		if earned := int64(now.Sub(s.since).Seconds() * maxRate); earned >= perWindow {
			s.credit, s.since = min(earned, maxBurst), now
			return
		}
	}
	// maxMask is for events without a resourceVersion: no mask omits them, so they would make it grow without end.
	s.mask.Store(min(s.mask.Load()<<1|1, maxMask))
	s.credit, s.raised = perWindow, true
	if !s.waiting {
		s.waiting = true
		time.AfterFunc(window, s.endWindow)
	}
}

func (s *sampler) endWindow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if spent := perWindow - s.credit; !s.raised && spent*4 <= perWindow {
		s.mask.Store(s.mask.Load() >> 1)
	}
	s.credit, s.raised = perWindow, false
	if s.waiting = s.mask.Load() != 0; s.waiting {
		time.AfterFunc(window, s.endWindow)
		return
	}
	s.since = time.Now()
}
