// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

var key = cache.NewObjectName("default", "sample")

func newLoop(sync SyncFunc) *Loop {
	return New(Config{Name: "test", Kind: "Thing", Sync: sync, MinRetry: time.Second, MaxRetry: 8 * time.Second})
}

// tracedLoop returns a Loop, and the Recorder that it reports to.
func tracedLoop(sync SyncFunc) (*Loop, *trace.Recorder) {
	l, recorder := newLoop(sync), trace.NewRecorder(100)
	l.Observe(Traced(recorder))
	return l, recorder
}

// firstCauses returns the verb of the first cause of each sync so far.
func firstCauses(recorder *trace.Recorder) (verbs []string) {
	for _, e := range recorder.Events() {
		if e.Stage == trace.Sync {
			verbs = append(verbs, e.Causes[0].Verb)
		}
	}
	return verbs
}

// outcome is the result of one call of a scripted Sync.
type outcome struct {
	after time.Duration
	err   error
	panic any
}

func TestWhatASyncReturnsDecidesWhenItRunsAgain(t *testing.T) {
	failure := errors.New("no")
	for name, test := range map[string]struct {
		script []outcome
		want   []time.Duration // times of the calls of Sync, since the key was added
		causes []string        // verb of the first cause of each call
	}{
		"success without a time: no further sync": {
			script: []outcome{{}}, want: []time.Duration{0}, causes: []string{"Added"},
		},
		"success with a time: a sync after exactly this time": {
			script: []outcome{{after: 5 * time.Second}, {after: time.Minute}, {}},
			want:   []time.Duration{0, 5 * time.Second, 65 * time.Second}, causes: []string{"Added", "After", "After"},
		},
		"an error: a retry after a backoff, which doubles up to a limit": {
			script: []outcome{{err: failure}, {err: failure}, {err: failure}, {err: failure}, {err: failure}, {}},
			want:   []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 23 * time.Second},
			causes: []string{"Added", "Retry", "Retry", "Retry", "Retry", "Retry"},
		},
		"success resets the backoff": {
			script: []outcome{{err: failure}, {err: failure}, {after: time.Minute}, {err: failure}, {}},
			want:   []time.Duration{0, 1 * time.Second, 3 * time.Second, 63 * time.Second, 64 * time.Second},
			causes: []string{"Added", "Retry", "Retry", "After", "Retry"},
		},
		"an error with a time: a sync after the shorter of time and backoff": {
			script: []outcome{{err: failure, after: 500 * time.Millisecond}, {err: failure, after: time.Hour}, {}},
			want:   []time.Duration{0, 500 * time.Millisecond, 2500 * time.Millisecond}, causes: []string{"Added", "Retry", "Retry"},
		},
		"a panic is an error": {
			script: []outcome{{panic: "oh"}, {}},
			want:   []time.Duration{0, 1 * time.Second}, causes: []string{"Added", "Retry"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var calls []time.Duration
				l, recorder := tracedLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
					calls = append(calls, time.Since(start))
					o := outcome{}
					if len(calls) <= len(test.script) {
						o = test.script[len(calls)-1]
					}
					if o.panic != nil {
						panic(o.panic)
					}
					return o.after, o.err
				})
				stop := run(t, l, 2)
				l.Add(key, trace.Cause{Verb: "Added"})
				time.Sleep(90 * time.Second) // time of the bubble
				stop()
				// The queue can round a delay up to its heartbeat: compare tenths of a second.
				for i := range calls {
					calls[i] = calls[i].Round(100 * time.Millisecond)
				}
				want, causes := slices.Clone(test.want), firstCauses(recorder)
				if strings.HasPrefix(name, "an error with a time") {
					// The longer of the two also causes a sync, which this test ignores.
					want = append(want, calls[len(want):]...)
					causes = causes[:len(test.causes)]
				}
				if !slices.Equal(calls, want) {
					t.Errorf("synced at %v, want %v", calls, want)
				}
				if !slices.Equal(causes, test.causes) {
					t.Errorf("causes %v, want %v", causes, test.causes)
				}
			})
		})
	}
}

// run starts l. stop ends it and waits, as the end of the test does.
func run(t *testing.T, l *Loop, workers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx, context.WithoutCancel(ctx), workers)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// TestOneWorkerSyncsAKeyAtATime adds a key again while a worker syncs it. The next sync begins after this one has ended.
func TestOneWorkerSyncsAKeyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, ended atomic.Int32
		l := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
			if n := running.Add(1); n > 1 {
				t.Errorf("%d workers sync the key", n)
			}
			time.Sleep(10 * time.Second)
			running.Add(-1)
			ended.Add(1)
			return 0, nil
		})
		run(t, l, 2)
		l.Add(key, trace.Cause{})
		time.Sleep(time.Second)
		l.Add(key, trace.Cause{})
		time.Sleep(time.Minute)
		if ended.Load() != 2 {
			t.Errorf("%d syncs, want 2", ended.Load())
		}
	})
}

// TestARetryAfterASuccessIsARetry: a failed sync schedules a retry, and then a sync succeeds. The retry still runs, with the cause Retry.
func TestARetryAfterASuccessIsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 4 // The delay before the last retry is long enough for a successful sync.
		l, recorder := tracedLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
			if failures--; failures >= 0 {
				return 0, errors.New("no")
			}
			return time.Hour, nil
		})
		l.Add(key, trace.Cause{Verb: "Added"})
		run(t, l, 1)
		time.Sleep(7*time.Second + time.Millisecond) // the first three delays are 1, 2 and 4 seconds; the next one is 8
		l.Add(key, trace.Cause{Verb: "Updated"})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got, want := strings.Join(firstCauses(recorder), " "), "Added Retry Retry Retry Updated Retry"; got != want {
			t.Errorf("causes are %s, want %s", got, want)
		}
		if timers := l.Snapshot().Timers; len(timers) != 1 || l.Queue.NumRequeues(key) != 0 {
			t.Errorf("timers are %v, after %d failures", timers, l.Queue.NumRequeues(key))
		}
	})
}

// TestWhatIsLogged: the loop logs the error of a sync, unless the error consists of conflicts only.
func TestWhatIsLogged(t *testing.T) {
	conflict := apierrors.NewConflict(batchv1.Resource("jobs"), "j", errors.New("another resourceVersion"))
	update, refused := fmt.Errorf("update Job j: %w", conflict), errors.New("refused")
	for sentence, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                        {nil, false},
		"an error":                        {refused, true},
		"a wrapped conflict":              {errors.Join(nil, update), false},
		"a conflict before another error": {errors.Join(update, refused), true},
		"a conflict after another error":  {errors.Join(refused, update), true},
		"conflicts in two levels of Join": {errors.Join(errors.Join(update, conflict), update), false},
		"a conflict and another error in two levels of Join": {errors.Join(update, errors.Join(conflict, refused)), true},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) { return 0, test.err })
			defer l.Queue.ShutDown()
			logger := ktesting.NewLogger(t,
				ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true), ktesting.AnyToString(func(any) string { return "" })))
			l.Add(key, trace.Cause{Verb: "Added"})
			l.next(t.Context(), klog.NewContext(t.Context(), logger))
			text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if lines := strings.Count(strings.TrimSuffix(text, "\n"), "\n"); lines > 0 {
				t.Errorf("logged %q, want one line", text)
			}
			if logged := strings.Contains(text, "Sync failed"); logged != test.want || !logged && text != "" {
				t.Errorf("logged %q, want an error: %t", text, test.want)
			}
		})
	}
}

func TestStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished, started atomic.Int32
		l := newLoop(func(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
			started.Add(1)
			select {
			case <-time.After(10 * time.Second):
				finished.Add(1)
			case <-ctx.Done():
			}
			return 0, nil
		})
		for _, name := range []string{"a", "b", "c"} {
			l.Add(cache.NewObjectName("default", name), trace.Cause{})
		}
		stop := run(t, l, 2)
		synctest.Wait()
		stop()
		if started.Load() != 2 || finished.Load() != 2 {
			t.Errorf("%d syncs started and %d finished, want 2: those that ran before the stop", started.Load(), finished.Load())
		}
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		drain, end := context.WithCancel(context.Background())
		l := newLoop(func(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		l.Add(key, trace.Cause{})
		done := make(chan struct{})
		go func() { l.Run(ctx, drain, 1); close(done) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		end()
		<-done
	})
}

func TestCausesAreBounded(t *testing.T) {
	l := newLoop(nil)
	for range 20 {
		l.Add(key, trace.Cause{
			Verb: "Updated", Object: trace.Object{Kind: "Job", Name: "x"}, ResourceVersion: "7", Fields: []string{"status.succeeded"},
		})
	}
	p := l.causes.take(key, time.Now(), false)
	if len(p.Causes) != maxCauses || p.More != 20-maxCauses {
		t.Errorf("%d causes and %d more, want %d and %d", len(p.Causes), p.More, maxCauses, 20-maxCauses)
	}
	if text := p.String(); !strings.HasPrefix(text, "Updated Job x (resourceVersion 7: status.succeeded); ") ||
		!strings.HasSuffix(text, "; and 12 more") {
		t.Errorf("the text of the causes is %q", text)
	}
	if again := l.causes.take(key, time.Now(), false); again.String() != "After" || len(l.causes.waiting) != 0 {
		t.Errorf("the next sync gets the same causes again: %s", again)
	}
}

func job(name, owner, version string, change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: version}}
	if owner != "" {
		j.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "batch.example.com/v1", Kind: "MyCronJob", Name: owner, Controller: ptr.To(true),
		}}
	}
	for _, f := range change {
		f(j)
	}
	return j
}

func TestHandler(t *testing.T) {
	done := func(j *batchv1.Job) { j.Status.Succeeded = 1 }
	for name, test := range map[string]struct {
		call func(cache.ResourceEventHandler)
		want map[string]string // key → causes
	}{
		"an add": {
			call: func(h cache.ResourceEventHandler) { h.OnAdd(job("j", "sample", "1"), true) },
			want: map[string]string{"default/sample": "Added Job default/j (resourceVersion 1)"},
		},
		"an update names what changed": {
			call: func(h cache.ResourceEventHandler) {
				h.OnUpdate(job("j", "sample", "1"), job("j", "sample", "2", done))
			},
			want: map[string]string{"default/sample": "Updated Job default/j (resourceVersion 2: status.succeeded)"},
		},
		"a resync is not an update": {
			call: func(h cache.ResourceEventHandler) { h.OnUpdate(job("j", "sample", "1"), job("j", "sample", "1")) },
			want: map[string]string{"default/sample": "Sync Job default/j (resourceVersion 1)"},
		},
		"a change of the owner: both owners": {
			call: func(h cache.ResourceEventHandler) { h.OnUpdate(job("j", "old", "1"), job("j", "new", "2")) },
			want: map[string]string{
				"default/old": "Updated Job default/j (resourceVersion 1)",
				"default/new": "Updated Job default/j (resourceVersion 2: metadata.ownerReferences)",
			},
		},
		"a delete": {
			call: func(h cache.ResourceEventHandler) { h.OnDelete(job("j", "sample", "3")) },
			want: map[string]string{"default/sample": "Deleted Job default/j (resourceVersion 3)"},
		},
		"a tombstone": {
			call: func(h cache.ResourceEventHandler) {
				h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/j", Obj: job("j", "sample", "3")})
			},
			want: map[string]string{"default/sample": "Deleted Job default/j (resourceVersion 3)"},
		},
		"a tombstone without an object": {
			call: func(h cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/j"}) },
		},
		"a Job without an owner": {
			call: func(h cache.ResourceEventHandler) { h.OnAdd(job("j", "", "1"), false) },
		},
		"a Job of a kind with the same name in another group": {
			call: func(h cache.ResourceEventHandler) {
				h.OnAdd(job("j", "sample", "1", func(j *batchv1.Job) { j.OwnerReferences[0].APIVersion = "other.example.com/v1" }), false)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, jobs := newLoop(nil), newInformer()
			must.Succeed(t, l.Watch(jobs, "Job", ControllerOf("batch.example.com", "MyCronJob")))
			l.begin()
			test.call(jobs.handler)
			got := map[string]string{}
			for k, p := range l.causes.waiting {
				got[k.String()] = p.String()
			}
			if len(got) != len(test.want) || l.Queue.Len() != len(test.want) {
				t.Fatalf("causes %v and %d keys in the queue, want %v", got, l.Queue.Len(), test.want)
			}
			for k, want := range test.want {
				if got[k] != want {
					t.Errorf("the cause of %s is %q, want %q", k, got[k], want)
				}
			}
		})
	}
}

func TestWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		w := NewWritten("test", "MyCronJob", clock.RealClock{}, nil)
		add := func(j *batchv1.Job) {
			t.Helper()
			must.Succeed(t, store.Add(j))
		}
		expect := func(want time.Duration, when string) {
			t.Helper()
			if got := w.Wait(key); got != want {
				t.Errorf("%s: the wait is %s, want %s", when, got, want)
			}
		}
		add(job("j", "", "10"))
		expect(0, "without a write")
		w.Record(t.Context(), key, "create jobs.batch", store, job("k", "", "12"))
		expect(maxStale, "the cache does not have it")
		add(job("k", "", "11"))
		time.Sleep(time.Second)
		expect(maxStale-time.Second, "the cache has an older version")
		add(job("k", "", "13"))
		expect(0, "the cache has a newer version")

		old := job("k", "", "13", func(j *batchv1.Job) { j.UID = "1" })
		add(old)
		w.RecordDelete(t.Context(), key, "delete jobs.batch", store, old)
		expect(maxStale, "the cache still has the deleted object")
		add(job("k", "", "14", func(j *batchv1.Job) { j.UID = "2" }))
		expect(0, "another object has its name")

		w.Record(t.Context(), key, "create jobs.batch", store, job("j", "", "99"))
		time.Sleep(maxStale)
		expect(0, "the wait for a version that never arrives ends")
		if len(w.byKey) != 0 {
			t.Errorf("records of %d keys remain, want none", len(w.byKey))
		}
	})
}

func TestSoonest(t *testing.T) {
	for _, test := range [][3]time.Duration{{0, 0, 0}, {3, 0, 3}, {0, 3, 3}, {3, 2, 2}} {
		if got := Soonest(test[0], test[1]); got != test[2] {
			t.Errorf("the soonest of %d and %d is %d", test[0], test[1], got)
		}
	}
}

// callRecorder is an Observer that records its calls.
type callRecorder struct {
	mu    sync.Mutex
	calls []string
}

func (m *callRecorder) record(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, fmt.Sprintf(format, args...))
}

func (m *callRecorder) Run(ctx context.Context, workers int) func() {
	m.record("%d workers", workers)
	context.AfterFunc(ctx, func() { m.record("stopping") })
	return func() { m.record("stopped") }
}

func (m *callRecorder) Enqueue(e trace.Event) { m.record("%s", e) }

// ofSync is the key of a value that the context of an observed sync has.
type ofSync struct{}

func (m *callRecorder) Begin(ctx context.Context, e trace.Event) context.Context {
	m.record("%s", e)
	return context.WithValue(ctx, ofSync{}, e.Name)
}

func (m *callRecorder) Wrote(ctx context.Context, e trace.Event) {
	m.record("%s, in the sync of %v", e, ctx.Value(ofSync{}))
}

func (m *callRecorder) End(ctx context.Context, e trace.Event, result Result) {
	m.record("%s, result %d of the sync of %v", e, result, ctx.Value(ofSync{}))
}

func TestCallsOfAnObserver(t *testing.T) {
	conflict := apierrors.NewConflict(batchv1.Resource("jobs"), "j", errors.New("another resourceVersion"))
	long := strings.Repeat("x", 2000)
	for sentence, test := range map[string]struct {
		outcome
		ended  string
		result Result
	}{
		"a success": {outcome{}, "", Success},
		"an error": {
			outcome{err: errors.New("no\nand\n" + long)}, ", failed: no; and; " + long[:1024-len("no; and; ")] + "…", Error,
		},
		"only a conflict":          {outcome{err: errors.Join(conflict, nil)}, ", failed: " + conflict.Error(), Requeue},
		"a time for the next sync": {outcome{after: time.Hour}, ", again in 1h0m0s", RequeueAfter},
		"a panic":                  {outcome{panic: "oh"}, ", failed: panic in sync: oh", Panic},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observer := &callRecorder{}
				w := NewWritten("test", "Thing", clock.RealClock{}, []Observer{observer})
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
				l := newLoop(func(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
					w.Record(ctx, key, "create jobs.batch", cache.NewStore(cache.MetaNamespaceKeyFunc), job("j", "", "7"))
					time.Sleep(time.Second)
					defer synctest.Wait()
					defer cancel()
					if test.panic != nil {
						panic(test.panic)
					}
					return test.after, test.err
				})
				l.Observe(observer)
				l.Add(key, trace.Cause{Verb: "Added", Object: trace.Object{Kind: "Job", Name: "j"}})
				l.Run(ctx, context.WithoutCancel(ctx), 2)
				want := []string{
					"enqueue   test  Thing default/sample, because Added Job j", "2 workers",
					"sync      test  Thing default/sample, because Added Job j",
					"write     test  create jobs.batch Job default/j (resourceVersion 7), for Thing default/sample, in the sync of sample",
					"stopping",
					fmt.Sprintf("done      test  Thing default/sample, after 1s%s, result %d of the sync of sample", test.ended, test.result),
					"stopped",
				}
				if !slices.Equal(observer.calls, want) {
					t.Errorf("the calls are\n%s\nwant\n%s", strings.Join(observer.calls, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}

func TestObservingAllocatesNothing(t *testing.T) {
	l, _ := tracedLoop(nil)
	defer l.Queue.ShutDown()
	l.Observe(NoObserver{})
	events := make([]trace.Event, 200)
	for _, o := range l.Observers { // From now on, the life of the object does not grow.
		for i := range events {
			o.Begin(t.Context(), trace.Event{Stage: trace.Sync, Object: trace.Object{Name: fmt.Sprint(i % 2)}})
		}
	}
	if got := testing.AllocsPerRun(1000, func() {
		for _, o := range l.Observers {
			e := trace.Event{Object: trace.Object{Name: "0"}}
			o.Enqueue(e)
			ctx := o.Begin(t.Context(), e)
			o.Wrote(ctx, e)
			o.End(ctx, e, Success)
		}
	}); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
