/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package pipeline

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// DefaultBackoff paces a reflector whose LIST or WATCH fails or ends: 30 to 60
// seconds apart at most, and from the start again every two minutes. The values
// are those of client-go's own Reflector.Run. That one shares its delays with the
// retries inside a ListAndWatch, of a WATCH that is refused; from outside client-go
// the two can only be paced apart.
var DefaultBackoff = wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 38, Cap: 30 * time.Second}

const backoffReset = 2 * time.Minute

// newReflector puts the Reflector between the API server and the queue. It reads
// from source, which notes how the requests go; what is traced is the other end,
// where it writes.
//
// The caller holds i.mu.
func (i *Informer) newReflector(logger klog.Logger, queue cache.Queue) *cache.Reflector {
	i.wire = &wire{queue: queue, arrived: &i.arrived, tracer: &i.tracer}
	reflector := cache.NewReflectorWithOptions(i.source, i.cfg.Object, i.wire, cache.ReflectorOptions{
		Logger:          &logger,
		Name:            i.name,
		TypeDescription: i.cfg.Description,
		ResyncPeriod:    i.resyncCheckPeriod,
		Backoff:         ptr.To(i.backoff()),
		Clock:           i.clock,
	})
	reflector.ShouldResync = i.handlers.shouldResync
	return reflector
}

// reflect lists and watches until ctx ends. One ListAndWatch opens a WATCH that
// starts with all objects there are (or, where the server does not support
// that, a LIST and a WATCH from its resourceVersion), hands them to the queue
// with Replace, and then every event with Add, Update or Delete. A WATCH that
// merely ends is followed by another one, from the last resourceVersion. It
// returns after any other error, such as a resourceVersion that is too old: then
// all of it begins anew.
//
// This is Reflector.Run, spelled out because only client-go itself can give
// that one an error handler.
func (i *Informer) reflect(ctx context.Context) {
	delay := i.backoff().DelayWithReset(i.clock, backoffReset)
	_ = delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		switch err := i.reflector.ListAndWatchWithContext(ctx); {
		case err != nil:
			i.source.ended(err)
			i.watchErrorHandler(ctx, i.reflector, err)
		case ctx.Err() == nil:
			i.source.ended(errBroken)
		}
		return false, nil
	})
}

// wire is what the Reflector believes to be its store: the queue, with a tap
// for the trace. The Reflector calls it, mostly from one goroutine; resyncs come
// from another.
//
// An object counts as off the wire when the reflector hands it over. For a
// watch event that is at once; the objects of a LIST, or of the initial part of
// a WATCH, come together, when the last of them has arrived.
//
// Both reports precede the call: once the queue has the object, the goroutine
// that pops it may report the next stage first.
type wire struct {
	queue   cache.Queue
	arrived *atomic.Int64 // objects handed over; Informer.took counts those that were applied
	dam     dam           // open, but for learning
	tracer  *tracer
}

var (
	_ cache.ReflectorStore         = (*wire)(nil)
	_ cache.TransformingStore      = (*wire)(nil)
	_ cache.ReflectorBookmarkStore = (*wire)(nil)
)

func (w *wire) Add(obj any) error { return w.hand(handed{verb: cache.Added, obj: obj}) }

func (w *wire) Update(obj any) error { return w.hand(handed{verb: cache.Updated, obj: obj}) }

func (w *wire) Delete(obj any) error { return w.hand(handed{verb: cache.Deleted, obj: obj}) }

// Replace hands over everything that exists as of resourceVersion. What is not
// in objs is gone: the queue, or with RealFIFO the index, finds out what that is.
func (w *wire) Replace(objs []any, resourceVersion string) error {
	return w.hand(handed{verb: cache.Replaced, all: objs, resourceVersion: resourceVersion})
}

// Resync has nothing to do with the API server: the queue emits again what the
// index already holds. Its event names no object, as the queue picks them.
func (w *wire) Resync() error { return w.hand(handed{verb: cache.Sync}) }

// handed is one call of the Reflector.
type handed struct {
	verb            cache.DeltaType
	obj             any    // of Added, Updated and Deleted
	all             []any  // of Replaced
	resourceVersion string // of Replaced and Bookmark
}

// hand tells of it, and hands it on: to the queue, or to whoever holds that.
func (w *wire) hand(h handed) error {
	switch h.verb {
	case cache.Replaced:
		w.arrived.Add(int64(len(h.all)))
		for _, obj := range h.all {
			w.tracer.arrive(cache.Replaced, obj)
		}
	case cache.Sync:
		w.tracer.resync()
	default:
		w.arrived.Add(1)
		w.tracer.arrive(h.verb, h.obj)
	}
	if w.dam.keeps(h) {
		return nil
	}
	return w.pass(h)
}

// pass puts it into the queue.
func (w *wire) pass(h handed) error {
	switch h.verb {
	case cache.Added:
		return w.settle(1, w.queue.Add(h.obj))
	case cache.Updated:
		return w.settle(1, w.queue.Update(h.obj))
	case cache.Deleted:
		return w.settle(1, w.queue.Delete(h.obj))
	case cache.Replaced:
		return w.settle(len(h.all), w.queue.Replace(h.all, h.resourceVersion))
	case cache.Bookmark:
		if q, ok := w.queue.(cache.ReflectorBookmarkStore); ok {
			return q.Bookmark(h.resourceVersion)
		}
		return nil
	default:
		return w.queue.Resync()
	}
}

// settle takes back what arrive counted if the queue refused it: a key or a
// transform that failed. The Reflector logs the error. A DeltaFIFO that refuses one
// object of a Replace has queued those before it; the count is then too low.
func (w *wire) settle(n int, err error) error {
	if err != nil {
		w.arrived.Add(int64(-n))
	}
	return err
}

// The Reflector asks its store for these two as optional interfaces. The tap
// has them whatever the queue is, and does nothing where the queue has none.

// Transformer lets the reflector trim the objects of a streamed initial list
// while it still collects them.
func (w *wire) Transformer() cache.TransformFunc {
	if q, ok := w.queue.(cache.TransformingStore); ok {
		return q.Transformer()
	}
	return nil
}

// Bookmark tells that nothing up to resourceVersion is still to come.
func (w *wire) Bookmark(resourceVersion string) error {
	h := handed{verb: cache.Bookmark, resourceVersion: resourceVersion}
	if w.dam.keeps(h) {
		return nil
	}
	return w.pass(h)
}

func (i *Informer) backoff() wait.Backoff { return ptr.Deref(i.cfg.Backoff, DefaultBackoff) }
