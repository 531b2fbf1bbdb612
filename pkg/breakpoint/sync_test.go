// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package breakpoint

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

var key = cache.NewObjectName("default", "sample")

func TestAHeldSyncKeepsItsWorkerAndItsKey(t *testing.T) {
	for name, test := range map[string]struct {
		delay   time.Duration
		release time.Duration // 0: Limit ends the hold
		want    []string      // when syncs began
	}{
		"until the release":                        {release: time.Minute, want: []string{"1m0s", "1m0s"}},
		"until the limit":                          {want: []string{"5m0s", "5m0s"}},
		"each for the delay":                       {delay: 3 * time.Second, want: []string{"3s", "6s"}},
		"until the release, before the delay ends": {delay: time.Hour, release: time.Second, want: []string{"1s", "1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var syncs []string
				var held Sync
				l := loop.New(loop.Config{Name: "test", Kind: "Thing"})
				l.Sync = held.Wrap(func(context.Context, cache.ObjectName) (time.Duration, error) {
					syncs = append(syncs, time.Since(start).String())
					return 0, nil
				})
				held.Hold(time.Hour) // The next hold replaces this one.
				held.Hold(test.delay)
				if hold := held.Held(); hold == nil || hold.Delay != test.delay.Seconds() || hold.Until.Sub(hold.Since) != Limit {
					t.Errorf("the hold is %+v", hold)
				}
				l.Add(key, trace.Cause{Verb: "Added"})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { l.Run(ctx, ctx, 1) })
				defer running.Wait()
				defer cancel()
				synctest.Wait()
				l.Add(key, trace.Cause{Verb: "Updated"}) // waits until the first sync of the key has ended
				if state := l.Snapshot(); len(state.Syncing) != 1 || len(state.Waiting) != 1 {
					t.Errorf("the queue is %+v, want one key that is synced, and one that waits", state)
				}
				if test.release > 0 {
					time.Sleep(test.release)
					held.Release()
				}
				time.Sleep(Limit)
				synctest.Wait()
				if held.Release(); !slices.Equal(syncs, test.want) || held.Held() != nil {
					t.Errorf("syncs at %v, want %v; held: %+v", syncs, test.want, held.Held())
				}
			})
		})
	}
}

// After concurrent holds, one release lets all workers continue.
func TestConcurrentHolds(t *testing.T) {
	for range 1000 {
		var s Sync
		var holders, workers sync.WaitGroup
		for range 4 {
			holders.Go(func() { s.Hold(0) })
			workers.Go(func() { s.wait(t.Context()) })
		}
		holders.Wait()
		s.Release()
		workers.Wait() // If a worker still waits, the test times out.
	}
}

// A sync that is cancelled while it is held does not begin.
func TestACancelledSyncDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sync
		s.Hold(0)
		defer s.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wrapped := s.Wrap(func(context.Context, cache.ObjectName) (time.Duration, error) {
			t.Error("the sync began")
			return 0, nil
		})
		if _, err := wrapped(ctx, key); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the sync returned %v, want the error of its context", err)
		}
	})
}
