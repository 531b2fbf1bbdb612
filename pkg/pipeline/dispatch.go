/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/synctrack"
	"k8s.io/klog/v2"
	"k8s.io/utils/buffer"
	"k8s.io/utils/clock"
)

// notification is the outcome of one delta: an addition (no old), an update (both), or a deletion (no
// new). All listeners share it, and none changes it.
type notification struct {
	old, new any
	initial  bool // an addition of an object that existed before the handler joined
}

// object returns the present state of the object, or the last one.
func (n *notification) object() any {
	if n.new != nil {
		return n.new
	}
	return n.old
}

// isResync reports whether this is an update with the same resourceVersion. It comes from a Sync, or
// from a Replace after a lost watch. Only handlers that want resyncs get it.
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
	clock clock.Clock

	// mu is also the lock under which deltas are applied. Its holder sees the index and the listeners
	// between two deltas.
	mu        sync.Mutex
	listeners []*listener // in order of registration
	started   bool        // listeners have goroutines
	synced    bool        // the index holds all of the first Replace

	running sync.WaitGroup // the listeners' goroutines
}

// distribute passes note to the listeners that want it. It never waits for a handler. The caller holds
// d.mu.
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

// join adds a listener. After the start it first gets every object of the index as an initial addition.
func (d *dispatcher) join(l *listener, index cache.Store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.nextResync = d.clock.Now().Add(l.resyncPeriod)
	d.listeners = append(d.listeners, l)
	if !d.started {
		return
	}
	for _, obj := range index.List() {
		l.add(&notification{new: obj, initial: true})
	}
	if d.synced {
		// Not earlier: progress compares with the number of initial additions, which must be complete.
		l.progress.UpstreamHasSynced()
	}
	d.running.Go(l.run)
}

// leave removes a listener and drops its backlog. It does nothing if d does not have it. A call of its
// handler may still be running.
func (d *dispatcher) leave(l *listener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.Index(d.listeners, l)
	if at < 0 {
		return
	}
	d.listeners = slices.Delete(d.listeners, at, at+1)
	l.backlog.close()
	if !d.started {
		close(l.finished) // No goroutine does it.
	}
}

// start begins delivery, with the notifications that wait already.
func (d *dispatcher) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started = true
	for _, l := range d.listeners {
		d.running.Go(l.run)
	}
}

// stop ends delivery, and returns when all calls of handlers have ended. The caller makes sure that no
// listener joins from now on.
func (d *dispatcher) stop() {
	d.mu.Lock()
	for _, l := range d.listeners {
		l.backlog.close()
	}
	d.listeners = nil
	d.mu.Unlock()
	d.running.Wait() // without the lock: a handler may call leave
}

// indexSynced records that no initial addition is still to come.
func (d *dispatcher) indexSynced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = true
	for _, l := range d.listeners {
		l.progress.UpstreamHasSynced()
	}
}

// shouldResync selects the listeners whose resync is due: they get resyncs until the next call. It
// reports whether there are any; then the Reflector makes the queue emit a resync. The Reflector calls
// it every resyncCheckPeriod.
func (d *dispatcher) shouldResync() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, due := d.clock.Now(), false
	for _, l := range d.listeners {
		l.resyncing = l.resyncPeriod != 0 && !now.Before(l.nextResync)
		if l.resyncing {
			due = true
			l.nextResync = now.Add(l.resyncPeriod)
		}
	}
	return due
}

// listener delivers notifications to one handler, one after the other, from its own goroutine. The
// backlog before it has no bound: a slow handler costs memory, but delays neither the index nor other
// handlers.
//
// AddEventHandler returns it as the registration.
type listener struct {
	handler  cache.ResourceEventHandler
	logger   klog.Logger
	progress *synctrack.SingleFileTracker // of the initial additions
	finished chan struct{}                // closed after the last call of the handler

	backlog backlog

	// Guarded by dispatcher.mu.
	resyncPeriod time.Duration // zero: never
	nextResync   time.Time
	resyncing    bool // gets resyncs; all listeners do, until the first check
}

// newListener returns a listener that delivers nothing yet. name is that of its HasSyncedChecker.
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

func (l *listener) name() string {
	if named, ok := l.handler.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("%T", l.handler)
}

// HasSynced reports whether the handler has had the objects that existed when it joined; or, if it
// joined before the informer synced, all of the first list.
func (l *listener) HasSynced() bool { return l.progress.HasSynced() }

// HasSyncedChecker returns HasSynced with a channel to wait for.
func (l *listener) HasSyncedChecker() cache.DoneChecker { return l.progress }

// ShutdownChan returns the channel that cache.ShutDownEventHandler waits for.
func (l *listener) ShutdownChan() <-chan struct{} { return l.finished }

// add is called by the dispatcher.
func (l *listener) add(note *notification) {
	if note.initial {
		l.progress.Start()
	}
	l.backlog.put(note)
}

// run is the listener's goroutine. It ends when the backlog is closed, after the running call.
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
// the handler still syncs.
func (l *listener) deliver(note *notification) {
	if note.initial {
		defer l.progress.Finished()
	}
	defer func() {
		if r := recover(); r != nil {
			// One frame more: logPanic's, which calls the logger.
			ctx := klog.NewContext(context.Background(), l.logger.WithCallDepth(panicDepth()+1))
			for _, handle := range utilruntime.PanicHandlers { // the first one logs
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

// panicDepth returns the number of frames between its caller, a deferred function that recovers from a
// panic, and the function that panicked: those of the Go runtime. It depends on the kind of panic.
func panicDepth() int {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	_, more := frames.Next() // the caller
	for depth := 0; more; depth++ {
		var frame runtime.Frame
		frame, more = frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") && !strings.HasPrefix(frame.Function, "internal/runtime/") {
			return depth + 1
		}
	}
	return 0
}

// backlog holds the notifications that wait for one handler, in order. The dispatcher puts, the
// listener takes.
type backlog struct {
	mu     sync.Mutex
	notes  *buffer.Ring[*notification] // grows without bound, and shrinks when it is empty
	closed bool
	wake   chan struct{} // holds a token once an empty backlog gets a notification; closed with the backlog

	pending atomic.Int64 // put and not yet delivered
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

// take waits for the next notification. It returns false once the backlog is closed, even if
// notifications are left.
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
	b.notes = &buffer.Ring[*notification]{} // frees the objects, even if a caller keeps the registration
	close(b.wake)
}
