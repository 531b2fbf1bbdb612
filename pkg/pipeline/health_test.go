// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/must"
)

var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no role grants it"))

// expectHealth waits until all goroutines are idle, and checks the health. failingFor is the time since the first failure without a success
// after it; 0 if the informer is not failing.
func expectHealth(t *testing.T, when string, informer *Informer, synced, watching bool, failingFor time.Duration, err error) {
	t.Helper()
	synctest.Wait()
	got := informer.Health()
	if got.Synced != synced || got.Watching != watching {
		t.Errorf("%s: synced %t and watching %t, want %t and %t", when, got.Synced, got.Watching, synced, watching)
	}
	if failing := !got.Failing.IsZero(); failing != (err != nil) || failing && time.Since(got.Failing) != failingFor {
		t.Errorf("%s: failing since %v, want for %s with the error %v", when, got.Failing, failingFor, err)
	}
	if !errors.Is(got.Err, err) {
		t.Errorf("%s: failing because of %v, want %v", when, got.Err, err)
	}
}

func TestHealthFollowsTheAPIServer(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI()
		informer := newTestInformer(api, queue, 0)
		expectHealth(t, "before the start", informer, false, false, 0, nil)
		api.offline(true)
		stop := run(t, informer)
		expectHealth(t, "the server is down", informer, false, false, 0, syscall.ECONNREFUSED)
		time.Sleep(10 * time.Second)
		expectHealth(t, "ten seconds after the first failure", informer, false, false, 10*time.Second, syscall.ECONNREFUSED)
		if failures := informer.Health().Failures; failures < 3 {
			t.Errorf("%d failures in ten seconds, want at least 3", failures)
		}
		api.offline(false)
		time.Sleep(time.Minute)
		expectHealth(t, "the server is up", informer, true, true, 0, nil)

		before := informer.Health().Failures
		for range 5 {
			time.Sleep(5 * time.Minute)
			api.closeWatches()
			expectHealth(t, "after a watch has ended normally", informer, true, true, 0, nil)
		}
		if after := informer.Health().Failures; after != before {
			t.Errorf("watches that end normally have counted as %d failures", after-before)
		}

		api.expireWatches()
		expectHealth(t, "after the server has compacted the resourceVersion", informer, true, false, 0, errBroken)
		time.Sleep(time.Minute)
		expectHealth(t, "after the relist", informer, true, true, 0, nil)
		if after := informer.Health().Failures; after != before+1 {
			t.Errorf("a watch that broke has counted as %d failures", after-before)
		}

		api.offline(true)
		time.Sleep(time.Hour)
		expectHealth(t, "the server is down again", informer, true, false, time.Hour, syscall.ECONNREFUSED)
		api.offline(false)
		time.Sleep(time.Minute)
		failures := informer.Health().Failures
		stop()
		expectHealth(t, "stopped", informer, true, false, 0, nil)
		if n := informer.Health().Failures; n != failures {
			t.Error("the end of the context has counted as a failure")
		}
	})
}

// TestHealthOfRequestsThatFail checks the health while requests always fail. With LIST and without WATCH, the cache becomes stale.
func TestHealthOfRequestsThatFail(t *testing.T) {
	many := slices.Repeat([]error{forbidden}, 1000)
	for name, test := range map[string]struct {
		streaming      bool
		lists, watches []error
		synced         bool
		want           error
	}{
		"a server that streams the first list":               {streaming: true, synced: true},
		"no permission to watch: only the list succeeds":     {watches: many, synced: true, want: forbidden},
		"no permission to watch: a streamed list fails, too": {streaming: true, watches: many, synced: true, want: forbidden},
		"no permission to list: nothing succeeds":            {lists: many, want: forbidden},
		"no permission to list: a streamed list succeeds":    {streaming: true, lists: many, synced: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newFakeAPI()
				informer := New(Config{ListerWatcher: api.newClient(test.streaming), Object: &corev1.ConfigMap{}})
				api.fail(test.lists, test.watches)
				run(t, informer)
				time.Sleep(time.Hour)
				expectHealth(t, "after an hour", informer, test.synced, test.want == nil, time.Hour, test.want)
				if n := informer.Health().Failures; (n == 0) != (test.want == nil) {
					t.Errorf("the number of failures is %d", n)
				}
			})
		})
	}
}

// TestALostBookmarkLeadsToALIST: some servers and proxies lose the bookmark that ends the initial events of a WATCH.
func TestALostBookmarkLeadsToALIST(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFakeAPI("a/1", "a/2")
		client := api.newClient(true)
		client.loses = true
		informer := New(Config{ListerWatcher: client, Object: &corev1.ConfigMap{}})
		run(t, informer)
		time.Sleep(bookmarkPatience - time.Second)
		expectHealth(t, "while the bookmark may come", informer, false, true, 0, nil)
		time.Sleep(2 * time.Second)
		expectHealth(t, "later", informer, true, true, 0, nil)
		api.expireWatches()
		time.Sleep(time.Minute)
		expectHealth(t, "after the relist", informer, true, true, 0, nil)
		if client.lists != 2 || client.streams != 1 || informer.Failures() != 2 {
			t.Errorf("%d LISTs, %d streams and %d failures, want 2, 1, and one failure for the bookmark and one for the watch",
				client.lists, client.streams, informer.Failures())
		}
	})
}

// TestALostBookmarkOfABusyResource has changes come while the bookmark is awaited: they look like initial events.
func TestALostBookmarkOfABusyResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFakeAPI("a/1")
		client := api.newClient(true)
		client.loses = true
		informer := New(Config{ListerWatcher: client, Object: &corev1.ConfigMap{}})
		run(t, informer)
		for began := time.Now(); time.Since(began) < streamPatience+bookmarkPatience; {
			api.put("a/1")
			time.Sleep(2 * time.Second)
		}
		expectHealth(t, "after a while", informer, true, true, 0, nil)
	})
}

// TestAStreamThatBreaksEndsNoFailure: the cache is stale until all objects have come. The reflector repeats the stream for ever.
func TestAStreamThatBreaksEndsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFakeAPI("a/1")
		client := api.newClient(true)
		informer := New(Config{ListerWatcher: client, Object: &corev1.ConfigMap{}})
		run(t, informer)
		synctest.Wait()
		client.loses = true
		api.expireWatches()
		for range 3 {
			time.Sleep(30 * time.Second)
			api.closeWatches()
		}
		expectHealth(t, "without a bookmark", informer, true, true, 90*time.Second, errBroken)
		client.loses = false
		api.closeWatches()
		time.Sleep(time.Second)
		expectHealth(t, "with one", informer, true, true, 0, nil)
	})
}

// TestAStreamThatIsSlowGoesOn has more than bookmarkPatience pass until the bookmark, but not between two objects.
func TestAStreamThatIsSlowGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFakeAPI("a/1", "a/2", "a/3")
		client := api.newClient(true)
		client.every = bookmarkPatience - time.Second
		informer := New(Config{ListerWatcher: client, Object: &corev1.ConfigMap{}})
		run(t, informer)
		time.Sleep(3 * bookmarkPatience)
		expectHealth(t, "when all have come", informer, true, true, 0, nil)
		if client.lists != 0 {
			t.Errorf("%d LISTs, want none", client.lists)
		}
	})
}

// TestHealthOfAListThatCannotBeStored: the Transform returns an error for an object of the list. Only the error of ListAndWatch shows this.
// With a DeltaFIFO, the objects before it reach the index. A RealFIFO applies the whole list at once, as client-go's informer does.
func TestHealthOfAListThatCannotBeStored(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1", "a/2", "a/3")
		informer := New(Config{
			ListerWatcher: api.newClient(false), Object: &corev1.ConfigMap{}, Queue: queue,
			Transform: func(obj any) (any, error) {
				if obj.(*corev1.ConfigMap).Name == "2" {
					return nil, errors.New("refused")
				}
				return obj, nil
			},
		})
		run(t, informer)
		synctest.Wait()
		if got := informer.Health(); got.Err == nil || got.Synced || got.Watching {
			t.Errorf("health %+v, want the failure of the transform", got)
		}
		if got, want := len(informer.GetStore().List()), map[Queue]int{DeltaFIFO: 1, RealFIFO: 0}[queue]; got != want {
			t.Errorf("the index has %d objects, want %d", got, want)
		}
	})
}

func TestRequestsSeeTheEndOfTheirWatch(t *testing.T) {
	fake := watch.NewFake()
	if w := new(requests).opened(fake, klog.Logger{}, false); w.ResultChan() != fake.ResultChan() {
		t.Error("requests replace the channel of events")
	}
	var r requests
	observed := cache.ToListerWatcherWithContext(r.observe(newFakeAPI().newClient(true)))
	if _, err := observed.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	first, err := observed.WatchWithContext(t.Context(), metav1.ListOptions{})
	must.Succeed(t, err)
	second, err := observed.WatchWithContext(t.Context(), metav1.ListOptions{})
	must.Succeed(t, err)
	if first.Stop(); !r.health().Watching {
		t.Error("the end of an earlier watch counts as the end of the present one")
	}
	if second.Stop(); r.health().Watching {
		t.Error("a stopped watch counts as open")
	}
}
