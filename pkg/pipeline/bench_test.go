// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/must"
)

// indexers are those of all candidates.
var indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}

// candidates are the stock informer, and our informer with each queue.
var candidates = []struct {
	name string
	make func(lw cache.ListerWatcher) cache.SharedIndexInformer
}{
	{"stock", func(lw cache.ListerWatcher) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, indexers)
	}},
	{"delta", func(lw cache.ListerWatcher) cache.SharedIndexInformer {
		return New(Config{ListerWatcher: lw, Object: &corev1.Pod{}, Resource: "pods", Queue: DeltaFIFO, Indexers: indexers})
	}},
	{"real", func(lw cache.ListerWatcher) cache.SharedIndexInformer {
		return New(Config{ListerWatcher: lw, Object: &corev1.Pod{}, Resource: "pods", Queue: RealFIFO, Indexers: indexers})
	}},
}

// benchSource is a LIST of Pods and one WATCH to which the benchmark writes. Nothing is decoded, so that a benchmark measures only the
// informer.
type benchSource struct {
	pods   []corev1.Pod
	events chan watch.Event
}

func newBenchSource(pods int) *benchSource {
	s := &benchSource{pods: make([]corev1.Pod, pods), events: make(chan watch.Event, 256)}
	for n := range s.pods {
		s.pods[n].Namespace, s.pods[n].Name = fmt.Sprintf("namespace-%d", n%50), fmt.Sprintf("some-deployment-7d4b9c6f5-%05d", n)
		s.pods[n].ResourceVersion = strconv.Itoa(n + 1)
	}
	return s
}

func (s *benchSource) IsWatchListSemanticsUnSupported() bool { return true }

func (s *benchSource) List(metav1.ListOptions) (apiruntime.Object, error) {
	list := &corev1.PodList{Items: s.pods}
	list.ResourceVersion = strconv.Itoa(len(s.pods))
	return list, nil
}

func (s *benchSource) Watch(metav1.ListOptions) (watch.Interface, error) {
	return benchWatch{s.events}, nil
}

type benchWatch struct{ events chan watch.Event }

func (w benchWatch) Stop()                          {}
func (w benchWatch) ResultChan() <-chan watch.Event { return w.events }

// benchRun starts an informer with a number of handlers, and waits until all of them have synced. Each handler calls called.
func benchRun(b *testing.B, informer cache.SharedIndexInformer, handlers int, called func()) (stop func()) {
	b.Helper()
	checks := []cache.DoneChecker{informer.HasSyncedChecker()}
	for range handlers {
		handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { called() },
			UpdateFunc: func(_, _ any) { called() },
			DeleteFunc: func(any) { called() },
		})
		must.Succeed(b, err)
		checks = append(checks, handle.HasSyncedChecker())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitFor(ctx, "", checks...) {
		b.Fatal("the handlers have not synced")
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// updates creates events before the benchmark starts, so that the benchmark does not measure their creation.
func updates(source *benchSource, count int) []watch.Event {
	events := make([]watch.Event, count)
	for n := range events {
		pod := source.pods[n%len(source.pods)].DeepCopy()
		pod.ResourceVersion = strconv.Itoa(len(source.pods) + n + 1)
		events[n] = watch.Event{Type: watch.Modified, Object: pod}
	}
	return events
}

// BenchmarkQueues compares our informer, with each queue, with the stock informer. It measures the time of updates with one handler, first
// alone, and then while two readers list 10,000 keys again and again with a pause. docs/informer.md has the ratios.
func BenchmarkQueues(b *testing.B) {
	for _, load := range []struct {
		name    string
		objects int
		readers int
	}{{"quiet", 1000, 0}, {"readers", 10_000, 2}} {
		b.Run(load.name, func(b *testing.B) {
			took := inTurns(b, stockAndOurs(b, load.objects, 1, load.readers))
			for n, candidate := range candidates[1:] {
				b.ReportMetric(float64(took[n+1])/float64(took[0]), "time:"+candidate.name+"/stock")
			}
		})
	}
}

// BenchmarkDispatch compares the time that 32 more handlers add to an update. This is the dispatch of 32 notifications.
func BenchmarkDispatch(b *testing.B) {
	few := stockAndOurs(b, 1000, 1, 0)
	took := inTurns(b, append(few, stockAndOurs(b, 1000, 33, 0)...))
	added := func(n int) float64 { return float64(took[len(few)+n] - took[n]) }
	for n, candidate := range candidates[1:] {
		b.ReportMetric(added(n+1)/added(0), "time:"+candidate.name+"/stock")
	}
}

// stockAndOurs returns the feeds of the stock informer, and of ours.
func stockAndOurs(b *testing.B, objects, handlers, readers int) (feeds []func(n int)) {
	b.Helper()
	for _, candidate := range candidates {
		source := newBenchSource(objects)
		informer := candidate.make(source)
		feed := feeder(b, source, informer, handlers)
		feeds = append(feeds, func(n int) {
			defer read(informer.GetIndexer(), readers)()
			feed(n)
		})
	}
	return feeds
}

// read starts a number of goroutines that list all keys again and again, with a pause, until stop.
func read(index cache.Store, readers int) (stop func()) {
	var running sync.WaitGroup
	var done atomic.Bool
	for range readers {
		running.Go(func() {
			for !done.Load() {
				index.ListKeys()
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() {
		done.Store(true)
		running.Wait()
	}
}

// inTurns sends b.N updates through each feed. The feeds take turns, so that the load of the machine affects all of them. It returns the
// elapsed time of each feed.
func inTurns(b *testing.B, feeds []func(n int)) (took []time.Duration) {
	b.Helper()
	const turn = 5000 // events
	took = make([]time.Duration, len(feeds))
	b.ResetTimer()
	for left := b.N; left > 0; left -= turn {
		for n, feed := range feeds {
			start := time.Now()
			feed(min(left, turn))
			took[n] += time.Since(start)
		}
	}
	return took
}

// feeder starts an informer. It returns a function that sends n updates through it, and waits until each handler has got all of them.
func feeder(b *testing.B, source *benchSource, informer cache.SharedIndexInformer, handlers int) func(n int) {
	b.Helper()
	var calls, expected atomic.Int64
	done := make(chan struct{}, 1)
	b.Cleanup(benchRun(b, informer, handlers, func() {
		if calls.Add(1) == expected.Load() {
			done <- struct{}{}
		}
	}))
	events, next := updates(source, 1<<16), 0 // a large number, so that samples differ
	return func(n int) {
		calls.Store(0)
		expected.Store(int64(n * handlers))
		for range n {
			source.events <- events[next%len(events)]
			next++
		}
		<-done
	}
}
