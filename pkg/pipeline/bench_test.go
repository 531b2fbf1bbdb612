// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// candidates are the stock informer, and our informer with each queue, without and with a trace.
var candidates = []struct {
	name string
	make func(lw cache.ListerWatcher) cache.SharedIndexInformer
}{
	{"stock", func(lw cache.ListerWatcher) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, benchIndexers())
	}},
	{"delta", func(lw cache.ListerWatcher) cache.SharedIndexInformer {
		return New(Config{ListerWatcher: lw, Object: &corev1.Pod{}, Resource: "pods", Queue: DeltaFIFO, Indexers: benchIndexers()})
	}},
	{"real", func(lw cache.ListerWatcher) cache.SharedIndexInformer {
		return New(Config{ListerWatcher: lw, Object: &corev1.Pod{}, Resource: "pods", Queue: RealFIFO, Indexers: benchIndexers()})
	}},
	{"delta-traced", func(lw cache.ListerWatcher) cache.SharedIndexInformer {
		return New(Config{
			ListerWatcher: lw, Object: &corev1.Pod{}, Resource: "pods", Queue: DeltaFIFO, Indexers: benchIndexers(), Trace: trace.NewRecorder(4096),
		})
	}},
	{"real-traced", func(lw cache.ListerWatcher) cache.SharedIndexInformer {
		return New(Config{
			ListerWatcher: lw, Object: &corev1.Pod{}, Resource: "pods", Queue: RealFIFO, Indexers: benchIndexers(), Trace: trace.NewRecorder(4096),
		})
	}},
}

func benchIndexers() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

// benchSource is a LIST of Pods and one WATCH to which the benchmark writes. Nothing is decoded, so that a benchmark measures only the
// informer.
type benchSource struct {
	pods   []corev1.Pod
	stream bool // whether the WATCH begins with the Pods
	events chan watch.Event
}

func newBenchSource(pods int, stream bool) *benchSource {
	s := &benchSource{pods: make([]corev1.Pod, pods), stream: stream, events: make(chan watch.Event, 256)}
	for n := range s.pods {
		s.pods[n].Namespace, s.pods[n].Name = fmt.Sprintf("namespace-%d", n%50), fmt.Sprintf("some-deployment-7d4b9c6f5-%05d", n)
		s.pods[n].ResourceVersion = strconv.Itoa(n + 1)
	}
	return s
}

func (s *benchSource) IsWatchListSemanticsUnSupported() bool { return !s.stream }

func (s *benchSource) List(metav1.ListOptions) (apiruntime.Object, error) {
	list := &corev1.PodList{Items: s.pods}
	list.ResourceVersion = strconv.Itoa(len(s.pods))
	return list, nil
}

func (s *benchSource) Watch(options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		go func() {
			for n := range s.pods {
				s.events <- watch.Event{Type: watch.Added, Object: &s.pods[n]}
			}
			end := &corev1.Pod{}
			end.ResourceVersion = strconv.Itoa(len(s.pods))
			end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			s.events <- watch.Event{Type: watch.Bookmark, Object: end}
		}()
	}
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

// BenchmarkUpdate measures the steady state. The informer has 1000 objects and reads updates as fast as it can. Each update calls every
// handler.
func BenchmarkUpdate(b *testing.B) {
	for _, handlers := range []int{1, 4} {
		for _, candidate := range candidates {
			b.Run(fmt.Sprintf("handlers=%d/%s", handlers, candidate.name), func(b *testing.B) {
				source := newBenchSource(1000, false)
				var calls, expected atomic.Int64
				expected.Store(-1)
				done := make(chan struct{}, 1)
				stop := benchRun(b, candidate.make(source), handlers, func() {
					if calls.Add(1) == expected.Load() {
						done <- struct{}{}
					}
				})
				defer stop()
				events := updates(source, 4096)
				calls.Store(0)
				expected.Store(int64(b.N * handlers))
				b.ReportAllocs()
				b.ResetTimer()
				for n := range b.N {
					source.events <- events[n%len(events)]
				}
				<-done
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// BenchmarkLatency measures the time of one update from the watch to the handler. Only one update runs at a time.
func BenchmarkLatency(b *testing.B) {
	for _, candidate := range candidates {
		b.Run(candidate.name, func(b *testing.B) {
			source := newBenchSource(1000, false)
			calls := make(chan struct{}, 2000)
			stop := benchRun(b, candidate.make(source), 1, func() { calls <- struct{}{} })
			defer stop()
			for range 1000 {
				<-calls
			}
			events := updates(source, 4096)
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				source.events <- events[n%len(events)]
				<-calls
			}
		})
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

// BenchmarkSync50k measures the start: the time until the handler has got 50,000 objects, from a LIST and from a streamed WATCH. It also
// measures the memory per object afterwards, without the objects themselves.
func BenchmarkSync50k(b *testing.B) {
	const objects = 50_000
	for _, stream := range []bool{false, true} {
		for _, candidate := range candidates {
			b.Run(fmt.Sprintf("stream=%t/%s", stream, candidate.name), func(b *testing.B) {
				source := newBenchSource(objects, stream)
				b.ReportAllocs()
				var held float64
				for range b.N {
					b.StopTimer()
					before := heapInUse()
					informer := candidate.make(source)
					b.StartTimer()
					stop := benchRun(b, informer, 1, func() {})
					b.StopTimer()
					held += float64(heapInUse()-before) / objects
					stop()
					runtime.KeepAlive(informer)
					b.StartTimer()
				}
				b.ReportMetric(held/float64(b.N), "heldB/object")
			})
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkTracing measures the cost of tracing. It sends updates through an informer with a trace and through one without. It reports the
// ratios of the elapsed times and of the CPU times. Other processes do not affect the CPU times.
func BenchmarkTracing(b *testing.B) {
	for _, queue := range []Queue{DeltaFIFO, RealFIFO} {
		b.Run(queue.String(), func(b *testing.B) {
			var feeds []func(n int)
			for _, recorder := range []*trace.Recorder{nil, trace.NewRecorder(8192)} {
				source := newBenchSource(1000, false)
				informer := New(Config{
					ListerWatcher: source, Object: &corev1.Pod{}, Resource: "pods", Queue: queue, Indexers: benchIndexers(), Trace: recorder,
				})
				feeds = append(feeds, feeder(b, source, informer, 1))
			}
			took, spent := inTurns(b, feeds)
			b.ReportMetric(float64(took[1])/float64(took[0]), "time:traced/not")
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "cpu:traced/not")
		})
	}
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
			feeds := stockAndOurs(b, load.objects, 1, load.readers)
			took, spent := inTurns(b, feeds)
			for n, candidate := range candidates[1:len(feeds)] {
				b.ReportMetric(float64(took[n+1])/float64(took[0]), "time:"+candidate.name+"/stock")
				b.ReportMetric(float64(spent[n+1])/float64(spent[0]), "cpu:"+candidate.name+"/stock")
			}
		})
	}
}

// BenchmarkDispatch compares the time that 32 more handlers add to an update. This is the dispatch of 32 notifications.
func BenchmarkDispatch(b *testing.B) {
	few := stockAndOurs(b, 1000, 1, 0)
	took, spent := inTurns(b, append(few, stockAndOurs(b, 1000, 33, 0)...))
	added := func(of []time.Duration, n int) float64 { return float64(of[len(few)+n] - of[n]) }
	for n, candidate := range candidates[1:len(few)] {
		b.ReportMetric(added(took, n+1)/added(took, 0), "time:"+candidate.name+"/stock")
		b.ReportMetric(added(spent, n+1)/added(spent, 0), "cpu:"+candidate.name+"/stock")
	}
}

// stockAndOurs returns the feeds of the stock informer, and of our informer with each queue, without a trace.
func stockAndOurs(b *testing.B, objects, handlers, readers int) (feeds []func(n int)) {
	b.Helper()
	for _, candidate := range candidates[:3] {
		source := newBenchSource(objects, false)
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
// elapsed time and the CPU time of each feed.
func inTurns(b *testing.B, feeds []func(n int)) (took, spent []time.Duration) {
	b.Helper()
	const turn = 5000 // events
	took, spent = make([]time.Duration, len(feeds)), make([]time.Duration, len(feeds))
	b.ResetTimer()
	for left := b.N; left > 0; left -= turn {
		for n, feed := range feeds {
			start, used := time.Now(), processorTime(b)
			feed(min(left, turn))
			took[n] += time.Since(start)
			spent[n] += processorTime(b) - used
		}
	}
	return took, spent
}

// processorTime returns the CPU time of this process so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must.Succeed(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
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

// BenchmarkReaders measures updates while readers list the index.
func BenchmarkReaders(b *testing.B) {
	for _, candidate := range candidates {
		b.Run(candidate.name, func(b *testing.B) {
			source := newBenchSource(10_000, false)
			var calls, expected atomic.Int64
			expected.Store(-1)
			done := make(chan struct{}, 1)
			informer := candidate.make(source)
			stop := benchRun(b, informer, 1, func() {
				if calls.Add(1) == expected.Load() {
					done <- struct{}{}
				}
			})
			defer stop()
			ctx, cancel := context.WithCancel(context.Background())
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for ctx.Err() == nil {
						_, _ = informer.GetIndexer().ByIndex(cache.NamespaceIndex, "namespace-7")
						time.Sleep(50 * time.Microsecond)
					}
				})
			}
			events := updates(source, 4096)
			calls.Store(0)
			expected.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				source.events <- events[n%len(events)]
			}
			<-done
			b.StopTimer()
			cancel()
			readers.Wait()
		})
	}
}
