// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package breakpoint

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/loop"
)

// Sync is the breakpoint before a controller's Sync. The zero value is ready to use.
type Sync struct {
	latch

	released chan struct{} // closed by the release of the present hold
}

// Wrap returns a loop.SyncFunc that waits while s is held, and then calls sync. Its worker keeps the key
// meanwhile: the queue returns a key that is added again after that.
func (s *Sync) Wrap(sync loop.SyncFunc) loop.SyncFunc {
	return func(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
		if s.wait(ctx); ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return sync(ctx, key)
	}
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
