// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/must"
)

// eachQueue runs a test with each of the two queues. The tests of this file check the behaviours that client-go's own tests of the shared
// informer check. They run in a synctest bubble, which also fails the test if a goroutine still runs at the end.

func eachQueue(t *testing.T, test func(t *testing.T, queue Queue)) {
	for _, queue := range []Queue{DeltaFIFO, RealFIFO} {
		t.Run(queue.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, queue) })
		})
	}
}

func newTestInformer(api *fakeAPI, queue Queue, resync time.Duration) *Informer {
	return New(Config{
		ListerWatcher: api.newClient(true),
		Object:        &corev1.ConfigMap{},
		Resource:      "configmaps",
		Queue:         queue,
		ResyncPeriod:  resync,
	})
}

// run starts the informer. stop ends it, and waits until Run has returned. The end of the test also calls stop.
func run(t *testing.T, informer *Informer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func mustAdd(t *testing.T, informer *Informer, handler cache.ResourceEventHandler) cache.ResourceEventHandlerRegistration {
	t.Helper()
	handle, err := informer.AddEventHandler(handler)
	must.Succeed(t, err)
	return handle
}

// addJournal adds a handler that records its calls.
func addJournal(t *testing.T, informer *Informer) *journal {
	t.Helper()
	j := &journal{}
	mustAdd(t, informer, j)
	return j
}

// expect waits until all goroutines are idle. It compares the calls that j has recorded since the last expect, as "key: call, call".
func expect(t *testing.T, when string, j *journal, want ...string) {
	t.Helper()
	synctest.Wait()
	calls := j.take()
	got := []string{}
	for _, key := range slices.Sorted(maps.Keys(calls)) {
		var all []string
		for _, c := range calls[key] {
			all = append(all, c.String())
		}
		got = append(got, key+": "+strings.Join(all, ", "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestResyncsGoToThoseWhoAsked(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1") // version 2
		informer := newTestInformer(api, queue, time.Second)
		periods := []time.Duration{0, 2 * time.Second, 3 * time.Second}
		journals := make([]*journal, len(periods))
		for n, period := range periods {
			journals[n] = &journal{}
			_, err := informer.AddEventHandlerWithResyncPeriod(journals[n], period)
			must.Succeed(t, err)
		}
		run(t, informer)
		for _, j := range journals {
			expect(t, "start", j, "a/1: add 2 (initial true)")
		}
		for second := 1; second <= 12; second++ {
			time.Sleep(time.Second)
			for n, period := range periods {
				when := fmt.Sprintf("second %d, resync %s", second, period)
				if period != 0 && time.Duration(second)*time.Second%period == 0 {
					expect(t, when, journals[n], "a/1: update 2 → 2")
				} else {
					expect(t, when, journals[n])
				}
			}
		}
	})
}

// TestRelistIsAResyncForWhatHasNotChanged: after a relist, unchanged objects count as resyncs. In an informer
// that has checked which resyncs are due, only handlers with a resync period get them.
func TestRelistIsAResyncForWhatHasNotChanged(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1", "a/2") // versions 2, 3
		informer := newTestInformer(api, queue, time.Hour)
		never, hourly := &journal{}, &journal{}
		_, err := informer.AddEventHandlerWithResyncPeriod(never, 0)
		must.Succeed(t, err)
		mustAdd(t, informer, hourly)
		run(t, informer)
		expect(t, "start", never, "a/1: add 2 (initial true)", "a/2: add 3 (initial true)")
		time.Sleep(time.Hour) // This is the first resync check. After it, the handler "never" gets no resyncs.
		expect(t, "resync", never)
		api.offline(true)
		api.put("a/2") // 4
		api.put("a/3") // 5
		api.compact()
		hourly.take()
		api.offline(false)
		time.Sleep(5 * time.Minute)
		expect(t, "relisted", never, "a/2: update 3 → 4", "a/3: add 5 (initial false)")
		expect(t, "relisted", hourly, "a/1: update 2 → 2", "a/2: update 3 → 4", "a/3: add 5 (initial false)")
	})
}

func TestTransformTrimsEverything(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1")
		informer := newTestInformer(api, queue, 0)
		must.Succeed(t, informer.SetTransform(func(obj any) (any, error) {
			object := obj.(*corev1.ConfigMap)
			if object.Name == "bad" {
				return nil, errors.New("bad")
			}
			object.Data = map[string]string{"trimmed": object.Name}
			return object, nil
		}))
		check := func(obj any) {
			if object := obj.(*corev1.ConfigMap); !reflect.DeepEqual(object.Data, map[string]string{"trimmed": object.Name}) {
				t.Errorf("this object was not trimmed: %v", object)
			}
		}
		mustAdd(t, informer, cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { check(obj) },
			UpdateFunc: func(old, obj any) { check(old); check(obj) },
			DeleteFunc: func(obj any) { check(obj) },
		})
		j := addJournal(t, informer)
		run(t, informer)
		synctest.Wait()
		api.put("a/1")
		api.put("a/2")
		api.put("a/bad")
		api.remove("a/2")
		expect(t, "the object that cannot be trimmed is left out", j,
			"a/1: add 2 (initial true), update 2 → 3", "a/2: add 4 (initial false), delete 6 (tombstone false)")
		if stats := informer.Stats(); stats.Queued != 0 {
			t.Errorf("events are still queued: %+v", stats)
		}
	})
}

func TestHandlerSyncsOnceItHasBeenTold(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1", "a/2")
		informer := newTestInformer(api, queue, 0)
		gate := make(chan struct{})
		slow := mustAdd(t, informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-gate }})
		quick := mustAdd(t, informer, &journal{})
		check := func(when string, informerSynced, slowSynced, quickSynced bool) {
			t.Helper()
			synctest.Wait()
			if got := informer.HasSynced(); got != informerSynced {
				t.Errorf("%s: informer synced %t", when, got)
			}
			if got := slow.HasSynced(); got != slowSynced || cache.IsDone(slow.HasSyncedChecker()) != got {
				t.Errorf("%s: slow handler synced %t", when, got)
			}
			if got := quick.HasSynced(); got != quickSynced || cache.IsDone(quick.HasSyncedChecker()) != got {
				t.Errorf("%s: quick handler synced %t", when, got)
			}
		}
		check("not started", false, false, false)
		run(t, informer)
		check("the slow handler has the first object", true, false, true)
		gate <- struct{}{}
		check("the slow handler has the second object", true, false, true)

		late := mustAdd(t, informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-gate }})
		if late.HasSynced() {
			t.Error("the late handler is synced before its first notification")
		}
		close(gate)
		check("all delivered", true, true, true)
		if !late.HasSynced() {
			t.Error("the late handler is not synced after its last notification")
		}
	})
}

// TestSyncedMeansApplied: the index must have the last object of the first list before HasSynced returns true. The test's indexer blocks
// the goroutine that pops at this point.
func TestSyncedMeansApplied(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1")
		at, proceed := make(chan struct{}), make(chan struct{})
		informer := New(Config{ListerWatcher: api.newClient(true), Object: &corev1.ConfigMap{}, Queue: queue, Indexers: cache.Indexers{
			"gate": func(any) ([]string, error) {
				close(at)
				<-proceed
				return nil, nil
			},
		}})
		run(t, informer)
		<-at
		// synctest.Wait does not return here: the other goroutines wait for mutexes, which does not count as idle. So the test lets them run for
		// a while.
		for range 1000 {
			if informer.HasSynced() {
				t.Fatal("HasSynced is true before the last object is in the index")
			}
			runtime.Gosched()
		}
		close(proceed)
		<-informer.HasSyncedChecker().Done()
		if _, held, _ := informer.GetStore().GetByKey("a/1"); !held {
			t.Error("HasSynced is true, but the index lacks the object")
		}
	})
}

func TestRunReturnsAfterTheHandlers(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI()
		for n := range 10 {
			api.put(fmt.Sprintf("a/%d", n))
		}
		informer := newTestInformer(api, queue, 0)
		calls, gate := 0, make(chan struct{})
		handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { calls++; <-gate }}
		mustAdd(t, informer, handler)
		stop := run(t, informer)
		synctest.Wait()
		mustAdd(t, informer, handler)
		synctest.Wait()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			stop()
		}()
		synctest.Wait()
		if isClosed(ended) {
			t.Error("Run has returned while handlers still run")
		}
		if !informer.IsStopped() {
			t.Error("IsStopped is false, but the informer accepts no handlers")
		}
		close(gate)
		<-ended
		if calls != 2 {
			t.Errorf("%d calls, want 2: one for each handler, and none after the stop", calls)
		}
	})
}

// TestRaces calls all methods that are allowed at any time in many goroutines, and adds and removes handlers inside of handlers, while
// objects change. The informer starts and stops meanwhile. The test is for the race detector.
func TestRaces(t *testing.T) {
	for _, queue := range []Queue{DeltaFIFO, RealFIFO} {
		t.Run(queue.String(), func(t *testing.T) {
			api := newFakeAPI("a/1")
			informer := newTestInformer(api, queue, time.Second)
			addAndRemove := func(handler cache.ResourceEventHandler) {
				handle, err := informer.AddEventHandler(handler)
				if err == nil {
					err = informer.RemoveEventHandler(handle)
				}
				if err != nil && !errors.Is(err, errStopped) {
					t.Errorf("AddEventHandler or RemoveEventHandler: %v", err)
				}
			}
			reentrant := cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { addAndRemove(&journal{}) }}
			var workers sync.WaitGroup
			ctx, cancel := context.WithCancel(context.Background())
			for _, call := range []func(){
				func() { addAndRemove(reentrant) },
				func() { addAndRemove(reentrant) },
				func() { addAndRemove(reentrant) },
				func() { _ = informer.SetTransform(func(obj any) (any, error) { return obj, nil }) },
				func() { _ = informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}) },
				func() { informer.LastSyncResourceVersion() },
				func() { informer.GetStore().LastStoreSyncResourceVersion() },
				func() { informer.Stats() },
				func() { informer.HasSynced() },
				func() { informer.IsStopped() },
				func() { informer.GetController().HasSynced() },
				func() { _ = informer.AddIndexers(cache.Indexers{}) },
			} {
				workers.Go(func() {
					for ctx.Err() == nil {
						call()
						runtime.Gosched()
					}
				})
			}
			stop := run(t, informer)
			for n := range 1000 {
				api.put(fmt.Sprintf("a/%d", n%7))
				if n%5 == 0 {
					api.remove(fmt.Sprintf("a/%d", n%3))
				}
			}
			<-informer.HasSyncedChecker().Done()
			stop()
			cancel()
			workers.Wait()
			if got := informer.Stats().Handlers; len(got) != 0 {
				t.Errorf("the informer still has handlers: %v", got)
			}
		})
	}
}

func TestIndexersCanBeAddedUntilTheEnd(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1")
		given := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		informer := New(Config{ListerWatcher: api.newClient(true), Object: &corev1.ConfigMap{}, Queue: queue, Indexers: given})
		byName := func(obj any) ([]string, error) { return []string{obj.(*corev1.ConfigMap).Name}, nil }
		must.Succeed(t, informer.AddIndexers(cache.Indexers{"early": byName}))
		stop := run(t, informer)
		synctest.Wait()
		must.Succeed(t, informer.AddIndexers(cache.Indexers{"late": byName}))
		for index, value := range map[string]string{cache.NamespaceIndex: "a", "early": "1", "late": "1"} {
			if got, err := informer.GetIndexer().IndexKeys(index, value); err != nil || !slices.Equal(got, []string{"a/1"}) {
				t.Errorf("%s=%s: %v, %v", index, value, got, err)
			}
		}
		if len(given) != 1 {
			t.Error("the informer changed the caller's Indexers")
		}
		stop()
		if err := informer.AddIndexers(cache.Indexers{"later": byName}); !errors.Is(err, errStopped) {
			t.Errorf("after the end: error %v", err)
		}
	})
}

// TestNoHandlerResyncsFasterThanTheMinimum: TestStepwiseLikeStock has the other periods.
func TestNoHandlerResyncsFasterThanTheMinimum(t *testing.T) {
	informer := newTestInformer(newFakeAPI(), DeltaFIFO, time.Hour)
	handle, err := informer.AddEventHandlerWithResyncPeriod(&journal{}, time.Millisecond)
	must.Succeed(t, err)
	if got := handle.(*listener).resyncPeriod; got != minimumResyncPeriod || informer.resyncCheckPeriod != minimumResyncPeriod {
		t.Errorf("the handler gets %s, and the check period is %s, want %s", got, informer.resyncCheckPeriod, minimumResyncPeriod)
	}
}

// TestSettingsAreFixedFromTheStart: the error handler that was set before the start gets the errors, with the context of Run.
func TestSettingsAreFixedFromTheStart(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI()
		denied := errors.New("access denied")
		informer := newTestInformer(api, queue, 0)
		api.fail([]error{denied}, []error{denied})
		type key struct{}
		var got error
		set := func() error {
			return errors.Join(
				informer.SetTransform(func(obj any) (any, error) { return obj, nil }),
				informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
					if ctx.Value(key{}) != "run" {
						t.Error("the handler gets another context than Run's")
					}
					got = err
				}))
		}
		must.Succeed(t, set())
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "run"))
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		synctest.Wait()
		if !errors.Is(got, denied) || informer.HasSynced() {
			t.Errorf("got %v, want %v; synced without a list: %t", got, denied, informer.HasSynced())
		}
		if err := set(); !errors.Is(err, errStarted) {
			t.Errorf("after the start, the settings change with the error %v", err)
		}
		cancel()
		running.Wait()
	})
}

func TestAHandlerThatIsRegisteredTwiceIsRemovedOnce(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1") // version 2
		informer, other := newTestInformer(api, queue, 0), newTestInformer(api, queue, 0)
		leaves := &journal{}
		leaving, again := mustAdd(t, informer, leaves), mustAdd(t, informer, leaves)
		run(t, informer)
		expect(t, "registered twice", leaves, "a/1: add 2 (initial true), add 2 (initial true)")
		for range 2 { // The second time, the registration is removed already.
			must.Succeed(t, informer.RemoveEventHandler(leaving))
		}
		must.Succeed(t, other.RemoveEventHandler(again))
		api.put("a/1")
		expect(t, "after one of its registrations was removed", leaves, "a/1: update 2 → 3")
		must.Succeed(t, informer.RemoveEventHandler(again))
		api.put("a/1")
		expect(t, "after both were removed", leaves)
		for _, foreign := range []cache.ResourceEventHandlerRegistration{nil, struct {
			cache.ResourceEventHandlerRegistration
		}{}} {
			if err := informer.RemoveEventHandler(foreign); err == nil {
				t.Errorf("RemoveEventHandler accepted %#v", foreign)
			}
		}
	})
}

// TestRemoveDuringACall: RemoveEventHandler does not wait for a running call of the handler, and drops its backlog. ShutDownEventHandler
// waits.
func TestRemoveDuringACall(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		informer := newTestInformer(newFakeAPI("a/1", "a/2"), queue, 0)
		must.Succeed(t, cache.ShutDownEventHandler(informer, mustAdd(t, informer, &journal{}))) // before the start
		calls, gate := 0, make(chan struct{})
		handle := mustAdd(t, informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { calls++; <-gate }})
		remains := mustAdd(t, informer, &journal{})
		stop := run(t, informer)
		synctest.Wait()
		must.Succeed(t, informer.RemoveEventHandler(handle))
		down := make(chan struct{})
		go func() {
			defer close(down)
			if err := cache.ShutDownEventHandler(informer, handle); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if isClosed(down) {
			t.Error("the handler is shut down although a call still runs")
		}
		close(gate)
		<-down
		if calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
		stop()
		must.Succeed(t, cache.ShutDownEventHandler(informer, remains))
	})
}

func isClosed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func TestAStoppedInformerStaysStopped(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		informer := newTestInformer(newFakeAPI("a/1"), queue, 0)
		if informer.IsStopped() || informer.HasSynced() || informer.LastSyncResourceVersion() != "" {
			t.Error("before the start, the informer reports work")
		}
		stop := run(t, informer)
		synctest.Wait()
		informer.Run(nil) // This returns at once, since the informer runs already.
		if !informer.HasSynced() || informer.IsStopped() {
			t.Error("a second Run has stopped the informer")
		}
		stop()
		if !informer.IsStopped() {
			t.Error("IsStopped is false after the end")
		}
		if _, err := informer.AddEventHandler(&journal{}); !errors.Is(err, errStopped) {
			t.Errorf("AddEventHandler after the end: error %v", err)
		}
		informer.Run(nil)
		if _, held, _ := informer.GetStore().GetByKey("a/1"); !held {
			t.Error("the index is empty after the end")
		}
	})
}
