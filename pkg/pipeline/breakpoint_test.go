// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/breakpoint"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// bench is an informer with breakpoints on a fake API server.
type bench struct {
	*testing.T

	api      *fakeAPI
	informer *Informer
	wire     breakpoint.Wire
	queue    breakpoint.Queue
	store    *reflectorStore // leads to the breakpoint and the queue
	calls    *lines          // calls of the handler
	recorder *trace.Recorder
}

// lines is a handler that records its calls in their order.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) note(method string, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	key, _ := cache.MetaNamespaceKeyFunc(obj)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, method+" "+key+" "+versionOf(obj))
}

func (l *lines) OnAdd(obj any, _ bool) { l.note("add", obj) }
func (l *lines) OnUpdate(_, obj any)   { l.note("update", obj) }
func (l *lines) OnDelete(obj any)      { l.note("delete", obj) }

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// newBench starts an informer on an API server that has objects with these keys.
func newBench(t *testing.T, queue Queue, keys ...string) *bench {
	t.Helper()
	b := &bench{T: t, api: newFakeAPI(keys...), calls: &lines{}, recorder: trace.NewRecorder(1000)}
	b.informer = New(Config{
		ListerWatcher: b.api.newClient(true), Object: &corev1.ConfigMap{}, Resource: "configmaps", Queue: queue, Trace: b.recorder,
		Backoff: &wait.Backoff{Duration: time.Second, Factor: 1, Steps: 1},
	})
	panicOn(b.informer.WrapReflector(b.wire.Wrap, func(queue cache.ReflectorStore) cache.ReflectorStore {
		queue = b.queue.Wrap(queue)
		b.store = &reflectorStore{queue: queue, arrived: &b.informer.arrived, tracer: &b.informer.tracer}
		return queue
	}))
	mustAdd(t, b.informer, b.calls)
	run(t, b.informer)
	synctest.Wait()
	return b
}

// expect compares the calls of the handler since the last expect or take.
func (b *bench) expect(when string, want ...string) {
	b.Helper()
	synctest.Wait()
	if got, want := strings.Join(b.calls.take(), "; "), strings.Join(want, "; "); got != want {
		b.Errorf("%s:\n got  %s\n want %s", when, got, want)
	}
}

// take returns the calls of the handler since the last expect or take.
func (b *bench) take() []string {
	synctest.Wait()
	return b.calls.take()
}

// kept returns the number of deltas that wait at the breakpoint before the queue, and the first of them.
func (b *bench) kept(limit int) string {
	hold := b.queue.Held()
	if hold == nil {
		return "not held"
	}
	lines := []string{fmt.Sprint(hold.Kept)}
	for _, k := range b.queue.Kept(limit) {
		key, _ := cache.MetaNamespaceKeyFunc(k.Object)
		lines = append(lines, fmt.Sprintf("%s %s %s", k.Verb, key, versionOf(k.Object)))
	}
	return strings.Join(lines, "; ")
}

func TestAHeldQueueFillsAndDrains(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		b := newBench(t, queue)
		b.api.put("a/1") // 2
		b.expect("before", "add a/1 2")
		b.queue.Hold()
		b.queue.Hold()      // A second Hold has no further effect.
		b.api.put("a/1")    // 3
		b.api.put("a/2")    // 4
		b.api.remove("a/1") // 5
		b.expect("held")
		if got, want := b.kept(2), "3; Updated a/1 3; Added a/2 4"; got != want {
			t.Errorf("the kept deltas are %s, want %s", got, want)
		}
		if queued := b.informer.Stats().Queued; queued != 3 {
			t.Errorf("%d queued, want 3", queued)
		}
		b.queue.Release()
		b.queue.Release()
		synctest.Wait()
		got := b.calls.take()
		if queue == DeltaFIFO { // A DeltaFIFO keeps the order only within an object.
			slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) })
		}
		want := map[Queue]string{DeltaFIFO: "update a/1 3; delete a/1 5; add a/2 4", RealFIFO: "update a/1 3; add a/2 4; delete a/1 5"}[queue]
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("after the release, the calls are %s, want %s", got, want)
		}
		if got := b.kept(2); got != "not held" || b.informer.Stats().Queued != 0 {
			t.Errorf("after the release, the kept deltas are %s, and %d are queued", got, b.informer.Stats().Queued)
		}
		b.api.put("a/3") // 6
		b.expect("after", "add a/3 6")
	})
}

func TestAHeldQueueReleasesItself(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		b := newBench(t, queue)
		b.queue.Hold()
		b.api.put("a/1") // 2
		time.Sleep(breakpoint.Limit - time.Second)
		b.expect("held")
		time.Sleep(time.Second)
		b.expect("released", "add a/1 2")
	})
}

func TestAHeldQueueDoesNotDelayTheEnd(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		b := newBench(t, queue)
		b.queue.Hold()
		b.api.put("a/1")
		synctest.Wait() // The end of the test ends the informer.
	})
}

func TestAHeldWireCatchesUp(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		b := newBench(t, queue)
		b.api.put("a/1") // 2
		b.expect("before", "add a/1 2")
		b.wire.Hold()
		synctest.Wait()
		b.api.put("a/2")    // 3
		b.api.remove("a/1") // 4
		time.Sleep(time.Minute)
		b.expect("held")
		if health := b.informer.Health(); health.Watching || fmt.Sprint(health.Err) != "the wire is held by hand" || b.wire.Held() == nil {
			t.Errorf("health is %+v", health)
		}
		b.wire.Release()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := strings.Join(b.calls.take(), "; "); !strings.Contains(got, "add a/2 3") || !strings.Contains(got, "delete a/1") {
			t.Errorf("after the release, the calls are %s", got)
		}
		if health := b.informer.Health(); !health.Watching || b.wire.Held() != nil {
			t.Errorf("health is %+v", health)
		}
	})
}

// TestADroppedWatchMissesNothing: after the end of a WATCH, the reflector resumes from the last resourceVersion. The exception is a very
// short WATCH, shorter than a second and without an event: then client-go relists. A dropped WATCH never counts as very short.
func TestADroppedWatchMissesNothing(t *testing.T) {
	server := func(b *bench) { b.api.closeWatches() }
	drop := func(b *bench) { b.wire.Drop() }
	expire := func(b *bench) { b.wire.Expire() }
	for name, test := range map[string]struct {
		age    time.Duration // age of the WATCH
		event  bool          // whether the WATCH has sent an event
		end    func(b *bench)
		relist bool // whether the reflector relists
	}{
		"dropped as soon as it is open":       {0, false, drop, false},
		"dropped after an event":              {0, true, drop, false},
		"dropped later":                       {time.Minute, false, drop, false},
		"expired as soon as it is open":       {0, false, expire, true},
		"expired after an event":              {0, true, expire, true},
		"ended by the server, very short":     {time.Second - 1, false, server, true},
		"ended by the server after a second":  {time.Second, false, server, false},
		"ended by the server after an event":  {time.Second - 1, true, server, false},
		"ended by the server after some time": {time.Minute, true, server, false},
	} {
		t.Run(name, func(t *testing.T) {
			eachQueue(t, func(t *testing.T, queue Queue) {
				b := newBench(t, queue, "a/1") // 2
				time.Sleep(test.age)
				b.expect("the list", "add a/1 2")
				if test.event {
					b.api.put("a/1") // 3
					b.expect("an event", "update a/1 3")
				}
				opened := b.api.clients[0].watches[0]
				test.end(b)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if now := b.api.clients[0].watches; len(now) != 1 || now[0] == opened {
					t.Fatalf("%d watches are open; the first one is still open: %t", len(now), slices.Contains(now, opened))
				}
				relisted := strings.Count(fmt.Sprint(b.recorder.Events()), "wire      configmaps  Replaced ConfigMap a/1") - 1
				if (relisted == 1) != test.relist || relisted > 1 {
					t.Errorf("the reflector relisted %d times, want a relist: %t", relisted, test.relist)
				}
				if got := b.take(); !test.relist && len(got) > 0 {
					t.Errorf("the calls are %q, although no object has changed", got)
				}
				b.api.remove("a/1")
				if got := strings.Join(b.take(), "; "); !strings.HasPrefix(got, "delete a/1") {
					t.Errorf("the calls are %q, want a deletion", got)
				}
			})
		})
	}
}

// TestAnExpiredWatchMissesNothing: objects change between two watches. The handler gets the changes after the second watch is open.
func TestAnExpiredWatchMissesNothing(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		b := newBench(t, queue, "a/1") // 2
		b.expect("the list", "add a/1 2")
		b.wire.Expire()
		synctest.Wait()     // No watch is open until the backoff ends.
		b.api.remove("a/1") // 3
		b.api.put("a/2")    // 4
		time.Sleep(5 * time.Second)
		got := strings.Join(b.take(), "; ")
		if !strings.Contains(got, "add a/2 4") || !strings.Contains(got, "delete a/1") {
			t.Errorf("the calls are %s", got)
		}
	})
}

// TestABookmarkWaitsForWhatIsKept: the index has the resourceVersion of a bookmark only after all deltas before the bookmark are applied.
func TestABookmarkWaitsForWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RealFIFO)
		b.api.put("a/1") // 2
		b.expect("before", "add a/1 2")
		b.queue.Hold()
		b.api.put("a/1") // 3
		synctest.Wait()
		must.Succeed(t, b.store.Bookmark("9"))
		synctest.Wait()
		if got := b.informer.GetStore().LastStoreSyncResourceVersion(); got == "9" {
			t.Errorf("while the queue is held, the index has the resourceVersion %s", got)
		}
		b.queue.Release()
		synctest.Wait()
		if got := b.informer.GetStore().LastStoreSyncResourceVersion(); got != "9" {
			t.Errorf("after the release, the index has the resourceVersion %s", got)
		}
	})
}

// TestAHeldQueueThatIsFullReleasesItself: a held queue keeps at most maxKept calls of the reflector. Then it releases itself before its
// time is over.
func TestAHeldQueueThatIsFullReleasesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, DeltaFIFO)
		b.queue.Hold()
		update := func(times int) {
			for range times {
				must.Succeed(t, b.store.Update(configMap("a/1", "7")))
			}
		}
		const maxKept = 100_000
		update(maxKept - 1)
		if hold := b.queue.Held(); hold == nil || hold.Kept != maxKept-1 {
			t.Fatalf("before the limit, the hold is %+v", hold)
		}
		update(1)
		synctest.Wait()
		if hold := b.queue.Held(); hold != nil || b.informer.Stats().Queued != 0 {
			t.Errorf("at the limit, the hold is %+v, and %d deltas are queued", hold, b.informer.Stats().Queued)
		}
	})
}
