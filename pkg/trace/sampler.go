/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package trace

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// What recording may cost: so many events a second, of the stages that every change passes,
// and so many at once after a time in which there were fewer. Five hundred changes a
// second are 2,500 events, and cost some hundredth of a core.
const (
	maxRate  = 2500
	maxBurst = 5000
	window   = 100 * time.Millisecond
	perTurn  = maxRate * int64(window) / int64(time.Second)
	maxMask  = 1<<16 - 1
)

// sampler says which changes are recorded. As long as there are few, all are. When credit has
// run out, one in 2 is, then one in 4, …, until they are few enough; and more again, window
// by window, when they would be few by far with that. What decides is a hash of the
// resourceVersion, so that a change is recorded at all its stages or at none, unless the
// mask changes meanwhile.
type sampler struct {
	seed maphash.Seed
	mask atomic.Uint64 // a change is recorded if its hash has none of these bits: one in mask+1

	mu      sync.Mutex
	credit  int64     // how many events may be recorded before the mask gets a bit more
	since   time.Time // no credit was given for the time after it yet; only while mask is 0
	raised  bool      // mask has got a bit in this window
	waiting bool      // for the end of the window: always, while there is a mask
}

func newSampler() sampler {
	return sampler{seed: maphash.MakeSeed(), credit: maxBurst}
}

// wants reports whether the change that made resourceVersion is one to record.
func (s *sampler) wants(resourceVersion string) bool {
	mask := s.mask.Load()
	return mask == 0 || resourceVersion == "" || maphash.String(s.seed, resourceVersion)&mask == 0
}

func (s *sampler) oneIn() uint32 { return uint32(s.mask.Load()) + 1 }

// spend takes the cost of an event off the credit.
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
		// It has run out while all were recorded: there may be more, for the time that passed.
		if earned := int64(now.Sub(s.since).Seconds() * maxRate); earned >= perTurn {
			s.credit, s.since = min(earned, maxBurst), now
			return
		}
	}
	s.mask.Store(min(s.mask.Load()<<1|1, maxMask)) // What has no resourceVersion does not get less by it.
	s.credit, s.raised = perTurn, true
	if !s.waiting {
		s.waiting = true
		time.AfterFunc(window, s.turn)
	}
}

// turn ends a window.
func (s *sampler) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if spent := perTurn - s.credit; !s.raised && spent*4 <= perTurn {
		s.mask.Store(s.mask.Load() >> 1)
	}
	s.credit, s.raised = perTurn, false
	if s.waiting = s.mask.Load() != 0; s.waiting {
		time.AfterFunc(window, s.turn)
		return
	}
	s.since = time.Now()
}
