// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"context"
	"reflect"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/glassback/glassback/pkg/must"
)

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
		want := Stats{Arrived: changes, Applied: changes, Handlers: []HandlerStats{
			{Handler: "cache.ResourceEventHandlerDetailedFuncs", Pending: changes, Synced: true},
			{Handler: "cache.ResourceEventHandlerFuncs", Synced: true},
		}}
		if got := informer.Stats(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
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

// TestPanicCostsOneNotification: a handler that panics loses only this notification. It gets the following ones, and syncs. The other
// handlers are not affected. The log and the registered PanicHandlers, such as those of metrics, get the panic, whatever ReallyCrash is.
func TestPanicCostsOneNotification(t *testing.T) {
	heard := 0
	usual := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = append(usual[:len(usual):len(usual)], func(context.Context, any) { heard++ })
	defer func() { utilruntime.PanicHandlers = usual }()
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1", "a/2") // versions 2, 3
		informer := newTestInformer(api, queue, 0)
		var log bytes.Buffer // Only the goroutine of this handler writes to it.
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
			DeleteFunc: panicking.OnDelete,
		}, cache.HandlerOptions{Logger: &logger})
		must.Succeed(t, err)
		mustAdd(t, informer, other)
		run(t, informer)
		synctest.Wait()
		if !handle.HasSynced() {
			t.Error("the handler is not synced after its last notification")
		}
		heard = 0
		api.put("a/1")    // 4
		api.remove("a/1") // 5
		want := []string{"a/1: add 2 (initial true), update 2 → 4, delete 5 (tombstone false)", "a/2: add 3 (initial true)"}
		expect(t, "the handler that panics", panicking, want...)
		expect(t, "the other handler", other, want...)
		if heard != 1 {
			t.Errorf("the PanicHandler got %d panics of the update, want 1", heard)
		}
		// The log has the place of each panic, also of one of the runtime.
		observed := regexp.MustCompile(`dispatch_test\.go:\d+\] "Observed a panic" logger="the-handler"`)
		if got := len(observed.FindAllString(log.String(), -1)); got != 3 {
			t.Errorf("the log has %d panics, want 3:\n%s", got, &log)
		}
	})
}

func TestAQueueIsAFlag(t *testing.T) {
	var queue Queue
	for _, name := range []string{"RealFIFO", "DeltaFIFO"} {
		if err := queue.Set(name); err != nil || queue.String() != name || queue.Type() != "queue" {
			t.Errorf("%s: the flag has the value %s and the type %s, error %v", name, queue, queue.Type(), err)
		}
	}
	if err := queue.Set("FIFO"); err == nil || queue != DeltaFIFO {
		t.Errorf("after an unknown name, the value is %s, error %v", queue, err)
	}
}
