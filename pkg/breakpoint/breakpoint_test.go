// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package breakpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// calls is a queue that records its calls. It has no optional methods.
type calls struct{ all []string }

func (c *calls) record(format string, args ...any) error {
	c.all = append(c.all, fmt.Sprintf(format, args...))
	return nil
}

func (c *calls) Add(o any) error    { return c.record("add %s", o.(*corev1.ConfigMap).Name) }
func (c *calls) Update(o any) error { return c.record("update %s", o.(*corev1.ConfigMap).Name) }
func (c *calls) Delete(o any) error { return c.record("delete %s", o.(*corev1.ConfigMap).Name) }
func (c *calls) Resync() error      { return c.record("resync") }
func (c *calls) Replace(objs []any, version string) error {
	return c.record("replace %d %s", len(objs), version)
}

// more also has the optional methods.
type more struct{ calls }

func (m *more) Bookmark(version string) error { return m.record("bookmark %s", version) }

func (*more) Transformer() cache.TransformFunc { return func(o any) (any, error) { return o, nil } }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// write makes one call of each kind.
func write(t *testing.T, store cache.ReflectorStore) {
	t.Helper()
	bookmark := store.(cache.ReflectorBookmarkStore).Bookmark
	for _, err := range []error{
		store.Replace([]any{configMap("a"), configMap("b")}, "1"), store.Add(configMap("c")), store.Update(configMap("c")),
		store.Delete(configMap("c")), bookmark("2"), store.Resync(),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

var written = []string{"replace 2 1", "add c", "update c", "delete c", "bookmark 2", "resync"}

func TestAQueueKeepsCallsInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		behind := &more{}
		store := q.Wrap(behind)
		if store.(cache.TransformingStore).Transformer() == nil {
			t.Error("the transform is hidden")
		}
		write(t, store)
		if !slices.Equal(behind.all, written) || q.Held() != nil || q.Kept(10) != nil {
			t.Errorf("not held: the queue has %q", behind.all)
		}
		behind.all = nil
		q.Hold()
		q.Hold() // changes nothing
		write(t, store)
		if hold := q.Held(); len(behind.all) != 0 || hold.Kept != 5 || hold.Until.Sub(hold.Since) != Limit {
			t.Errorf("held: the queue has %q, and %+v", behind.all, hold)
		}
		var kept []string
		for _, k := range q.Kept(3) {
			kept = append(kept, fmt.Sprintf("%s %s", k.Verb, k.Object.(*corev1.ConfigMap).Name))
		}
		if want := []string{"Replaced a", "Replaced b", "Added c"}; !slices.Equal(kept, want) {
			t.Errorf("kept %q, want %q", kept, want)
		}
		time.Sleep(Limit)
		synctest.Wait()
		if !slices.Equal(behind.all, written) || q.Held() != nil || q.Kept(10) != nil {
			t.Errorf("after the limit: the queue has %q", behind.all)
		}
	})
}

// The limit of a hold does not end a later one.
func TestTheLimitOfAnEarlierHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		q.Hold()
		time.Sleep(Limit / 2)
		q.Release()
		q.Release() // changes nothing
		q.Hold()
		time.Sleep(Limit/2 + time.Second)
		synctest.Wait()
		if q.Held() == nil {
			t.Error("the second hold has ended with the limit of the first")
		}
		q.Release()
	})
}

func TestAFullQueueReleasesItself(t *testing.T) {
	var q Queue
	behind := &calls{}
	store := q.Wrap(behind)
	q.Hold()
	for range maxKept {
		_ = store.Resync()
	}
	if q.Held() != nil || len(behind.all) != maxKept {
		t.Errorf("%d calls have reached the queue", len(behind.all))
	}
}

var key = cache.NewObjectName("default", "sample")

func TestAHeldSyncKeepsItsWorkerAndItsKey(t *testing.T) {
	for name, test := range map[string]struct {
		delay   time.Duration
		release time.Duration // 0: Limit ends the hold
		want    []string      // when syncs began
	}{
		"until the release":                        {release: time.Minute, want: []string{"1m0s", "1m0s"}},
		"until the limit":                          {want: []string{"5m0s", "5m0s"}},
		"each for the delay":                       {delay: 3 * time.Second, want: []string{"3s", "6s"}},
		"until the release, before the delay ends": {delay: time.Hour, release: time.Second, want: []string{"1s", "1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var syncs []string
				var held Sync
				l := loop.New(loop.Config{
					Name: "test", Kind: "Thing", Observers: []loop.Observer{&held},
					Sync: func(context.Context, cache.ObjectName) (time.Duration, error) {
						syncs = append(syncs, time.Since(start).String())
						return 0, nil
					},
				})
				held.Hold(time.Hour) // The next hold replaces this one.
				held.Hold(test.delay)
				if hold := held.Held(); hold == nil || hold.Delay != test.delay.Seconds() || hold.Until.Sub(hold.Since) != Limit {
					t.Errorf("the hold is %+v", hold)
				}
				l.Add(key, trace.Cause{Verb: "Added"})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { l.Run(ctx, ctx, 1) })
				defer running.Wait()
				defer cancel()
				synctest.Wait()
				l.Add(key, trace.Cause{Verb: "Updated"}) // waits until the first sync of the key has ended
				if state := l.Snapshot(); len(state.Syncing) != 1 || len(state.Waiting) != 1 {
					t.Errorf("the queue is %+v, want one key that is synced, and one that waits", state)
				}
				if test.release > 0 {
					time.Sleep(test.release)
					held.Release()
				}
				time.Sleep(Limit)
				synctest.Wait()
				if held.Release(); !slices.Equal(syncs, test.want) || held.Held() != nil {
					t.Errorf("syncs at %v, want %v; held: %+v", syncs, test.want, held.Held())
				}
			})
		})
	}
}

// After concurrent holds, one release lets all workers continue.
func TestConcurrentHolds(t *testing.T) {
	for range 1000 {
		var s Sync
		var holders, workers sync.WaitGroup
		for range 4 {
			holders.Go(func() { s.Hold(0) })
			workers.Go(func() { s.wait(t.Context()) })
		}
		holders.Wait()
		s.Release()
		workers.Wait() // If a worker still waits, the test times out.
	}
}

// A sync that is cancelled while it is held does not begin.
func TestACancelledSyncDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held Sync
		held.Hold(0)
		defer held.Release()
		recorder := trace.NewRecorder(10)
		l := loop.New(loop.Config{
			Name: "test", Kind: "Thing", Observers: []loop.Observer{&held, loop.Traced(recorder)},
			Sync: func(context.Context, cache.ObjectName) (time.Duration, error) {
				t.Error("the sync began")
				return 0, nil
			},
		})
		l.Add(key, trace.Cause{Verb: "Added"})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		drain, cancelDrain := context.WithTimeout(ctx, time.Second)
		defer cancelDrain()
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx, drain, 1) })
		<-drain.Done()
		cancel()
		running.Wait()
		events := recorder.Events()
		if last := events[len(events)-1]; last.Stage != trace.Done || last.Err != context.DeadlineExceeded.Error() {
			t.Errorf("the last event is %q, want the error of the context", last)
		}
	})
}

// server returns a ListerWatcher whose WATCHes are sent to opened.
func server(opened *[]*watch.FakeWatcher) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &corev1.ConfigMapList{}, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFake()
			*opened = append(*opened, w)
			return w, nil
		},
	}
}

func TestAWireRefusesAndBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wire Wire
		var opened []*watch.FakeWatcher
		lw := cache.ToListerWatcherWithContext(wire.Wrap(server(&opened)))
		request := func(when string, want func(error) bool) {
			t.Helper()
			_, listErr := lw.ListWithContext(t.Context(), metav1.ListOptions{})
			_, watchErr := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
			if listErr != nil && !want(listErr) || !want(watchErr) {
				t.Errorf("%s: LIST has error %v, and WATCH %v", when, listErr, watchErr)
			}
		}
		none := func(err error) bool { return err == nil }
		held := func(err error) bool { return errors.Is(err, errHeld) }
		last := func() bool {
			synctest.Wait()
			return opened[len(opened)-1].IsStopped()
		}
		wire.Expire()
		request("expired before the first WATCH", apierrors.IsResourceExpired)
		wire.Drop() // no WATCH: nothing
		request("free", none)
		if last() {
			t.Error("the WATCH is broken")
		}
		wire.Hold()
		if !last() || wire.Held() == nil {
			t.Error("the hold has not broken the WATCH")
		}
		request("held", held)
		time.Sleep(Limit)
		synctest.Wait()
		request("after the limit", none)
		wire.Drop()
		time.Sleep(dropDelay - 1)
		if last() {
			t.Error("dropped too early")
		}
		time.Sleep(time.Nanosecond)
		if !last() {
			t.Error("not dropped")
		}
		request("dropped", none)
		wire.Expire()
		if !last() {
			t.Error("not broken")
		}
		request("expired", apierrors.IsResourceExpired)
		request("only once", none)
		wire.Hold()
		wire.Release()
		request("released", none)
		for _, w := range opened {
			w.Stop()
		}
	})
}

// body is the decoder of a WATCH: it fails once it is closed, as the body of an HTTP response does.
type body chan struct{}

func (b body) Decode() (watch.EventType, runtime.Object, error) {
	<-b
	return "", nil, errors.New("http2: response body closed")
}

func (b body) Close() { close(b) }

type asStatus struct{}

func (asStatus) AsObject(err error) runtime.Object { return &metav1.Status{Message: err.Error()} }

// A WATCH of client-go that is stopped while its events are read delivers an Error event by chance: the reflector would list.
func TestABrokenWatchEndsWithoutAnError(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var wire Wire
			lw := &cache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return watch.NewStreamWatcher(make(body), asStatus{}), nil
			}}
			w, err := cache.ToListerWatcherWithContext(wire.Wrap(lw)).WatchWithContext(t.Context(), metav1.ListOptions{})
			must.Succeed(t, err)
			wire.Drop()
			for event := range w.ResultChan() {
				t.Errorf("the WATCH ended with %v", event)
			}
		})
	}
}

// A WATCH that opens while the Wire is held was requested before: it ends at once.
func TestAWireBreaksALateWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wire Wire
		var opened []*watch.FakeWatcher
		slow := server(&opened)
		request := slow.WatchFuncWithContext
		slow.WatchFuncWithContext = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			wire.Hold()
			return request(ctx, options)
		}
		if _, err := cache.ToListerWatcherWithContext(wire.Wrap(slow)).WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !opened[0].IsStopped() {
			t.Error("it is open")
		}
		wire.Release()
	})
}
