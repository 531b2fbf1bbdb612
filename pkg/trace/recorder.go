/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package trace

import (
	"sync"
	"time"
)

// Recorder keeps the newest events and passes each on to its subscribers. It is
// safe for concurrent use. A nil *Recorder records nothing.
type Recorder struct {
	mu          sync.Mutex
	ring        []Event // ring[(seq-1)%len] holds event seq
	last        uint64  // Seq of the newest event; 0 before the first
	subscribers map[*Subscription]struct{}
}

// NewRecorder returns a Recorder that keeps the newest size events; size is at
// least 1. The ring is allocated here, once.
func NewRecorder(size int) *Recorder {
	return &Recorder{ring: make([]Event, max(size, 1)), subscribers: map[*Subscription]struct{}{}}
}

// Report records e. It does not block and does not allocate.
func (r *Recorder) Report(e Event) {
	if r == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	e.Seq = r.last
	r.ring[(e.Seq-1)%uint64(len(r.ring))] = e
	for s := range r.subscribers {
		select {
		case s.events <- e:
		default:
			s.dropped++
		}
	}
}

// Events returns the recorded events, oldest first: a copy.
func (r *Recorder) Events() []Event {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.ring))
	first := uint64(1)
	if r.last > size {
		first = r.last - size + 1
	}
	events := make([]Event, 0, r.last-first+1)
	for seq := first; seq <= r.last; seq++ {
		events = append(events, r.ring[(seq-1)%size])
	}
	return events
}

// Subscription receives every event that is reported while it is open.
type Subscription struct {
	recorder *Recorder
	events   chan Event
	dropped  uint64 // guarded by recorder.mu
}

// nobody stands for a nil Recorder: it is never reported to.
var nobody = NewRecorder(1)

// Subscribe opens a subscription that holds up to buffer unread events. The
// caller closes it. On a nil Recorder it receives nothing.
func (r *Recorder) Subscribe(buffer int) *Subscription {
	if r == nil {
		r = nobody
	}
	s := &Subscription{recorder: r, events: make(chan Event, buffer)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers[s] = struct{}{}
	return s
}

// Events returns the channel on which events arrive, in order of Seq. A gap in
// Seq is what was dropped. Close closes it.
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
