/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package trace

import (
	"strings"
	"sync"
	"time"
)

// Recorder keeps the newest events and passes each on to its subscribers. It is
// safe for concurrent use. A nil *Recorder records nothing.
type Recorder struct {
	sampling sampler
	observe  []func(Event)
	keeps    bool // false if observe alone gets events

	mu          sync.Mutex
	ring        []Event // ring[(seq-1)%len] holds event seq
	last        uint64  // Seq of the newest event; 0 before the first
	lives       lives
	subscribers map[*Subscription]struct{}
}

// NewRecorder returns a Recorder that keeps the newest size events; size is at
// least 1. The ring is allocated here, once.
func NewRecorder(size int) *Recorder {
	return &Recorder{
		sampling: newSampler(), ring: make([]Event, max(size, 1)), lives: newLives(), subscribers: map[*Subscription]struct{}{}, keeps: true,
	}
}

// NewObserved returns a Recorder that keeps nothing, and wants no event of the stages before Sync: see Observe.
func NewObserved(observe ...func(Event)) *Recorder {
	r := NewRecorder(1)
	r.observe, r.keeps = observe, false
	return r
}

// Observe has each function called with each event of the stages from Sync on, before Report returns. The event has no Seq yet.
// Call Observe once, before the first Report.
func (r *Recorder) Observe(observe ...func(Event)) { r.observe = observe }

// maxErr is how much of an error's text is kept, in bytes.
const maxErr = 1024

// Report records e. It does not block, and allocates only for a Life that grows.
func (r *Recorder) Report(e Event) {
	if r == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if len(e.Err) > maxErr {
		e.Err = strings.ToValidUTF8(e.Err[:maxErr], "") + "…"
	}
	if e.Stage >= Sync {
		for _, observe := range r.observe {
			observe(e)
		}
	}
	if !r.keeps {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	e.Seq, e.OneIn = r.last, r.sampling.oneIn()
	r.ring[(e.Seq-1)%uint64(len(r.ring))] = e
	r.lives.add(&e)
	if e.Stage < Sync {
		r.sampling.spend(e.Time)
	}
	for s := range r.subscribers {
		select {
		case s.events <- e:
		default:
			s.dropped++
		}
	}
}

// Wants reports whether to report the change that made resourceVersion. It is true for what
// has none.
func (r *Recorder) Wants(resourceVersion string) bool {
	return r != nil && r.keeps && r.sampling.wants(resourceVersion)
}

// OneIn returns of how many changes one is recorded now: 1 for all.
func (r *Recorder) OneIn() int {
	if r == nil {
		return 1
	}
	return int(r.sampling.oneIn())
}

// Events returns the events in the ring, oldest first: a copy.
func (r *Recorder) Events() []Event {
	events, _ := r.Since(0, 0)
	return events
}

// Since returns the events after the one numbered seq, oldest first, and how many of those
// after it are not among them: the ring has them no longer, or they are more than most, which
// is 0 for no limit. The newest are those that are returned.
func (r *Recorder) Since(seq uint64, most int) (events []Event, missed uint64) {
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
	if most > 0 {
		count = min(count, uint64(most))
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

// Life returns the recorded events of o, oldest first: those whose Object it is, and those of
// its syncs. forgotten reports that there may have been earlier ones.
func (r *Recorder) Life(o Object) (events []Event, forgotten bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lives.of(o)
}

// Subscription receives every event that is reported while it is open.
type Subscription struct {
	recorder *Recorder
	events   chan Event
	dropped  uint64 // guarded by recorder.mu
}

// silent stands for a nil Recorder: it never receives a report.
var silent = NewRecorder(1)

// Subscribe opens a subscription that holds up to buffer unread events. The
// caller closes it. On a nil Recorder it receives nothing.
func (r *Recorder) Subscribe(buffer int) *Subscription {
	if r == nil {
		r = silent
	}
	s := &Subscription{recorder: r, events: make(chan Event, buffer)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers[s] = struct{}{}
	return s
}

// Events returns the channel on which events arrive, in order of Seq. A gap in
// Seq shows that events were dropped. Close closes it.
func (s *Subscription) Events() <-chan Event { return s.events }

// Dropped returns how many events were lost because the buffer was full.
func (s *Subscription) Dropped() uint64 {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	return s.dropped
}

// Close ends the subscription. Closing twice is harmless.
func (s *Subscription) Close() {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	if _, open := s.recorder.subscribers[s]; open {
		delete(s.recorder.subscribers, s)
		close(s.events)
	}
}
