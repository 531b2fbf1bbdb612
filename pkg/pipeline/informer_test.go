// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
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

func TestHandlersGetAllChanges(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1") // version 2
		informer := newTestInformer(api, queue, 0)
		j := addJournal(t, informer)
		run(t, informer)
		expect(t, "start", j, "a/1: add 2 (initial true)")
		api.put("a/2")
		expect(t, "created", j, "a/2: add 3 (initial false)")
		api.put("a/2")
		expect(t, "updated", j, "a/2: update 3 → 4")
		api.remove("a/2")
		expect(t, "deleted", j, "a/2: delete 5 (tombstone false)")
		if got, want := informer.LastSyncResourceVersion(), "5"; got != want {
			t.Errorf("the reflector has the resourceVersion %q, want %q", got, want)
		}
		if got, want := informer.GetStore().LastStoreSyncResourceVersion(), map[Queue]string{DeltaFIFO: "", RealFIFO: "5"}[queue]; got != want {
			t.Errorf("the index has the resourceVersion %q, want %q", got, want)
		}
	})
}

// TestAMissedDeletionIsATombstone: the watch ends, and the API server compacts its history. The informer finds the deletions of this time
// by comparison with the new list. It does not know the last state of a deleted object.
func TestAMissedDeletionIsATombstone(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1", "a/2", "a/3") // versions 2, 3, 4
		informer := newTestInformer(api, queue, 0)
		j := addJournal(t, informer)
		run(t, informer)
		expect(t, "start", j, "a/1: add 2 (initial true)", "a/2: add 3 (initial true)", "a/3: add 4 (initial true)")
		api.offline(true)
		api.remove("a/1")
		api.remove("a/2")
		api.put("a/2") // 7: another object of the same name
		api.put("a/4") // 8
		api.compact()
		api.offline(false)
		time.Sleep(5 * time.Minute)
		expect(t, "relisted", j, "a/1: delete 2 (tombstone true)", "a/2: update 3 → 7", "a/3: update 4 → 4", "a/4: add 8 (initial false)")
	})
}

func TestIndexersCanBeAddedUntilTheEnd(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1")
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		informer := New(Config{ListerWatcher: api.newClient(true), Object: &corev1.ConfigMap{}, Queue: queue, Indexers: indexers})
		lookup := func(index, value string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got, err := informer.GetIndexer().IndexKeys(index, value); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s=%s: %v, %v; want %v", index, value, got, err, want)
			}
		}
		byName := func(obj any) ([]string, error) { return []string{obj.(*corev1.ConfigMap).Name}, nil }
		must.Succeed(t, informer.AddIndexers(cache.Indexers{"name": byName}))
		stop := run(t, informer)
		lookup("name", "1", "a/1")
		lookup(cache.NamespaceIndex, "a", "a/1")
		api.put("a/2")
		lookup(cache.NamespaceIndex, "a", "a/1", "a/2")
		if err := informer.AddIndexers(cache.Indexers{"late": byName}); err != nil {
			t.Error(err)
		}
		lookup("late", "2", "a/2")
		if err := informer.AddIndexers(cache.Indexers{"name": byName}); err == nil {
			t.Error("an indexer could be added twice")
		}
		if len(indexers) != 1 {
			t.Error("the informer changed the caller's Indexers")
		}
		stop()
		if err := informer.AddIndexers(cache.Indexers{"later": byName}); !errors.Is(err, errStopped) {
			t.Errorf("after the end: error %v", err)
		}
	})
}

func TestResyncsGoToThoseWhoAsked(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1") // version 2
		informer := newTestInformer(api, queue, time.Second)
		periods := []time.Duration{0, 2 * time.Second, 3 * time.Second}
		journals := make([]*journal, len(periods))
		for n, period := range periods {
			journals[n] = &journal{}
			if _, err := informer.AddEventHandlerWithResyncPeriod(journals[n], period); err != nil {
				t.Fatal(err)
			}
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

func TestHandlerSetsThePaceOfResyncs(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1") // version 2
		informer := newTestInformer(api, queue, 12*time.Hour)
		hurried := &journal{}
		if _, err := informer.AddEventHandlerWithResyncPeriod(hurried, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		run(t, informer)
		expect(t, "start", hurried, "a/1: add 2 (initial true)")
		for range 3 {
			time.Sleep(5 * time.Second)
			expect(t, "five seconds later", hurried, "a/1: update 2 → 2")
		}
	})
}

func TestResyncPeriods(t *testing.T) {
	type handler struct{ asks, gets time.Duration }
	for name, test := range map[string]struct {
		informer  time.Duration
		before    []handler // gets: the period after all have been added
		check     time.Duration
		afterward []handler
	}{
		"the shortest period before the start sets the check period": {
			informer: 12 * time.Hour,
			before:   []handler{{0, 0}, {time.Minute, time.Minute}, {55 * time.Second, 55 * time.Second}, {5 * time.Second, 5 * time.Second}},
			check:    5 * time.Second,
		},
		"no handler resyncs faster than the minimum": {
			informer:  time.Hour,
			before:    []handler{{time.Millisecond, minimumResyncPeriod}},
			check:     minimumResyncPeriod,
			afterward: []handler{{time.Millisecond, minimumResyncPeriod}},
		},
		"after the start, the check period is fixed": {
			informer:  time.Minute,
			before:    []handler{{2 * time.Minute, 2 * time.Minute}},
			check:     time.Minute,
			afterward: []handler{{time.Second, time.Minute}, {90 * time.Second, 90 * time.Second}, {0, 0}},
		},
		"an informer without a resync period has no resyncs": {
			before:    []handler{{time.Minute, 0}},
			afterward: []handler{{time.Minute, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachQueue(t, func(t *testing.T, queue Queue) {
				informer := newTestInformer(newFakeAPI(), queue, test.informer)
				add := func(handlers []handler) (added []*listener) {
					for _, h := range handlers {
						handle, err := informer.AddEventHandlerWithResyncPeriod(&journal{}, h.asks)
						must.Succeed(t, err)
						added = append(added, handle.(*listener))
					}
					return added
				}
				check := func(handlers []handler, added []*listener) {
					t.Helper()
					for n, h := range handlers {
						if got := added[n].resyncPeriod; got != h.gets {
							t.Errorf("a handler that asks for %s gets %s, want %s", h.asks, got, h.gets)
						}
					}
				}
				check(test.before, add(test.before))
				if informer.resyncCheckPeriod != test.check {
					t.Errorf("the check period is %s, want %s", informer.resyncCheckPeriod, test.check)
				}
				stop := run(t, informer)
				synctest.Wait()
				check(test.afterward, add(test.afterward))
				stop()
			})
		})
	}
}

// TestRelistIsAResyncForWhatHasNotChanged: after a relist, unchanged objects count as resyncs. Only handlers with a resync period get them.
func TestRelistIsAResyncForWhatHasNotChanged(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1", "a/2") // versions 2, 3
		informer := newTestInformer(api, queue, time.Hour)
		never, hourly := &journal{}, &journal{}
		if _, err := informer.AddEventHandlerWithResyncPeriod(never, 0); err != nil {
			t.Fatal(err)
		}
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

func TestWatchErrorHandlerIsCalled(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI()
		denied := errors.New("access denied")
		informer := newTestInformer(api, queue, 0)
		api.fail([]error{denied}, []error{denied})
		type key struct{}
		var got error
		must.Succeed(t, informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
			if ctx.Value(key{}) != "run" {
				t.Error("the handler gets another context than Run's")
			}
			got = err
		}))
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "run"))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			informer.RunWithContext(ctx)
		}()
		synctest.Wait()
		if !errors.Is(got, denied) {
			t.Errorf("got %v, want %v", got, denied)
		}
		if informer.HasSynced() {
			t.Error("HasSynced is true without a list")
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if !informer.HasSynced() {
			t.Error("HasSynced is false although the API server has recovered")
		}
		cancel()
		<-ended
	})
}

func TestSettingsAreFixedFromTheStart(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		informer := newTestInformer(newFakeAPI(), queue, 0)
		for _, when := range []error{nil, errStarted, errStarted} {
			if err := informer.SetTransform(func(obj any) (any, error) { return obj, nil }); !errors.Is(err, when) {
				t.Errorf("SetTransform: %v, want %v", err, when)
			}
			if err := informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}); !errors.Is(err, when) {
				t.Errorf("SetWatchErrorHandler: %v, want %v", err, when)
			}
			if when == nil {
				run(t, informer)
				synctest.Wait()
			}
		}
	})
}

// TestStartRaces calls all methods that are allowed around the start, for the race detector.
func TestStartRaces(t *testing.T) {
	for _, queue := range []Queue{DeltaFIFO, RealFIFO} {
		api := newFakeAPI("a/1")
		informer := newTestInformer(api, queue, time.Second)
		var others sync.WaitGroup
		for _, call := range []func(){
			func() { _ = informer.SetTransform(func(obj any) (any, error) { return obj, nil }) },
			func() { _ = informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}) },
			func() { _, _ = informer.AddEventHandler(&journal{}) },
			func() { informer.LastSyncResourceVersion() },
			func() { informer.GetStore().LastStoreSyncResourceVersion() },
			func() { informer.Stats() },
			func() { informer.HasSynced() },
			func() { informer.IsStopped() },
			func() { _ = informer.AddIndexers(cache.Indexers{}) },
		} {
			others.Go(func() {
				for range 100 {
					call()
				}
			})
		}
		stop := run(t, informer)
		others.Wait()
		<-informer.HasSyncedChecker().Done()
		stop()
	}
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

func TestOtherTypesAreDropped(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI()
		informer := New(Config{ListerWatcher: api.newClient(true), Object: &corev1.Secret{}, Queue: queue})
		run(t, informer)
		api.put("a/1")
		synctest.Wait()
		if held := informer.GetStore().List(); len(held) != 0 {
			t.Errorf("the index of Secrets has a ConfigMap: %v", held)
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

// TestHandlerOfAnEmptyListSyncs: a handler is synced although it gets no notification.
func TestHandlerOfAnEmptyListSyncs(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		informer := newTestInformer(newFakeAPI(), queue, 0)
		early := mustAdd(t, informer, &journal{})
		run(t, informer)
		<-early.HasSyncedChecker().Done()
		<-mustAdd(t, informer, &journal{}).HasSyncedChecker().Done()
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
			yield()
		}
		close(proceed)
		<-informer.HasSyncedChecker().Done()
		if _, held, _ := informer.GetStore().GetByKey("a/1"); !held {
			t.Error("HasSynced is true, but the index lacks the object")
		}
	})
}

func TestLateHandlerCatchesUp(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1") // version 2
		informer := newTestInformer(api, queue, 0)
		run(t, informer)
		synctest.Wait()
		api.put("a/2") // 3
		api.put("a/1") // 4
		synctest.Wait()
		j := addJournal(t, informer)
		expect(t, "added", j, "a/1: add 4 (initial true)", "a/2: add 3 (initial true)")
		api.put("a/2")
		api.put("a/3")
		expect(t, "after that", j, "a/2: update 3 → 5", "a/3: add 6 (initial false)")
	})
}

func TestRemovedHandlerGetsNoNotifications(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI()
		informer, other := newTestInformer(api, queue, 0), newTestInformer(api, queue, 0)
		leaves, stays := &journal{}, &journal{}
		leaving, staying, again := mustAdd(t, informer, leaves), mustAdd(t, informer, stays), mustAdd(t, informer, leaves)
		run(t, informer)
		synctest.Wait()
		api.put("a/1")
		expect(t, "one handler, registered twice", leaves, "a/1: add 2 (initial false), add 2 (initial false)")
		expect(t, "the other handler", stays, "a/1: add 2 (initial false)")

		remove := func(informer *Informer, handle cache.ResourceEventHandlerRegistration, left int) {
			t.Helper()
			if err := informer.RemoveEventHandler(handle); err != nil {
				t.Error(err)
			}
			if got := len(informer.Stats().Handlers); got != left {
				t.Errorf("%d handlers left, want %d", got, left)
			}
		}
		remove(informer, leaving, 2)
		remove(informer, leaving, 2)
		remove(other, staying, 0)
		api.put("a/1")
		expect(t, "after one of its registrations was removed", leaves, "a/1: update 2 → 3")
		remove(informer, again, 1)
		api.put("a/1")
		expect(t, "after both were removed", leaves)
		expect(t, "the other handler still", stays, "a/1: update 2 → 3, update 3 → 4")

		stock := cache.NewSharedIndexInformer(api.newClient(true), &corev1.ConfigMap{}, 0, nil)
		foreign, _ := stock.AddEventHandler(&journal{})
		if err := informer.RemoveEventHandler(foreign); err == nil {
			t.Error("RemoveEventHandler accepted a registration of a stock informer")
		}
		if err := informer.RemoveEventHandler(nil); err == nil {
			t.Error("RemoveEventHandler accepted nil")
		}
	})
}

// TestRemoveDuringACall: RemoveEventHandler does not wait for a running call of the handler. It drops the handler's backlog.
func TestRemoveDuringACall(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1", "a/2")
		informer := newTestInformer(api, queue, 0)
		calls, gate := 0, make(chan struct{})
		handle := mustAdd(t, informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { calls++; <-gate }})
		run(t, informer)
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
		select {
		case <-down:
			t.Error("the handler is shut down although a call still runs")
		default:
		}
		close(gate)
		<-down
		if calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
	})
}

func TestShutDownEventHandler(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		informer := newTestInformer(newFakeAPI(), queue, 0)
		shutDown := func(handle cache.ResourceEventHandlerRegistration) {
			t.Helper()
			if err := cache.ShutDownEventHandler(informer, handle); err != nil {
				t.Error(err)
			}
		}
		shutDown(mustAdd(t, informer, &journal{})) // never started
		early, remains := mustAdd(t, informer, &journal{}), mustAdd(t, informer, &journal{})
		stop := run(t, informer)
		<-informer.HasSyncedChecker().Done()
		shutDown(early)
		shutDown(early)
		shutDown(mustAdd(t, informer, &journal{}))
		stop()
		shutDown(remains)
	})
}

func TestAStoppedInformerStaysStopped(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1")
		informer := newTestInformer(api, queue, 0)
		handle := mustAdd(t, informer, &journal{})
		if informer.IsStopped() || informer.HasSynced() || informer.LastSyncResourceVersion() != "" {
			t.Error("before the start, the informer reports work")
		}
		stopCh, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			informer.Run(stopCh)
		}()
		synctest.Wait()
		if informer.IsStopped() {
			t.Error("IsStopped is true while the informer runs")
		}
		informer.Run(nil) // This returns at once, since the informer runs already.
		if !informer.HasSynced() || informer.IsStopped() {
			t.Error("a second Run has stopped the informer")
		}
		close(stopCh)
		<-ended
		if !informer.IsStopped() {
			t.Error("IsStopped is false after the end")
		}
		if _, err := informer.AddEventHandler(&journal{}); !errors.Is(err, errStopped) {
			t.Errorf("AddEventHandler after the end: error %v", err)
		}
		if err := informer.RemoveEventHandler(handle); err != nil {
			t.Errorf("RemoveEventHandler after the end: error %v", err)
		}
		informer.Run(nil)
		if _, held, _ := informer.GetStore().GetByKey("a/1"); !held {
			t.Error("the index is empty after the end")
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
		select {
		case <-ended:
			t.Error("Run has returned while handlers still run")
		default:
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

func TestStoppedBeforeTheFirstList(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI()
		informer := newTestInformer(api, queue, 0)
		api.offline(true)
		handle := mustAdd(t, informer, &journal{})
		stop := run(t, informer)
		time.Sleep(time.Minute)
		stop()
		if informer.HasSynced() || handle.HasSynced() {
			t.Error("HasSynced is true without a list")
		}
	})
}

// TestHandlersRace adds and removes handlers in many goroutines and inside of handlers, while objects change. The informer stops in the
// middle. The test is for the race detector.
func TestHandlersRace(t *testing.T) {
	for _, queue := range []Queue{DeltaFIFO, RealFIFO} {
		t.Run(queue.String(), func(t *testing.T) {
			api := newFakeAPI()
			informer := newTestInformer(api, queue, time.Second)
			stop := run(t, informer)
			ctx, cancel := context.WithCancel(context.Background())
			var workers sync.WaitGroup
			for range 16 {
				workers.Go(func() {
					for ctx.Err() == nil {
						reentrant := cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) {
							if handle, err := informer.AddEventHandler(&journal{}); err == nil {
								_ = informer.RemoveEventHandler(handle)
							}
						}}
						handle, err := informer.AddEventHandler(reentrant)
						if errors.Is(err, errStopped) {
							return
						}
						if err != nil || informer.RemoveEventHandler(handle) != nil {
							t.Error("AddEventHandler or RemoveEventHandler failed")
						}
					}
				})
			}
			for n := range 1000 {
				api.put(fmt.Sprintf("a/%d", n%7))
				if n%5 == 0 {
					api.remove(fmt.Sprintf("a/%d", n%3))
				}
			}
			stop()
			workers.Wait()
			cancel()
			if got := informer.Stats().Handlers; len(got) != 0 {
				t.Errorf("the informer still has handlers: %v", got)
			}
		})
	}
}

func TestGetController(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		informer := newTestInformer(newFakeAPI(), queue, 0)
		c := informer.GetController()
		c.Run(nil)
		c.RunWithContext(t.Context())
		if c.HasSynced() || informer.IsStopped() {
			t.Error("the method Run of the controller did something")
		}
		run(t, informer)
		<-c.HasSyncedChecker().Done()
		synctest.Wait() // The reflector stores the resourceVersion after the queue has the object.
		if got := c.LastSyncResourceVersion(); got != "1" {
			t.Errorf("LastSyncResourceVersion %q, want 1", got)
		}
	})
}

func TestStats(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1")
		informer := newTestInformer(api, queue, 0)
		gate := make(chan struct{})
		mustAdd(t, informer, &journal{})
		mustAdd(t, informer, cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { <-gate }, UpdateFunc: func(any, any) { <-gate },
		})
		run(t, informer)
		synctest.Wait()
		for range 9 {
			api.put("a/1")
		}
		check := func(when string, pending int, synced bool) {
			t.Helper()
			synctest.Wait()
			want := Stats{Arrived: 10, Applied: 10, Handlers: []HandlerStats{
				{Handler: "*pipeline.journal", Synced: true},
				{Handler: "cache.ResourceEventHandlerFuncs", Pending: pending, Synced: synced},
			}}
			if got := informer.Stats(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
		}
		check("nothing delivered", 10, false)
		gate <- struct{}{}
		check("one delivered", 9, true)
		close(gate)
		check("all delivered", 0, true)
	})
}

// TestStatsCountsTheQueue: Stats counts the queued objects while the queue cannot update the index.
func TestStatsCountsTheQueue(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		informer := newTestInformer(newFakeAPI(), queue, 0)
		q, err := informer.start(logger())
		must.Succeed(t, err)
		store := &reflectorStore{queue: q, arrived: &informer.arrived, tracer: &informer.tracer}
		panicOn(store.Replace([]any{configMap("a/1", "1"), configMap("a/2", "2")}, "2"))
		panicOn(store.Add(configMap("a/3", "3")))
		panicOn(store.Update(configMap("a/3", "4")))
		panicOn(store.Delete(configMap("a/1", "5")))
		panicOn(store.Bookmark("6"))
		panicOn(store.Resync())
		if store.Add("no object") == nil {
			t.Error("the queue accepted a string")
		}
		if got := informer.Stats().Queued; got != 5 {
			t.Errorf("%d queued, want 5", got)
		}
		q.Close()
		informer.pop(t.Context(), q)
		if got := informer.Stats().Queued; got != 0 {
			t.Errorf("%d queued, want 0", got)
		}
		if got, want := versions(informer.GetStore()), map[string]string{"a/2": "2", "a/3": "4"}; !maps.Equal(got, want) {
			t.Errorf("the index has %v, want %v", got, want)
		}
		informer.handlers.stop()
	})
}
