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

func TestHeldSyncsWaitAndTheirKeysAreWithTheWorker(t *testing.T) {
	for name, test := range map[string]struct {
		delay   time.Duration
		release time.Duration // 0: the limit does
		want    []string      // when syncs began
	}{
		"until they are released":       {release: time.Minute, want: []string{"1m0s", "1m0s"}},
		"until the limit":               {want: []string{"5m0s", "5m0s"}},
		"each for a while":              {delay: 3 * time.Second, want: []string{"3s", "6s"}},
		"each for a while, and no more": {delay: time.Hour, release: time.Second, want: []string{"1s", "1s"}},
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
				held.Hold(time.Hour) // The next one replaces it.
				held.Hold(test.delay)
				if hold := held.Held(); hold == nil || hold.Delay != test.delay.Seconds() || hold.Until.Sub(hold.Since) != Limit {
					t.Errorf("held is %+v", hold)
				}
				l.Add(key, trace.Cause{Verb: "Added"})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { l.Run(ctx, ctx, 1) })
				defer running.Wait()
				defer cancel()
				synctest.Wait()
				l.Add(key, trace.Cause{Verb: "Updated"}) // is not synced beside the first
				if state := l.Snapshot(); len(state.Syncing) != 1 || len(state.Waiting) != 1 {
					t.Errorf("the state is %+v", state)
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

// Two holds at once: in any order, one release lets all workers continue.
func TestTwoHoldsAtOnce(t *testing.T) {
	for range 1000 {
		var s Sync
		var holders, workers sync.WaitGroup
		for range 4 {
			holders.Go(func() { s.Hold(0) })
			workers.Go(func() { s.wait(t.Context()) })
		}
		holders.Wait()
		s.Release()
		workers.Wait() // or the test never ends
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
			t.Error("it began")
			return 0, nil
		})
		if _, err := wrapped(ctx, key); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it returned %v", err)
		}
	})
}
