// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strings"
	"sync"
	"time"
)

// Recorder keeps the newest events, and passes each event to its observers. It is safe for concurrent use. A nil *Recorder records nothing.
type Recorder struct {
	sampling sampler
	observe  []func(Event)

	mu    sync.Mutex
	ring  []Event // ring[(seq-1)%len] holds event seq; empty if only observe gets events
	last  uint64  // Seq of the newest event; 0 before the first
	lives lives
}

// NewRecorder returns a Recorder that keeps the newest size events, and calls each of observe with each event, which has no Seq yet. It
// allocates the ring once.
func NewRecorder(size int, observe ...func(Event)) *Recorder {
	return &Recorder{sampling: newSampler(), observe: observe, ring: make([]Event, size), lives: newLives()}
}

// maxErr is the longest error text of an event, in bytes.
const maxErr = 1024

// Shorten returns the text of an error for an event: the first 1,024 bytes.
func Shorten(text string) string {
	if len(text) <= maxErr {
		return text
	}
	return strings.ToValidUTF8(text[:maxErr], "") + "…"
}

// Report records e. It does not block. It allocates memory only for a Life that grows. An event with a OneIn comes from a recording: it
// keeps this OneIn, and does not count towards the limit of events per second.
func (r *Recorder) Report(e Event) {
	if r == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.OneIn == 0 {
		e.OneIn = r.sampling.oneIn()
		if e.Stage < Sync {
			defer r.sampling.spend(e.Time)
		}
	}
	for _, observe := range r.observe {
		observe(e)
	}
	if len(r.ring) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	e.Seq = r.last
	r.ring[(e.Seq-1)%uint64(len(r.ring))] = e
	r.lives.add(&e)
}

// Wants reports whether a stage should report the change that led to resourceVersion. An empty resourceVersion is always sampled.
func (r *Recorder) Wants(resourceVersion string) bool {
	return r != nil && r.sampling.wants(resourceVersion)
}

// OneIn returns n if one in n changes is recorded now; 1 means all.
func (r *Recorder) OneIn() int {
	if r == nil {
		return 1
	}
	return int(r.sampling.oneIn())
}

// Events returns a copy of the events in the ring, oldest first.
func (r *Recorder) Events() []Event {
	events, _ := r.Since(0, 0)
	return events
}

// Since returns the newest events after number seq, oldest first: at most limit, if limit is not 0. missed counts the events after seq
// that are not returned: they exceed the limit, or the ring has dropped them.
func (r *Recorder) Since(seq uint64, limit int) (events []Event, missed uint64) {
	if r == nil {
		return nil, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq >= r.last {
		return nil, 0
	}
	size := uint64(len(r.ring))
	count := min(r.last-seq, size)
	if limit > 0 {
		count = min(count, uint64(limit))
	}
	events = make([]Event, 0, count)
	for next := r.last - count + 1; next <= r.last; next++ {
		events = append(events, r.ring[(next-1)%size])
	}
	return events, r.last - seq - count
}

// Last returns the number of the newest event; 0 before the first.
func (r *Recorder) Last() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Life returns the recorded events of o, oldest first: events with o as their Object, and events of its syncs. forgotten reports whether
// older events were dropped.
func (r *Recorder) Life(o Object) (events []Event, forgotten bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lives.get(o)
}
