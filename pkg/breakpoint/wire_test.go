// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package breakpoint

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/glassback/glassback/pkg/must"
)

type noStream struct{}

func (noStream) IsWatchListSemanticsUnSupported() bool { return true }

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

func TestAWireKeepsTheOptionalMethod(t *testing.T) {
	for _, lw := range []cache.ListerWatcher{&cache.ListWatch{}, cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{}, noStream{})} {
		want := watchlist.DoesClientNotSupportWatchListSemantics(lw)
		if got := watchlist.DoesClientNotSupportWatchListSemantics(new(Wire).Wrap(lw)); got != want {
			t.Errorf("it cannot stream: %t, want %t", got, want)
		}
	}
}
