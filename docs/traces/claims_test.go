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
	"k8s.io/apimachinery/pkg/util/resourceversion"
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

const (
	initialWatch = "WATCH that begins with all objects"
	later        = time.Minute // enough for everything that does not wait for a timer
)

// requests passes on what an informer requests, and records each request that succeeded.
type requests struct {
	fakeapi.Source

	mu   sync.Mutex
	made []string
}

func (r *requests) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	r.record("LIST")
	return r.Source.ListWithContext(ctx, options)
}

func (r *requests) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := r.Source.WatchWithContext(ctx, options)
	switch {
	case err != nil:
	case options.SendInitialEvents != nil:
		r.record(initialWatch)
	default:
		r.record("WATCH from " + options.ResourceVersion)
	}
	return w, err
}

func (r *requests) record(request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = append(r.made, request)
}

// expect compares the requests since the last call.
func (r *requests) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.made, want) {
		t.Errorf("%s: the requests are %q, want %q", when, r.made, want)
	}
	r.made = nil
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
func stock(t *testing.T, resync time.Duration, do func(*server, *requests, cache.SharedIndexInformer)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.greet("jimmy", "Jimmy")
		asked := &requests{Source: fakeapi.Source{Server: s.Server, Name: examples, Example: &v1.ApiExampleA{}}}
		informer := cache.NewSharedIndexInformer(asked, &v1.ApiExampleA{}, resync, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"firstName":          func(obj any) ([]string, error) { return []string{obj.(*v1.ApiExampleA).Spec.FirstName}, nil },
		})
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		time.Sleep(later)
		do(s, asked, informer)
		cancel()
		running.Wait()
	})
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

func TestAReconnectSendsNoList(t *testing.T) {
	stock(t, 0, func(s *server, asked *requests, _ cache.SharedIndexInformer) {
		asked.expect(t, "start", initialWatch)
		s.lose(examples)
		s.greet("jimmy", "James") // 102
		s.find(examples)
		time.Sleep(later)
		asked.expect(t, "after a broken WATCH", "WATCH from 101")
		s.lose(examples)
		s.greet("jimmy", "Jim") // 103
		s.Compact()
		s.find(examples)
		time.Sleep(later)
		asked.expect(t, "after 410 Gone", initialWatch)
	})
}

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
				ctx, cancel := context.WithCancel(context.Background())
				var running sync.WaitGroup
				running.Go(func() { informer.RunWithContext(ctx) })
				time.Sleep(later)
				s.greet("jimmy", "James") // 102
				time.Sleep(later)
				q.lose(0, "The connection breaks:")
				q.lose(1, "It breaks and misses the change to 103. The API server no longer has the events since 102:")
				q.lose(2, "It breaks and misses the change to 104. The API server rejects the relist as well:")
				cancel()
				running.Wait()
				golden(t, filepath.Join("testdata", name+".trace"), q.made.String())
			})
		})
	}
}

func TestAResyncSendsNoRequest(t *testing.T) {
	stock(t, 10*time.Minute, func(_ *server, asked *requests, informer cache.SharedIndexInformer) {
		asked.expect(t, "start", initialWatch)
		c := handle(t, informer)
		c.expect(t, "start", "add 101, initial true")
		time.Sleep(35 * time.Minute) // The first check is ten minutes after the start, and the handler is a minute younger.
		c.expect(t, "two resyncs", "update 101 → 101", "update 101 → 101")
		asked.expect(t, "two resyncs")
	})
}

func TestAnAdditionIsNotACreation(t *testing.T) {
	stock(t, 0, func(s *server, _ *requests, informer cache.SharedIndexInformer) {
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
	stock(t, 0, func(s *server, _ *requests, informer cache.SharedIndexInformer) {
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
	stock(t, 0, func(s *server, asked *requests, informer cache.SharedIndexInformer) {
		one, two := handle(t, informer), handle(t, informer)
		s.greet("jimmy", "James") // 102
		time.Sleep(time.Second)
		for _, c := range []*calls{one, two} {
			c.expect(t, "both handlers", "add 101, initial true", "update 101 → 102")
		}
		asked.expect(t, "for both handlers", initialWatch)

		lister := listers.NewApiExampleALister(informer.GetIndexer()).ApiExampleAs("default")
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

func TestAnIndexFollowsTheObjects(t *testing.T) {
	stock(t, 0, func(s *server, _ *requests, informer cache.SharedIndexInformer) {
		count := func(firstName string) int {
			found, err := informer.GetIndexer().ByIndex("firstName", firstName)
			must.Succeed(t, err)
			return len(found)
		}
		if count("Jimmy") != 1 || count("James") != 0 {
			t.Error("the index does not hold Jimmy alone")
		}
		s.greet("jimmy", "James")
		time.Sleep(time.Second)
		if count("Jimmy") != 0 || count("James") != 1 {
			t.Error("the index does not follow the change to James")
		}
	})
}

func TestAStockInformerKnowsItsResourceVersion(t *testing.T) {
	if !features.FeatureGates().Enabled(features.InOrderInformers) {
		t.Error("the stock informer has a DeltaFIFO")
	}
	stock(t, 0, func(s *server, _ *requests, informer cache.SharedIndexInformer) {
		s.greet("ada", "Ada") // 102
		time.Sleep(time.Second)
		if got := informer.GetStore().LastStoreSyncResourceVersion(); got != "102" {
			t.Errorf("the index is at %q, want 102", got)
		}
	})
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

func TestResourceVersionsAreComparedAsNumbers(t *testing.T) {
	nine, ten := "9", "10"
	if nine < ten {
		t.Error("as strings, 9 is below 10")
	}
	if order, err := resourceversion.CompareResourceVersion(nine, ten); order != -1 || err != nil {
		t.Errorf("9 compared with 10 is %d, %v", order, err)
	}
	for _, bad := range []string{"", "0", "1.5"} {
		if _, err := resourceversion.CompareResourceVersion(bad, ten); err == nil {
			t.Errorf("%q can be compared", bad)
		}
	}
}
