// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

func newLoop(sync loop.SyncFunc) (*loop.Loop, *observedLoop) {
	l := loop.New(loop.Config{Name: "test", Kind: "Thing", Sync: sync, MinRetry: time.Second, MaxRetry: 8 * time.Second})
	return l, observe(Run{Loop: l}, true)
}

// runLoop runs l with one worker until the end of the test.
func runLoop(t *testing.T, l *loop.Loop) {
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

// describe renders a workqueue in one line, with times since start.
func describe(state *Workqueue, start time.Time) string {
	var parts []string
	for _, e := range state.Waiting {
		parts = append(parts, fmt.Sprintf("%s waits since %s", e.Name, e.Since.Sub(start)))
	}
	for _, e := range state.Processing {
		again := ""
		if e.Again {
			again = " and again"
		}
		parts = append(parts, fmt.Sprintf("%s is synced since %s, because %s%s", e.Name, e.Since.Sub(start), e.Causes[0].Verb, again))
	}
	for _, e := range state.Timers {
		parts = append(parts, fmt.Sprintf("%s comes at %s after %d failures", e.Name, e.At.Sub(start), e.Retries))
	}
	return strings.Join(parts, "; ")
}

func named(name string) cache.ObjectName { return cache.NewObjectName("default", name) }

func TestAWorkqueueFollowsItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		l, o := newLoop(func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
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
			if got := describe(o.workqueue(), start); got != want {
				t.Errorf("after %s:\n got  %s\n want %s", time.Since(start), got, want)
			}
		}
		l.Add(named("after"), trace.Cause{Verb: "Added"})
		time.Sleep(time.Second)
		l.Add(named("fails"), trace.Cause{Verb: "Added"})
		expect("after waits since 0s; fails waits since 1s")
		runLoop(t, l)
		expect("fails waits since 1s; after is synced since 1s, because Added")
		l.Add(named("after"), trace.Cause{Verb: "Updated"})
		expect("fails waits since 1s; after is synced since 1s, because Added and again")
		time.Sleep(11 * time.Second)
		expect("after waits since 1s; fails is synced since 11s, because Added; after comes at 1m11s after 0 failures")
		time.Sleep(9500 * time.Millisecond) // fails has, and comes back after a second; meanwhile the other is synced
		expect("after is synced since 21s, because Updated; fails comes at 22s after 1 failures; after comes at 1m11s after 0 failures")
		time.Sleep(time.Second)
		expect("fails waits since 22s; after is synced since 21s, because Updated; after comes at 1m11s after 0 failures")
		want := Controller{
			ID: "test", Name: "test", Kind: "Thing", Workers: 1, Added: 3, Syncs: 2, Failed: 1, Waiting: 1, Processing: 1, Timers: 1,
		}
		if got := o.describe(); got != want {
			t.Errorf("it is %+v, want %+v", got, want)
		}
		time.Sleep(20 * time.Second)
		expect("after comes at 1m11s after 0 failures")
	})
}

// A sync that is held when the Loop ends runs then: its worker has its key.
func TestHeldSyncsDoNotDelayTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var began time.Duration
		l, o := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
			began = time.Since(start)
			return 0, nil
		})
		o.breakpoint.Hold(0)
		l.Add(named("a"), trace.Cause{Verb: "Added"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if l.Run(ctx, t.Context(), 1); time.Since(start) != time.Second || began != time.Second {
			t.Errorf("it ended after %s, and its sync began after %s", time.Since(start), began)
		}
	})
}

func TestPanicsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) { panic("oh") })
		l.Add(named("a"), trace.Cause{Verb: "Added"})
		runLoop(t, l)
		synctest.Wait()
		if c := o.describe(); c.Syncs != 1 || c.Failed != 1 || c.Panics != 1 || c.Retrying != 1 {
			t.Errorf("it is %+v", c)
		}
	})
}
