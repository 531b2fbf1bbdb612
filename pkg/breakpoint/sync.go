// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package breakpoint

import (
	"context"
	"time"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// Sync is the breakpoint before a controller's syncs, as a loop.Observer. The zero value is ready to use.
type Sync struct {
	loop.NoObserver
	latch

	released chan struct{} // closed by the release of the present hold
}

// Run releases the breakpoint when ctx ends: held syncs do not delay the end of the Loop. It implements loop.Observer.
func (s *Sync) Run(ctx context.Context, _ int) (end func()) {
	stop := context.AfterFunc(ctx, s.Release)
	return func() { stop() }
}

// Begin waits while s is held. Its worker keeps the key meanwhile: the queue returns a key that is added again after that. It implements
// loop.Observer.
func (s *Sync) Begin(ctx context.Context, _ trace.Event) context.Context {
	s.wait(ctx)
	return ctx
}

// Hold makes each sync that begins from now on wait until Release or Limit; or for delay, if that is
// positive. It replaces an earlier Hold, and releases the syncs that wait for that.
func (s *Sync) Hold(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
	s.released = make(chan struct{})
	s.close(delay, s.release)
}

// Release lets all syncs continue.
func (s *Sync) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// release is Release for a caller that holds s.mu.
func (s *Sync) release() {
	if s.hold != nil {
		close(s.released)
		s.open()
	}
}

// wait waits for the release, for the delay, or for the end of ctx.
func (s *Sync) wait(ctx context.Context) {
	s.mu.Lock()
	hold, released := s.hold, s.released
	s.mu.Unlock()
	if hold == nil {
		return
	}
	var delayed <-chan time.Time // never, without a delay
	if hold.Delay > 0 {
		timer := time.NewTimer(time.Duration(hold.Delay * float64(time.Second)))
		defer timer.Stop()
		delayed = timer.C
	}
	select {
	case <-ctx.Done():
	case <-released:
	case <-delayed:
	}
}
