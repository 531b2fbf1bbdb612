// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/synctrack"
	"k8s.io/klog/v2"
	"k8s.io/utils/buffer"
)

// notification is the outcome of one delta: an addition (old is nil), an update, or a deletion (new is
// nil). All listeners share it, and none changes it.
type notification struct {
	old, new any
	initial  bool // an addition of an object that existed before the handler was added
}

// object returns the present state of the object, or the last one.
func (n *notification) object() any {
	if n.new != nil {
		return n.new
	}
	return n.old
}

// isResync reports whether n is an update to the same resourceVersion. Such an update comes from a Sync, or
// from a Replace after a lost watch. Only listeners that are resyncing get it: in an informer without periodic resyncs, all of them.
func (n *notification) isResync() bool {
	if n.old == nil || n.new == nil {
		return false
	}
	before, err := meta.Accessor(n.old)
	if err != nil {
		return false
	}
	after, err := meta.Accessor(n.new)
	return err == nil && before.GetResourceVersion() == after.GetResourceVersion()
}

// dispatcher passes each notification to all listeners.
type dispatcher struct {
	// mu also guards the application of deltas. So a delta cannot change the index while mu is held.
	mu        sync.Mutex
	listeners []*listener // in order of registration
	started   bool        // each listener has a goroutine
	synced    bool        // the index holds all of the first Replace

	running sync.WaitGroup // the listeners' goroutines
}

// distribute passes note to the listeners that want it. It never waits for a handler. The caller holds d.mu.
func (d *dispatcher) distribute(note *notification) {
	resync := note.isResync()
	for _, l := range d.listeners {
		if !resync || l.resyncing {
			l.add(note)
		}
	}
}

// wants reports whether a listener wants note. The caller holds d.mu.
func (d *dispatcher) wants(note *notification) bool {
	resync := note.isResync()
	return slices.ContainsFunc(d.listeners, func(l *listener) bool { return !resync || l.resyncing })
}

// shouldResync selects the listeners whose resync is due: they get resyncs until the next call. It returns true if there are any; then
// the Reflector makes the queue emit a resync. The Reflector calls shouldResync every resyncCheckPeriod.
func (d *dispatcher) shouldResync() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, due := time.Now(), false
	for _, l := range d.listeners {
		l.resyncing = l.resyncPeriod != 0 && !now.Before(l.nextResync)
		if l.resyncing {
			due = true
			l.nextResync = now.Add(l.resyncPeriod)
		}
	}
	return due
}

// listener delivers notifications to one handler, one after the other, from its own goroutine. Its backlog has no bound: a slow
// handler costs memory, but delays neither the index nor other handlers.
//
// AddEventHandler returns the listener as the registration.
type listener struct {
	handler  cache.ResourceEventHandler
	logger   klog.Logger
	progress *synctrack.SingleFileTracker // of the initial additions
	finished chan struct{}                // closed after the last call of the handler

	backlog backlog

	// Guarded by dispatcher.mu.
	resyncPeriod time.Duration // zero: never
	nextResync   time.Time
	resyncing    bool // gets resyncs; true until shouldResync is first called, which is never in an informer without periodic resyncs
}

// newListener returns a listener that delivers nothing yet. name is the name of its HasSyncedChecker.
func newListener(handler cache.ResourceEventHandler, logger klog.Logger, name string) *listener {
	return &listener{
		handler:   handler,
		logger:    logger,
		progress:  synctrack.NewSingleFileTracker(name),
		finished:  make(chan struct{}),
		backlog:   newBacklog(),
		resyncing: true,
	}
}

// add appends note to the backlog. The caller holds dispatcher.mu.
func (l *listener) add(note *notification) {
	if note.initial {
		l.progress.Start()
	}
	l.backlog.put(note)
}

// run delivers notifications until the backlog is closed. Before it returns, it waits for a handler that is
// still running. The listener's goroutine calls run.
func (l *listener) run() {
	defer close(l.finished)
	for {
		note, ok := l.backlog.take()
		if !ok {
			return
		}
		l.deliver(note)
		l.backlog.pending.Add(-1)
	}
}

// deliver calls the handler. A panic of the handler is logged, and the notification counts as delivered:
// HasSynced of the handler still becomes true.
func (l *listener) deliver(note *notification) {
	if note.initial {
		defer l.progress.Finished()
	}
	defer func() {
		if r := recover(); r != nil {
			// logPanic adds one frame, since it calls the logger.
			ctx := klog.NewContext(context.Background(), l.logger.WithCallDepth(panicDepth()+1))
			for _, handle := range utilruntime.PanicHandlers { // the first is logPanic
				handle(ctx, r)
			}
		}
	}()
	switch {
	case note.old == nil:
		l.handler.OnAdd(note.new, note.initial)
	case note.new == nil:
		l.handler.OnDelete(note.old)
	default:
		l.handler.OnUpdate(note.old, note.new)
	}
}

// backlog holds the notifications that wait for one handler, in order. The dispatcher puts them in, and the listener takes them out.
type backlog struct {
	mu     sync.Mutex
	notes  *buffer.Ring[*notification] // grows without bound, and shrinks when it is empty
	closed bool
	wake   chan struct{} // gets a token when the first notification is put into the empty backlog; closed with the backlog

	pending atomic.Int64 // notifications that were put and are not delivered yet
}

func newBacklog() backlog {
	size := buffer.RingOptions{InitialSize: 16, NormalSize: 1024}
	return backlog{notes: buffer.NewRing[*notification](size), wake: make(chan struct{}, 1)}
}

func (b *backlog) put(note *notification) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.pending.Add(1)
	b.notes.WriteOne(note)
	if b.notes.Len() == 1 {
		select {
		case b.wake <- struct{}{}:
		default: // the token is already there
		}
	}
}

// take waits for the next notification. It returns false once the backlog is closed, even if notifications are left.
func (b *backlog) take() (*notification, bool) {
	for {
		b.mu.Lock()
		note, ok := b.notes.ReadOne()
		closed := b.closed
		b.mu.Unlock()
		if closed || ok {
			return note, !closed
		}
		<-b.wake
	}
}

func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.notes = &buffer.Ring[*notification]{} // frees the objects, even while a caller keeps the registration
	close(b.wake)
}
