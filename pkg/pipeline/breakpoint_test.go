// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"strings"
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
	calls    *journal        // calls of the handler
	recorder *trace.Recorder
}

// newBench starts an informer on an API server that has objects with these keys.
func newBench(t *testing.T, queue Queue, keys ...string) *bench {
	t.Helper()
	b := &bench{T: t, api: newFakeAPI(keys...), calls: &journal{}, recorder: trace.NewRecorder(1000)}
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
		expect(t, "before", b.calls, "a/1: add 2 (initial false)")
		b.queue.Hold()
		b.queue.Hold()      // A second Hold has no further effect.
		b.api.put("a/1")    // 3
		b.api.put("a/2")    // 4
		b.api.remove("a/1") // 5
		expect(t, "held", b.calls)
		if got, want := b.kept(2), "3; Updated a/1 3; Added a/2 4"; got != want {
			t.Errorf("the kept deltas are %s, want %s", got, want)
		}
		if queued := b.informer.Stats().Queued; queued != 3 {
			t.Errorf("%d queued, want 3", queued)
		}
		b.queue.Release()
		b.queue.Release()
		expect(t, "released", b.calls, "a/1: update 2 → 3, delete 5 (tombstone false)", "a/2: add 4 (initial false)")
		if got := b.kept(2); got != "not held" || b.informer.Stats().Queued != 0 {
			t.Errorf("after the release, the kept deltas are %s, and %d are queued", got, b.informer.Stats().Queued)
		}
		b.queue.Hold()
		b.api.put("a/3") // 6
		time.Sleep(breakpoint.Limit - time.Second)
		expect(t, "held again", b.calls)
		time.Sleep(time.Second)
		expect(t, "released by itself", b.calls, "a/3: add 6 (initial false)")
		b.queue.Hold()
		b.api.put("a/1")
		synctest.Wait() // The end of the test ends the informer, although the queue is held.
	})
}

func TestAHeldWireCatchesUp(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		b := newBench(t, queue, "a/1") // 2
		b.wire.Hold()
		expect(t, "before", b.calls, "a/1: add 2 (initial true)")
		b.api.put("a/2")    // 3
		b.api.remove("a/1") // 4
		time.Sleep(time.Minute)
		expect(t, "held", b.calls)
		if health := b.informer.Health(); health.Watching || health.Err == nil || b.wire.Held() == nil {
			t.Errorf("health is %+v", health)
		}
		b.wire.Release()
		time.Sleep(5 * time.Second)
		expect(t, "released", b.calls, "a/1: delete 2 (tombstone true)", "a/2: add 3 (initial false)") // after a relist
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
		"dropped as soon as it is open":      {0, false, drop, false},
		"expired as soon as it is open":      {0, false, expire, true},
		"expired after an event":             {0, true, expire, true},
		"ended by the server after an event": {time.Second - 1, true, server, false},
	} {
		t.Run(name, func(t *testing.T) {
			eachQueue(t, func(t *testing.T, queue Queue) {
				b := newBench(t, queue, "a/1") // 2
				time.Sleep(test.age)
				expect(t, "the list", b.calls, "a/1: add 2 (initial true)")
				if test.event {
					b.api.put("a/1") // 3
					expect(t, "an event", b.calls, "a/1: update 2 → 3")
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
				if got := b.calls.take(); !test.relist && len(got) > 0 {
					t.Errorf("the calls are %v, although no object has changed", got)
				}
				b.api.remove("a/1")
				synctest.Wait()
				if got := b.calls.take()["a/1"]; len(got) != 1 || got[0].method != "delete" {
					t.Errorf("the calls are %v, want a deletion", got)
				}
			})
		})
	}
}

// TestABookmarkWaitsForWhatIsKept: the index has the resourceVersion of a bookmark only after all deltas before the bookmark are applied.
func TestABookmarkWaitsForWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RealFIFO)
		b.api.put("a/1") // 2
		expect(t, "before", b.calls, "a/1: add 2 (initial false)")
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
