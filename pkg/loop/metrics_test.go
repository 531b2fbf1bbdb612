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

// callRecorder is a Metrics that records its calls.
type callRecorder struct {
	mu    sync.Mutex
	names []string
	calls []string
}

func (m *callRecorder) ForController(name string) Metrics {
	m.names = append(m.names, name)
	return m
}

func (m *callRecorder) record(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, fmt.Sprintf(format, args...))
}

func (m *callRecorder) Workers(n int) { m.record("%+d workers", n) }
func (m *callRecorder) Started(causes []trace.Cause) {
	m.record("started: %s", Pending{Causes: causes})
}
func (m *callRecorder) Finished(result Result, took time.Duration) {
	m.record("finished: %d in %s", result, took)
}
func (m *callRecorder) Panicked() { m.record("panicked") }

func TestCallsOfMetrics(t *testing.T) {
	finished := func(r Result) string { return fmt.Sprintf("finished: %d in 1s", r) }
	conflict := apierrors.NewConflict(batchv1.Resource("jobs"), "j", errors.New("another resourceVersion"))
	for sentence, test := range map[string]struct {
		outcome
		want []string
	}{
		"a success":                {outcome{}, []string{finished(Success)}},
		"an error":                 {outcome{err: errors.New("no")}, []string{finished(Error)}},
		"an error and a time":      {outcome{err: errors.New("no"), after: time.Hour}, []string{finished(Error)}},
		"only a conflict":          {outcome{err: errors.Join(conflict, nil)}, []string{finished(Requeue)}},
		"a conflict and an error":  {outcome{err: errors.Join(conflict, errors.New("no"))}, []string{finished(Error)}},
		"a time for the next sync": {outcome{after: time.Hour}, []string{finished(RequeueAfter)}},
		"a panic":                  {outcome{panic: "oh"}, []string{"panicked", finished(Error)}},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				metrics := &callRecorder{}
				SetMetricsProvider(metrics)
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
				if !slices.Equal(metrics.calls, want) {
					t.Errorf("the calls are %q, want %q", metrics.calls, want)
				}
				if !slices.Equal(metrics.names, []string{"test"}) {
					t.Errorf("ForController was called for %q", metrics.names)
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

// BenchmarkLoop measures the time from Add of a key until its sync, without metrics. The benchmark in package metrics measures the same
// with metrics.
func BenchmarkLoop(b *testing.B) {
	ctx, cancel := context.WithCancel(klog.NewContext(b.Context(), klog.Logger{}))
	synced := make(chan struct{})
	l := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
		synced <- struct{}{}
		return 0, nil
	})
	l.Trace = nil
	var loops sync.WaitGroup
	loops.Go(func() { l.Run(ctx, ctx, 1) })
	cause := trace.Cause{Time: time.Now(), Object: trace.Object{Kind: "Job"}, Verb: "Added"}
	b.ReportAllocs()
	for b.Loop() {
		l.Add(key, cause)
		<-synced
	}
	b.StopTimer()
	cancel()
	loops.Wait()
}
