// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	listers "github.com/glassback/glassback/pkg/generated/listers/groupa/v1"
	"github.com/glassback/glassback/pkg/must"
)

// These tests hold claims of docs/informer.md against client-go's own informer and workqueue.

// later is enough for everything that does not wait for a timer.
const later = time.Minute

// queries passes on the requests of an informer, and records the query of each of them.
type queries struct {
	fakeapi.Source

	mu     sync.Mutex
	gone   int    // this many of the next requests get 410 Gone
	missed func() // makes a change before the first of them, while no WATCH is open
	made   strings.Builder
}

func (q *queries) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := q.record("LIST ", options); err != nil {
		return nil, err
	}
	return q.Source.ListWithContext(ctx, options)
}

func (q *queries) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := q.record("WATCH", options); err != nil {
		return nil, err
	}
	return q.Source.WatchWithContext(ctx, options)
}

func (q *queries) record(verb string, options metav1.ListOptions) error {
	options.TimeoutSeconds, options.AllowWatchBookmarks = nil, false // The first is random. Every WATCH has both.
	query, err := scheme.ParameterCodec.EncodeParameters(&options, corev1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	fmt.Fprintf(&q.made, "%s %s", verb, cmp.Or(query.Encode(), "without parameters"))
	if q.gone > 0 {
		q.missed()
		q.missed = func() {}
		q.gone--
		q.made.WriteString("  410 Gone\n")
		return apierrors.NewResourceExpired("too old resource version")
	}
	q.made.WriteString("\n")
	return nil
}

// take returns the requests since the last call.
func (q *queries) take() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	made := q.made.String()
	q.made.Reset()
	return made
}

// calls records the calls of a handler. Their order between objects means nothing.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fmt.Sprintf(format, args...))
}

func (c *calls) OnAdd(obj any, initial bool) { c.add("add %s, initial %t", version(obj), initial) }
func (c *calls) OnUpdate(old, obj any)       { c.add("update %s → %s", version(old), version(obj)) }
func (c *calls) OnDelete(obj any)            { c.add("delete, %T", obj) }

func (c *calls) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.all)
	if !slices.Equal(c.all, want) {
		t.Errorf("%s: the calls are %q, want %q", when, c.all, want)
	}
	c.all = nil
}

func version(obj any) string { return obj.(metav1.Object).GetResourceVersion() }

// stock lets client-go's own informer follow the ApiExampleAs of a new server that has one, jimmy, at resourceVersion 101.
func stock(t *testing.T, resync time.Duration, do func(*server, *queries, cache.SharedIndexInformer)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.greet("jimmy", "Jimmy")
		asked := &queries{Source: fakeapi.Source{Server: s.Server, Name: examples, Example: &v1.ApiExampleA{}}}
		informer := cache.NewSharedIndexInformer(asked, &v1.ApiExampleA{}, resync, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"firstName":          func(obj any) ([]string, error) { return []string{obj.(*v1.ApiExampleA).Spec.FirstName}, nil },
		})
		stop := start(informer)
		do(s, asked, informer)
		stop()
	})
}

// start starts an informer, and lets it fill its index. stop ends it.
func start(informer cache.SharedIndexInformer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	time.Sleep(later)
	return func() { cancel(); running.Wait() }
}

func handle(t *testing.T, informer cache.SharedIndexInformer) *calls {
	t.Helper()
	c := &calls{}
	if _, err := informer.AddEventHandler(c); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	return c
}

// lose breaks the WATCH. The next requests get 410 Gone, as many as gone says.
func (q *queries) lose(gone int, note string) {
	q.mu.Lock()
	q.gone = gone
	q.missed = func() {
		fakeapi.Edit(q.Server, named("jimmy"), "kubectl", func(e *v1.ApiExampleA) { e.Spec.FirstName += "!" })
	}
	fmt.Fprintf(&q.made, "# %s\n", note)
	q.mu.Unlock()
	q.Server.Break(examples)
	time.Sleep(later)
}

// TestRequestsOfAReflector writes down what a reflector requests at the start, after a broken connection, and after 410 Gone.
func TestRequestsOfAReflector(t *testing.T) {
	for name, lists := range map[string]bool{"requests": false, "requests-list": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.Before = nil            // It refuses a LIST.
				s.greet("jimmy", "Jimmy") // 101
				q := &queries{Source: fakeapi.Source{Server: s.Server, Name: examples, Example: &v1.ApiExampleA{}, ListFirst: lists}}
				q.made.WriteString("# The start:\n")
				informer := cache.NewSharedIndexInformer(q, &v1.ApiExampleA{}, 0, cache.Indexers{})
				stop := start(informer)
				s.greet("jimmy", "James") // 102
				time.Sleep(later)
				q.lose(0, "The connection breaks:")
				q.lose(1, "It breaks and misses the change to 103. The API server no longer has the events since 102:")
				q.lose(2, "It breaks and misses the change to 104. The API server rejects the relist as well:")
				stop()
				golden(t, filepath.Join("testdata", name+".trace"), q.made.String())
			})
		})
	}
}

func TestAResyncSendsNoRequest(t *testing.T) {
	stock(t, 10*time.Minute, func(_ *server, asked *queries, informer cache.SharedIndexInformer) {
		c := handle(t, informer)
		c.expect(t, "start", "add 101, initial true")
		asked.take()
		time.Sleep(35 * time.Minute) // The first check is ten minutes after the start, and the handler is a minute younger.
		c.expect(t, "two resyncs", "update 101 → 101", "update 101 → 101")
		if made := asked.take(); made != "" {
			t.Errorf("a resync sends requests:\n%s", made)
		}
	})
}

func TestAnAdditionIsNotACreation(t *testing.T) {
	stock(t, 0, func(s *server, _ *queries, informer cache.SharedIndexInformer) {
		c := handle(t, informer) // The informer has run for a minute.
		c.expect(t, "an object that has existed for a minute", "add 101, initial true")
		s.greet("ada", "Ada") // 102
		time.Sleep(time.Second)
		c.expect(t, "a new object", "add 102, initial false")
		s.lose(examples)
		s.remove(examples, "ada")
		s.greet("ada", "Ada") // 104
		s.Compact()
		s.find(examples)
		time.Sleep(later)
		c.expect(t, "deleted and created while the WATCH was away", "update 101 → 101", "update 102 → 104")
		s.lose(examples)
		s.remove(examples, "ada")
		s.Compact()
		s.find(examples)
		time.Sleep(later)
		c.expect(t, "deleted while the WATCH was away", "delete, cache.DeletedFinalStateUnknown", "update 101 → 101")
	})
}

// TestAfter410Gone makes each kind of change while no WATCH is open.
func TestAfter410Gone(t *testing.T) {
	stock(t, 0, func(s *server, _ *queries, informer cache.SharedIndexInformer) {
		for _, name := range []string{"edited", "deleted", "again"} {
			s.greet(name, "Ada") // 102 to 104
		}
		c := handle(t, informer)
		c.expect(t, "start", "add 101, initial true", "add 102, initial false", "add 103, initial false", "add 104, initial false")
		s.lose(examples)
		s.greet("edited", "Bob")
		s.greet("edited", "Eve") // 106
		s.remove(examples, "deleted")
		s.remove(examples, "again")
		s.greet("again", "Ada") // 109
		s.greet("created", "Ada")
		s.greet("short", "Ada")
		s.remove(examples, "short")
		s.Compact()
		time.Sleep(later)
		c.expect(t, "while no WATCH is open")
		if !informer.HasSynced() {
			t.Error("HasSynced is false while the cache is stale")
		}
		s.find(examples)
		time.Sleep(later)
		c.expect(t, "after 410 Gone", "add 110, initial false", "delete, cache.DeletedFinalStateUnknown",
			"update 101 → 101", "update 102 → 106", "update 104 → 109")
	})
}

func TestHandlersShareOneCache(t *testing.T) {
	if !features.FeatureGates().Enabled(features.InOrderInformers) {
		t.Error("the stock informer has a DeltaFIFO")
	}
	stock(t, 0, func(s *server, asked *queries, informer cache.SharedIndexInformer) {
		one, two := handle(t, informer), handle(t, informer)
		s.greet("jimmy", "James") // 102
		time.Sleep(time.Second)
		for _, c := range []*calls{one, two} {
			c.expect(t, "both handlers", "add 101, initial true", "update 101 → 102")
		}
		if made := asked.take(); strings.Count(made, "\n") != 1 {
			t.Errorf("both handlers cause the requests\n%s", made)
		}
		index := informer.GetIndexer()
		if got := index.ListIndexFuncValues("firstName"); !slices.Equal(got, []string{"James"}) {
			t.Errorf("the index has %q, want James", got)
		}
		if got := index.LastStoreSyncResourceVersion(); got != "102" {
			t.Errorf("the index is at %q, want 102", got)
		}

		lister := listers.NewApiExampleALister(index).ApiExampleAs("default")
		first, _ := lister.Get("jimmy")
		second, _ := lister.Get("jimmy")
		if first != second {
			t.Error("a lister returns a copy")
		}
	})
	factory := externalversions.NewSharedInformerFactory(&glassbackfake.Clientset{}, 0)
	informer := factory.Groupa().V1().ApiExampleAs().Informer
	if informer().GetIndexer() != informer().GetIndexer() {
		t.Error("a factory makes two informers for one type")
	}
}

func TestTheThreeLayersOfAWorkqueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, later)
		queue := workqueue.NewTypedRateLimitingQueue(limiter)
		defer queue.ShutDown()
		expect := func(when string, waiting, failures int) {
			t.Helper()
			synctest.Wait()
			if queue.Len() != waiting || queue.NumRequeues("a") != failures {
				t.Errorf("%s: %d keys wait after %d failures, want %d and %d", when, queue.Len(), queue.NumRequeues("a"), waiting, failures)
			}
		}

		queue.Add("a")
		queue.Add("a")
		expect("added twice", 1, 0)
		queue.Forget("a")
		expect("forgotten before a worker has it", 1, 0)
		key, _ := queue.Get()
		expect("a worker has it", 0, 0)
		queue.Add(key)
		expect("added while a worker has it", 0, 0)
		queue.Done(key)
		expect("done", 1, 0)

		key, _ = queue.Get()
		queue.AddRateLimited(key)
		queue.Done(key)
		expect("failed", 0, 1)
		queue.Forget(key)
		expect("forgotten, but the timer stays", 0, 0)
		time.Sleep(time.Second)
		expect("the time has come", 1, 0)

		key, _ = queue.Get()
		queue.AddAfter(key, time.Hour)
		queue.AddAfter(key, later)
		queue.Done(key)
		time.Sleep(later)
		expect("the earlier of two times", 1, 0)
		key, _ = queue.Get()
		queue.Done(key)
		time.Sleep(time.Hour)
		expect("the later one is gone", 0, 0)
	})
}

// at is the state of an object at a resourceVersion.
func at(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

// TestQueues puts a first list into both queues, empties them, and then does the same with a relist and what follows. There is no other
// goroutine: so the test decides which deltas wait together.
func TestQueues(t *testing.T) {
	known := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
	delta := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KnownObjects: known, EmitDeltaTypeReplaced: true})
	real := cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{AtomicEvents: true, UnlockWhileProcessing: true, EmitDeltaTypeBookmark: true})
	queues := []cache.Queue{delta, real}
	for _, queue := range queues {
		must.Succeed(t, queue.Replace([]any{at("a", "1"), at("c", "2")}, "2"))
		must.Succeed(t, queue.Update(at("c", "3"))) // It joins the first list in a DeltaFIFO.
	}
	ignore := func(any, bool) error { return nil }
	for range 2 {
		_, err := delta.Pop(ignore)
		must.Succeed(t, err)
		must.Succeed(t, real.PopBatch(func([]cache.Delta, bool) error { return nil }, ignore))
	}
	for _, obj := range []any{at("a", "1"), at("c", "3")} {
		must.Succeed(t, known.Add(obj))
	}
	for _, queue := range queues {
		must.Succeed(t, queue.Replace([]any{at("a", "4"), at("b", "5")}, "5"))
		must.Succeed(t, queue.Update(at("a", "6")))
		must.Succeed(t, queue.Add(at("d", "7")))
		must.Succeed(t, queue.Update(at("a", "8")))
		if marked, ok := queue.(cache.ReflectorBookmarkStore); ok {
			must.Succeed(t, marked.Bookmark("9"))
		}
		queue.Close()
	}

	var text strings.Builder
	text.WriteString("# a 1 is the object a at resourceVersion 1. The index holds a 1 and c 3. After a broken WATCH, the reflector calls:\n" +
		"Replace a 4, b 5 (the list: 5)\nUpdate  a 6\nAdd     d 7\nUpdate  a 8\nBookmark 9\n\n# The pop loop gets from a DeltaFIFO:\n")
	pop := func(popped any, initial bool) error {
		if initial {
			t.Error("a relist counts as the first list")
		}
		fmt.Fprintf(&text, "Pop      %s\n", strings.Join(deltas(popped.(cache.Deltas)), ", "))
		return nil
	}
	for err := error(nil); err == nil; {
		_, err = delta.Pop(pop)
	}
	text.WriteString("\n# The pop loop gets from a RealFIFO:\n")
	batch := func(popped []cache.Delta, _ bool) error {
		fmt.Fprintf(&text, "PopBatch %s\n", strings.Join(deltas(popped), ", "))
		return nil
	}
	for err := error(nil); err == nil; {
		err = real.PopBatch(batch, pop)
	}
	golden(t, filepath.Join("testdata", "queues.trace"), text.String())
}

// deltas renders what was popped together.
func deltas(popped []cache.Delta) (texts []string) {
	for _, d := range popped {
		text := string(d.Type)
		switch obj := d.Object.(type) {
		case *corev1.ConfigMap:
			text += " " + obj.Name + " " + obj.ResourceVersion
		case cache.DeletedFinalStateUnknown:
			last := obj.Obj.(*corev1.ConfigMap)
			text += " " + last.Name + " " + last.ResourceVersion + " (tombstone)"
		case cache.ReplacedAllInfo:
			for n, listed := range obj.Objects {
				text += []string{" ", ", "}[min(n, 1)] + listed.(*corev1.ConfigMap).Name + " " + listed.(*corev1.ConfigMap).ResourceVersion
			}
			text += " (the list: " + obj.ResourceVersion + ")"
		case cache.BookmarkInfo:
			text += " " + obj.ResourceVersion
		}
		texts = append(texts, text)
	}
	return texts
}
