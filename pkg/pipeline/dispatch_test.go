// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/glassback/glassback/pkg/must"
)

// TestPanicCostsOneNotification: a handler that panics loses only this notification. It gets the following ones, and syncs. The other
// handlers are not affected.
func TestPanicCostsOneNotification(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1", "a/2") // versions 2, 3
		informer := newTestInformer(api, queue, 0)
		var log syncBuffer
		logger := klog.LoggerWithName(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))), "the-handler")
		panicking, other := &journal{}, &journal{}
		handle, err := informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(obj any, initial bool) {
				panicking.OnAdd(obj, initial)
				panic("fake panic")
			},
			UpdateFunc: func(old, obj any) {
				panicking.OnUpdate(old, obj)
				var missing map[string]string
				missing[""] = ""
			},
			DeleteFunc: func(obj any) { panicking.OnDelete(obj) },
		}, cache.HandlerOptions{Logger: &logger})
		must.Succeed(t, err)
		mustAdd(t, informer, other)
		run(t, informer)
		synctest.Wait()
		if !handle.HasSynced() {
			t.Error("the handler is not synced after its last notification")
		}
		api.put("a/1")    // 4
		api.remove("a/1") // 5
		want := []string{"a/1: add 2 (initial true), update 2 → 4, delete 5 (tombstone false)", "a/2: add 3 (initial true)"}
		expect(t, "the handler that panics", panicking, want...)
		expect(t, "the other handler", other, want...)
		for message, times := range map[string]int{
			`"Observed a panic" logger="the-handler"`: 3,
			`panic="fake panic"`:                      2,
			"assignment to entry in nil map":          2, // the text and the Go value
			"dispatch_test.go":                        3, // the stack
		} {
			if got := strings.Count(log.String(), message); got < times {
				t.Errorf("the log has %d times: %s; want %d", got, message, times)
			}
		}
	})
}

// TestPanicHandlersAreCalled: the registered PanicHandlers, such as those of metrics, get the panics of handlers, whatever ReallyCrash is.
func TestPanicHandlersAreCalled(t *testing.T) {
	heard := 0
	usual := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = append(usual[:len(usual):len(usual)], func(context.Context, any) { heard++ })
	defer func() { utilruntime.PanicHandlers = usual }()
	l := newListener(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { panic("fake panic") }}, klog.Background(), "")
	l.deliver(&notification{old: configMap("a/1", "1")})
	if !utilruntime.ReallyCrash || heard != 1 {
		t.Errorf("the PanicHandler got %d panics, want 1", heard)
	}
}

type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// TestStuckHandlerDelaysNothing: a stuck handler delays neither the index nor another handler. After it continues, it gets all
// notifications in order.
func TestStuckHandlerDelaysNothing(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI()
		informer := newTestInformer(api, queue, 0)
		gate := make(chan struct{})
		var slow []string
		mustAdd(t, informer, cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(obj any, _ bool) { <-gate; slow = append(slow, versionOf(obj)) },
			UpdateFunc: func(_, obj any) { <-gate; slow = append(slow, versionOf(obj)) },
		})
		quick := 0
		mustAdd(t, informer, cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { quick++ }, UpdateFunc: func(any, any) { quick++ },
		})
		run(t, informer)
		synctest.Wait()
		const changes = 1000
		for range changes {
			api.put("a/1")
		}
		synctest.Wait()
		if quick != changes {
			t.Errorf("the quick handler has got %d notifications, want %d", quick, changes)
		}
		if got := informer.Stats().Handlers[0].Pending; got != changes {
			t.Errorf("%d pending, want %d", got, changes)
		}
		close(gate)
		synctest.Wait()
		if len(slow) != changes {
			t.Fatalf("the slow handler has got %d notifications, want %d", len(slow), changes)
		}
		for n, version := range slow {
			if version != strconv.Itoa(n+2) {
				t.Fatalf("call %d was about version %s, want %d", n, version, n+2)
			}
		}
	})
}

func TestBacklogKeepsOrder(t *testing.T) {
	for _, burst := range []int{1, 15, 16, 17, 1024, 1025, 5000} {
		b := newBacklog()
		put, taken := 0, 0
		for range 5 {
			for range burst {
				b.put(&notification{new: put})
				put++
			}
			for range burst - 1 { // One notification stays, so that the ring buffer wraps around.
				if note, ok := b.take(); !ok || note.new != taken {
					t.Fatalf("bursts of %d: took %v, want %d", burst, note.new, taken)
				}
				taken++
			}
		}
		b.close()
		b.put(&notification{new: put})
		if note, ok := b.take(); ok {
			t.Errorf("bursts of %d: took %v after close", burst, note.new)
		}
	}
}

// TestBacklogDoesNotAllocate: as long as the backlog does not grow, it allocates no memory.
func TestBacklogDoesNotAllocate(t *testing.T) {
	b := newBacklog()
	note := &notification{new: configMap("a/1", "1")}
	if got := testing.AllocsPerRun(1000, func() {
		b.put(note)
		b.take()
	}); got != 0 {
		t.Errorf("%v allocations per notification, want 0", got)
	}
}

// TestBacklogRaces puts, takes and closes in three goroutines, for the race detector.
func TestBacklogRaces(t *testing.T) {
	for range 50 {
		b := newBacklog()
		var all sync.WaitGroup
		half := make(chan struct{})
		all.Go(func() {
			for n := range 1000 {
				if n == 500 {
					close(half)
				}
				b.put(&notification{new: n})
			}
		})
		all.Go(func() {
			for next := 0; ; next++ {
				note, ok := b.take()
				if !ok {
					return
				}
				if note.new != next {
					t.Errorf("took %v, want %d", note.new, next)
				}
			}
		})
		all.Go(func() {
			<-half
			b.close()
		})
		all.Wait()
	}
}

// TestResyncOfOneHandler: a resync that is due for one handler goes to no other handler, even if another one is added in between.
func TestResyncOfOneHandler(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1") // version 2
		informer := newTestInformer(api, queue, 10*time.Second)
		early, late := &journal{}, &journal{}
		mustAdd(t, informer, early)
		run(t, informer)
		expect(t, "start", early, "a/1: add 2 (initial true)")
		time.Sleep(5 * time.Second)
		mustAdd(t, informer, late)
		expect(t, "added", late, "a/1: add 2 (initial true)")
		time.Sleep(5 * time.Second)
		expect(t, "after 10 s", early, "a/1: update 2 → 2")
		expect(t, "after 5 s", late) // The handler is due after 10 s. The checks are every 10 s.
		time.Sleep(10 * time.Second)
		expect(t, "after 20 s", early, "a/1: update 2 → 2")
		expect(t, "after 15 s", late, "a/1: update 2 → 2")
	})
}
