// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package breakpoint

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// errHeld is the error of requests while a Wire is held.
var errHeld = errors.New("the wire is held by hand")

// dropDelay is how long a WATCH stays open after Drop. client-go does not resume a WATCH that ended
// within a second and without an event: it reads everything again. After dropDelay the WATCH is older.
const dropDelay = time.Second

// Wire is the breakpoint between a reflector and the API server. The zero value is ready to use.
type Wire struct {
	latch

	watch   *breakable // the last one; nil before the first
	expired bool       // the next WATCH fails with 410 Gone
}

// Wrap returns a ListerWatcher that sends its requests through lw.
func (w *Wire) Wrap(lw cache.ListerWatcher) cache.ListerWatcher {
	next := cache.ToListerWatcherWithContext(lw)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if w.Held() != nil {
				return nil, errHeld
			}
			return next.ListWithContext(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if err := w.refuseWatch(); err != nil {
				return nil, err
			}
			opened, err := next.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.watch = newBreakable(opened)
			if w.hold != nil { // since the request was sent
				w.breakOff()
			}
			return w.watch, nil
		},
	}, lw)
}

// refuseWatch returns the error with which the next WATCH fails; nil if it may be sent.
func (w *Wire) refuseWatch() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hold != nil:
		return errHeld
	case w.expired:
		w.expired = false
		return apierrors.NewResourceExpired("the resourceVersion is called too old by hand")
	}
	return nil
}

// Hold breaks the WATCH, and makes every request fail until Release or Limit. It does nothing if the Wire is held already.
func (w *Wire) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold == nil {
		w.close(0, w.open)
		w.breakOff()
	}
}

// Release lets the reflector reach the API server again. It tries when its backoff ends.
func (w *Wire) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open()
}

// Drop breaks the open WATCH, after dropDelay, and the reflector opens another from its last
// resourceVersion. If the WATCH still delivers its initial list then, it begins anew.
func (w *Wire) Drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if dropped := w.watch; dropped != nil {
		time.AfterFunc(dropDelay, dropped.Stop)
	}
}

// Expire breaks the open WATCH, and makes the next one fail with 410 Gone: the reflector reads everything again. A real API server
// answers such a WATCH with 200, and sends the 410 in an event.
func (w *Wire) Expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expired = true
	w.breakOff()
}

// breakOff ends the WATCH as a lost connection does. It does not wait for the end, which may take long. The caller holds w.mu.
func (w *Wire) breakOff() {
	if w.watch != nil {
		go w.watch.Stop()
	}
}

// breakable is a WATCH whose events end when it is stopped, as those of a lost connection do. The WATCH of client-go may
// deliver an Error event then ("response body closed"), and the reflector would read everything again.
type breakable struct {
	watch.Interface // of the API server

	events chan watch.Event
	end    chan struct{} // closed by Stop
	once   sync.Once
}

func newBreakable(w watch.Interface) *breakable {
	b := &breakable{Interface: w, events: make(chan watch.Event), end: make(chan struct{})}
	go b.forward()
	return b
}

func (b *breakable) ResultChan() <-chan watch.Event { return b.events }

// Stop ends the events, and then the WATCH. The reflector stops each WATCH that has ended.
func (b *breakable) Stop() {
	b.once.Do(func() { close(b.end) })
	b.Interface.Stop()
}

// forward ends when the WATCH ends or is stopped.
func (b *breakable) forward() {
	defer close(b.events)
	for {
		select {
		case <-b.end:
			return
		case event, open := <-b.Interface.ResultChan():
			if !open {
				return
			}
			select {
			case <-b.end:
				return
			case b.events <- event:
			}
		}
	}
}
