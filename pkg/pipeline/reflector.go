// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// defaultBackoff has the values of client-go's Reflector.Run. Reflector.Run shares one sequence of delays with
// the retries of a refused WATCH inside ListAndWatch. Here, the two have separate sequences.
var defaultBackoff = wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 38, Cap: 30 * time.Second}

const backoffReset = 2 * time.Minute

// newReflector returns the Reflector between the API server and the queue. It reads through i.requests,
// and writes into a reflectorStore.
//
// The caller holds i.mu.
func (i *Informer) newReflector(logger klog.Logger, queue cache.ReflectorStore) *cache.Reflector {
	store := &reflectorStore{queue: queue, arrived: &i.arrived, tracer: &i.tracer, requests: &i.requests}
	reflector := cache.NewReflectorWithOptions(i.requests.observe(i.cfg.ListerWatcher), i.cfg.Object, store, cache.ReflectorOptions{
		Logger:       &logger,
		Name:         i.name,
		ResyncPeriod: i.resyncCheckPeriod,
		Backoff:      ptr.To(i.backoff()),
	})
	reflector.ShouldResync = i.dispatcher.shouldResync
	return reflector
}

func (i *Informer) backoff() wait.Backoff { return ptr.Deref(i.cfg.Backoff, defaultBackoff) }

// reflect lists and watches until ctx ends. ListAndWatch opens a WATCH that begins with all existing
// objects. If that fails, as on a server that does not support it, it sends a LIST, and a WATCH from its
// resourceVersion. It passes these objects to the store with Replace, and then each event with Add, Update
// or Delete. When a WATCH ends normally, ListAndWatch opens another one from the last resourceVersion.
// When it returns, reflect calls it again after a delay, and that is a relist:
//
//	410 Gone                                   ListAndWatch
//	an event of an open WATCH                  returns nil, as after most errors of an open WATCH
//	the answer to a WATCH                      returns the error
//	the answer to a request for all objects    repeats the request at once, for the newest state
//
// It handles a refused connection and 429 itself, with delays of its own.
//
// reflect repeats the code of Reflector.Run, because only client-go can set a Reflector's error handler.
func (i *Informer) reflect(ctx context.Context) {
	delay := i.backoff().DelayWithReset(clock.RealClock{}, backoffReset)
	// The first true means that Until calls the func at once; the second, that a delay begins when the func has returned.
	_ = delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		switch err := i.reflector.ListAndWatchWithContext(ctx); {
		case err != nil:
			i.requests.ended(err)
			i.watchErrorHandler(ctx, i.reflector, err)
		case ctx.Err() == nil: // Only the reflector knows the error of the open WATCH.
			i.requests.ended(errBroken)
		}
		return false, nil
	})
}

// reflectorStore is the Reflector's store: it counts and traces each object, and puts it into the
// queue. The Reflector calls Resync from one goroutine, and the other methods from another.
//
// A watch event arrives at once. The objects of a LIST, or of the initial part of a WATCH, arrive
// together, when the reflector has received the last one.
//
// reflectorStore traces an object before it queues it: the goroutine that pops the object may report the next stage at once.
type reflectorStore struct {
	queue    cache.ReflectorStore
	arrived  *atomic.Int64 // Informer.arrived
	tracer   *tracer
	requests *requests
}

var (
	_ cache.TransformingStore      = (*reflectorStore)(nil)
	_ cache.ReflectorBookmarkStore = (*reflectorStore)(nil)
)

func (s *reflectorStore) Add(obj any) error {
	s.arrive(cache.Added, obj)
	return s.undoCount(1, s.queue.Add(obj))
}

func (s *reflectorStore) Update(obj any) error {
	s.arrive(cache.Updated, obj)
	return s.undoCount(1, s.queue.Update(obj))
}

func (s *reflectorStore) Delete(obj any) error {
	s.arrive(cache.Deleted, obj)
	return s.undoCount(1, s.queue.Delete(obj))
}

// Replace carries the objects that exist at resourceVersion. The queue, or with RealFIFO the index,
// finds the deleted ones by comparison.
func (s *reflectorStore) Replace(objs []any, resourceVersion string) error {
	for _, obj := range objs {
		s.arrive(cache.Replaced, obj)
	}
	s.requests.listed()
	return s.undoCount(len(objs), s.queue.Replace(objs, resourceVersion))
}

// Resync does not read from the API server: the queue emits the objects of the index again. The trace
// event of a resync names no object, because the queue selects them.
func (s *reflectorStore) Resync() error {
	s.tracer.resync()
	return s.queue.Resync()
}

func (s *reflectorStore) arrive(verb cache.DeltaType, obj any) {
	s.arrived.Add(1)
	s.tracer.arrive(verb, obj)
}

// undoCount subtracts n objects if the queue refused them, because a key or a transform failed. The
// Reflector logs the error. A DeltaFIFO that refuses one object of a Replace has already queued the objects
// before it; then the count is too low.
func (s *reflectorStore) undoCount(n int, err error) error {
	if err != nil {
		s.arrived.Add(int64(-n))
	}
	return err
}

// The Reflector checks whether its store has the next two methods. They do nothing if the queue does not
// have them.

// Transformer lets the reflector trim the objects of a streamed initial list while it collects them. The function also tells requests
// that the list goes on.
func (s *reflectorStore) Transformer() cache.TransformFunc {
	var trim cache.TransformFunc
	if q, ok := s.queue.(cache.TransformingStore); ok {
		trim = q.Transformer()
	}
	return func(obj any) (any, error) {
		s.requests.hear()
		if trim == nil {
			return obj, nil
		}
		return trim(obj)
	}
}

// Bookmark says that the reflector has passed on everything up to resourceVersion.
func (s *reflectorStore) Bookmark(resourceVersion string) error {
	if q, ok := s.queue.(cache.ReflectorBookmarkStore); ok {
		return q.Bookmark(resourceVersion)
	}
	return nil
}
