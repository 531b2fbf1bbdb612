/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// describe renders a state in one line, with times since start.
func describe(state State, start time.Time) string {
	var parts []string
	for _, e := range state.Waiting {
		parts = append(parts, fmt.Sprintf("%s waits since %s", e.Key.Name, e.Since.Sub(start)))
	}
	for _, e := range state.Processing {
		again := ""
		if e.Again {
			again = " and again"
		}
		parts = append(parts, fmt.Sprintf("%s is synced since %s, because %s%s", e.Key.Name, e.Since.Sub(start), e.Causes[0].Verb, again))
	}
	for _, e := range state.Timers {
		parts = append(parts, fmt.Sprintf("%s comes at %s after %d failures", e.Key.Name, e.At.Sub(start), e.Retries))
	}
	return strings.Join(parts, "; ")
}

func named(name string) cache.ObjectName { return cache.NewObjectName("default", name) }

// began runs l with one worker, and ends it with the test.
func began(t *testing.T, l *Loop) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx, context.WithoutCancel(ctx), 1)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func TestStateFollowsAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		l := newLoop(func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
			time.Sleep(10 * time.Second)
			switch {
			case key.Name == "after":
				return time.Minute, nil
			case !failed:
				failed = true
				return 0, errors.New("no")
			}
			return 0, nil
		})
		start := time.Now()
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := describe(l.State(), start); got != want {
				t.Errorf("after %s:\n got  %s\n want %s", time.Since(start), got, want)
			}
		}
		l.Add(named("after"), trace.Cause{Verb: "Added"})
		time.Sleep(time.Second)
		l.Add(named("fails"), trace.Cause{Verb: "Added"})
		expect("after waits since 0s; fails waits since 1s")
		began(t, l)
		expect("fails waits since 1s; after is synced since 1s, because Added")
		l.Add(named("after"), trace.Cause{Verb: "Updated"})
		expect("fails waits since 1s; after is synced since 1s, because Added and again")
		time.Sleep(11 * time.Second)
		expect("after waits since 1s; fails is synced since 11s, because Added; after comes at 1m11s after 0 failures")
		time.Sleep(9500 * time.Millisecond) // fails has, and comes back after a second; meanwhile the other is synced
		expect("after is synced since 21s, because Updated; fails comes at 22s after 1 failures; after comes at 1m11s after 0 failures")
		time.Sleep(time.Second)
		expect("fails waits since 22s; after is synced since 21s, because Updated; after comes at 1m11s after 0 failures")
		if counts := l.Counts(); counts != (Counts{Workers: 1, Added: 3, Syncs: 2, Failed: 1, Waiting: 1, Processing: 1, Timers: 1}) {
			t.Errorf("counts are %+v", counts)
		}
		time.Sleep(20 * time.Second)
		expect("after comes at 1m11s after 0 failures")
	})
}

// A retry that is due comes though the key was synced in between, and it says so.
func TestARetryAfterASuccessIsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 4 // so that there is time before the last retry
		var causes []string
		l := newLoop(func(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
			causes = append(causes, Causes(ctx)[0].Verb)
			if failures--; failures >= 0 {
				return 0, errors.New("no")
			}
			return time.Hour, nil
		})
		l.Add(key, trace.Cause{Verb: "Added"})
		began(t, l)
		time.Sleep(7*time.Second + time.Millisecond) // 1, 2 and 4 seconds; the next one is due after 8
		l.Add(key, trace.Cause{Verb: "Updated"})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got, want := strings.Join(causes, " "), "Added Retry Retry Retry Updated Retry"; got != want {
			t.Errorf("causes are %s, want %s", got, want)
		}
		if timers := l.State().Timers; len(timers) != 1 || timers[0].Retries != 0 {
			t.Errorf("timers are %+v", timers)
		}
	})
}

func TestHeldSyncsWaitAndTheirKeysAreWithTheWorker(t *testing.T) {
	for name, test := range map[string]struct {
		delay   time.Duration
		release time.Duration // 0: nobody does
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
				l := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
					syncs = append(syncs, time.Since(start).String())
					return 0, nil
				})
				l.Hold(time.Hour) // in whose place the next comes
				l.Hold(test.delay)
				if held := l.Held(); held == nil || held.Delay != test.delay || held.Until.Sub(held.Since) != HoldLimit {
					t.Errorf("held is %+v", held)
				}
				l.Add(key, trace.Cause{Verb: "Added"})
				began(t, l)
				synctest.Wait()
				l.Add(key, trace.Cause{Verb: "Updated"}) // is not synced beside the first
				if state := l.State(); len(state.Processing) != 1 || !state.Processing[0].Again {
					t.Errorf("the state is %+v", state)
				}
				if test.release > 0 {
					time.Sleep(test.release)
					l.Release()
				}
				time.Sleep(HoldLimit)
				synctest.Wait()
				if l.Release(); !slices.Equal(syncs, test.want) || l.Held() != nil {
					t.Errorf("syncs at %v, want %v; held: %+v", syncs, test.want, l.Held())
				}
			})
		})
	}
}

// Two people hold syncs at once: whatever the order, one release lets all workers go.
func TestTwoWhoHoldAtOnce(t *testing.T) {
	for range 1000 {
		var h hold
		var holders, workers sync.WaitGroup
		for range 4 {
			holders.Go(func() { h.begin(0) })
			workers.Go(func() { h.wait(t.Context()) })
		}
		holders.Wait()
		h.end()
		workers.Wait() // or the test never ends
	}
}

func TestHeldSyncsDoNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) { return 0, nil })
		l.Hold(0)
		defer l.Release()
		l.Add(key, trace.Cause{Verb: "Added"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if l.Run(ctx, t.Context(), 1); time.Since(start) != time.Second {
			t.Errorf("it ended after %s", time.Since(start))
		}
	})
}
