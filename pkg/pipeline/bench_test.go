/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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

	"github.com/glassback/glassback/pkg/trace"
)

// The candidates: the stock informer, and ours with either queue, not traced and
// traced.
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

// benchSource is a LIST of pods and one WATCH that the benchmark writes to. There
// is nothing to decode: what remains is the informer.
type benchSource struct {
	pods   []corev1.Pod
	stream bool // the WATCH begins with the pods
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

// benchRun starts an informer with so many handlers, each of which calls called,
// and returns when all have synced.
func benchRun(b *testing.B, informer cache.SharedIndexInformer, handlers int, called func()) (stop func()) {
	b.Helper()
	checks := []cache.DoneChecker{informer.HasSyncedChecker()}
	for range handlers {
		handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { called() },
			UpdateFunc: func(_, _ any) { called() },
			DeleteFunc: func(any) { called() },
		})
		if err != nil {
			b.Fatal(err)
		}
		checks = append(checks, handle.HasSyncedChecker())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitFor(ctx, "", checks...) {
		b.Fatal("not synced")
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// BenchmarkUpdate is the steady state: 1000 objects, one update after the other,
// as fast as the informer reads them, each with a call of every handler.
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

// BenchmarkLatency is one update at a time: from the watch to the handler, with
// nothing else under way.
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

// updates are made beforehand, so that making them is not measured.
func updates(source *benchSource, count int) []watch.Event {
	events := make([]watch.Event, count)
	for n := range events {
		pod := source.pods[n%len(source.pods)].DeepCopy()
		pod.ResourceVersion = strconv.Itoa(len(source.pods) + n + 1)
		events[n] = watch.Event{Type: watch.Modified, Object: pod}
	}
	return events
}

// BenchmarkSync50k is the start: 50,000 objects until the handler has them all,
// from a LIST and from a streamed WATCH; and what is held per object afterwards,
// beside the objects.
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

// BenchmarkTracing measures the cost of tracing: updates through an informer with a trace and one
// without. It reports the ratios of the elapsed times and of the CPU times. The latter do not depend
// on other processes.
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

// BenchmarkQueues compares ours, with either queue, with the stock informer: the time of updates
// with one handler, and while two readers list 10,000 keys again and again, with a pause.
// docs/informer.md has the ratios.
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

// BenchmarkDispatch compares what 32 more handlers add to an update, which is the dispatch of 32
// notifications.
func BenchmarkDispatch(b *testing.B) {
	few := stockAndOurs(b, 1000, 1, 0)
	took, spent := inTurns(b, append(few, stockAndOurs(b, 1000, 33, 0)...))
	added := func(of []time.Duration, n int) float64 { return float64(of[len(few)+n] - of[n]) }
	for n, candidate := range candidates[1:len(few)] {
		b.ReportMetric(added(took, n+1)/added(took, 0), "time:"+candidate.name+"/stock")
		b.ReportMetric(added(spent, n+1)/added(spent, 0), "cpu:"+candidate.name+"/stock")
	}
}

// stockAndOurs returns feeds of the stock informer and of ours with either queue, not traced.
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

// read has so many goroutines list all keys again and again, with a pause, until stop.
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

// inTurns sends b.N updates through each, in turns, so that all have the machine as it is at the
// time. It returns how long each took, and what it used of the processors.
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

// processorTime is what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// feeder starts an informer, and returns a func that sends n updates through it and waits until
// each handler has had all.
func feeder(b *testing.B, source *benchSource, informer cache.SharedIndexInformer, handlers int) func(n int) {
	b.Helper()
	var calls, expected atomic.Int64
	done := make(chan struct{}, 1)
	b.Cleanup(benchRun(b, informer, handlers, func() {
		if calls.Add(1) == expected.Load() {
			done <- struct{}{}
		}
	}))
	events, next := updates(source, 1<<16), 0 // so many that a sample is not always the same few
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

// BenchmarkReaders is updates while others list the index.
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
