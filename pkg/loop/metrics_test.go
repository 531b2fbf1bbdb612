// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/trace"
)

// tally is a Metrics that records its calls.
type tally struct {
	mu    sync.Mutex
	names []string
	calls []string
}

func (c *tally) ForController(name string) Metrics {
	c.names = append(c.names, name)
	return c
}

func (c *tally) record(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
}

func (c *tally) Workers(n int) { c.record("%+d workers", n) }
func (c *tally) Started(causes []trace.Cause) {
	c.record("started: %s", Pending{Causes: causes})
}
func (c *tally) Finished(result Result, took time.Duration) {
	c.record("finished: %d in %s", result, took)
}
func (c *tally) Panicked() { c.record("panicked") }

func TestWhatIsCounted(t *testing.T) {
	conflict := apierrors.NewConflict(batchv1.Resource("jobs"), "j", errors.New("another resourceVersion"))
	for sentence, test := range map[string]struct {
		outcome
		want []string
	}{
		"a success":               {outcome{}, []string{"finished: 0 in 1s"}},
		"an error":                {outcome{err: errors.New("no")}, []string{"finished: 1 in 1s"}},
		"an error with a time":    {outcome{err: errors.New("no"), after: time.Hour}, []string{"finished: 1 in 1s"}},
		"a conflict, no error":    {outcome{err: errors.Join(conflict, nil)}, []string{"finished: 2 in 1s"}},
		"a conflict and an error": {outcome{err: errors.Join(conflict, errors.New("no"))}, []string{"finished: 1 in 1s"}},
		"a time to run again":     {outcome{after: time.Hour}, []string{"finished: 3 in 1s"}},
		"a panic":                 {outcome{panic: "oh"}, []string{"panicked", "finished: 1 in 1s"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				counting := &tally{}
				SetMetricsProvider(counting)
				defer provider.Store(nil)
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
				l := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
					time.Sleep(time.Second)
					defer cancel()
					if test.panic != nil {
						panic(test.panic)
					}
					return test.after, test.err
				})
				l.Add(key, trace.Cause{Verb: "Added", Object: trace.Object{Kind: "Job", Name: "j"}})
				l.Run(ctx, context.WithoutCancel(ctx), 2)
				want := slices.Concat([]string{"+2 workers", "started: Added Job j"}, test.want, []string{"-2 workers"})
				if !slices.Equal(counting.calls, want) {
					t.Errorf("the calls are %q, want %q", counting.calls, want)
				}
				if !slices.Equal(counting.names, []string{"test"}) {
					t.Errorf("ForController was called for %q", counting.names)
				}
			})
		})
	}
}

func TestWithoutMetricsNothingIsAllocated(t *testing.T) {
	l := newLoop(nil)
	defer l.Queue.ShutDown()
	causes := []trace.Cause{{Verb: "Added"}}
	if got := testing.AllocsPerRun(1000, func() {
		l.metrics.Workers(1)
		l.metrics.Started(causes)
		l.metrics.Panicked()
		l.metrics.Finished(Error, time.Second)
	}); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

// BenchmarkLoop measures one event, from Add to the end of its sync, without metrics. The benchmark in package metrics does the same with
// metrics.
func BenchmarkLoop(b *testing.B) {
	ctx, cancel := context.WithCancel(klog.NewContext(b.Context(), klog.Logger{}))
	synced := make(chan struct{})
	l := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
		synced <- struct{}{}
		return 0, nil
	})
	l.Trace = nil
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx, ctx, 1) })
	cause := trace.Cause{Time: time.Now(), Object: trace.Object{Kind: "Job"}, Verb: "Added"}
	b.ReportAllocs()
	for b.Loop() {
		l.Add(key, cause)
		<-synced
	}
	b.StopTimer()
	cancel()
	running.Wait()
}
