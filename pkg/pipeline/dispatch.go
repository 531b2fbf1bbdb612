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

// notification is what the handlers are told about one delta: an addition (no
// old), an update (both), or a deletion (no new). All listeners share it, and
// none changes it.
type notification struct {
	old, new any
	initial  bool // an addition that belongs to what was there when the handler joined
}

// object returns the object as it is now, or was last.
func (n *notification) object() any {
	if n.new != nil {
		return n.new
	}
	return n.old
}

// isResync tells whether this is an update that changes nothing: the
// resourceVersion is the same. It comes from a Sync, or from a Replace after a
// lost watch, and is for those who want resyncs only.
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

// dispatcher fans notifications out to the listeners. Informer.apply produces
// them.
type dispatcher struct {
	clock clock.Clock

	// mu is also the lock under which deltas are applied: whoever holds it sees
	// the index and the listeners at rest, between two deltas.
	mu        sync.Mutex
	listeners []*listener // in order of registration
	started   bool        // listeners have goroutines
	synced    bool        // the index holds all of the first Replace

	running sync.WaitGroup // the listeners' goroutines
}

// tell hands note to the listeners that want it. It never waits for a handler.
// The caller holds d.mu.
func (d *dispatcher) tell(note *notification) {
	resync := note.isResync()
	for _, l := range d.listeners {
		if !resync || l.resyncing {
			l.add(note)
		}
	}
}

// wants reports whether there is a listener that wants note. The caller holds d.mu.
func (d *dispatcher) wants(note *notification) bool {
	resync := note.isResync()
	return slices.ContainsFunc(d.listeners, func(l *listener) bool { return !resync || l.resyncing })
}

// join adds a listener. One that comes late catches up first: it is told of
// everything in the index as initial additions.
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
		// Only now: progress compares with the number of initial additions, and
		// none may be missing from that.
		l.progress.UpstreamHasSynced()
	}
	d.running.Go(l.run)
}

// leave removes a listener; if it is none of ours, nothing happens. What it was
// not told yet, it will not be told. Its handler may still be at work.
func (d *dispatcher) leave(l *listener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.Index(d.listeners, l)
	if at < 0 {
		return
	}
	d.listeners = slices.Delete(d.listeners, at, at+1)
	l.close()
	if !d.started {
		close(l.finished) // there is no goroutine to do it
	}
}

// start begins delivery. Whatever the listeners were told before waits for it.
func (d *dispatcher) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started = true
	for _, l := range d.listeners {
		d.running.Go(l.run)
	}
}

// stop ends delivery, and returns when no handler is at work any more. The
// caller makes sure that no listener joins from now on.
func (d *dispatcher) stop() {
	d.mu.Lock()
	for _, l := range d.listeners {
		l.close()
	}
	d.listeners = nil
	d.mu.Unlock()
	d.running.Wait() // without the lock: a handler at work may want to leave
}

// indexSynced says that no initial addition is still to come.
func (d *dispatcher) indexSynced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = true
	for _, l := range d.listeners {
		l.progress.UpstreamHasSynced()
	}
}

// shouldResync picks the listeners whose resync is due: until it is asked again,
// they are the ones who are told resyncs. The Reflector asks every
// resyncCheckPeriod, and has the queue emit one if there is any.
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

// resyncPeriod is how often a handler can have its resyncs, if it is asked only
// every check whether they are due. Zero is never.
func resyncPeriod(logger klog.Logger, requested, check time.Duration) time.Duration {
	switch {
	case requested == 0:
		return 0
	case check == 0:
		logger.Info("Handler asks for resyncs, but the informer does none", "resyncPeriod", requested)
		return 0
	case requested < check:
		logger.Info("Raised the handler's resync period to the informer's", "resyncPeriod", requested, "resyncCheckPeriod", check)
		return check
	}
	return requested
}

// listener delivers notifications to one handler, one after the other, from a
// goroutine of its own. Between the two is a backlog without bound: a slow
// handler costs memory, but holds up neither the index nor other handlers.
//
// It is the registration that AddEventHandler returns.
type listener struct {
	handler  cache.ResourceEventHandler
	logger   klog.Logger
	progress *synctrack.SingleFileTracker // of the initial additions
	finished chan struct{}                // closed when no call of the handler is under way, nor will be

	backlog backlog

	// Guarded by dispatcher.mu.
	resyncPeriod time.Duration // zero: never
	nextResync   time.Time
	resyncing    bool // is told resyncs; all are, until the first check
}

// newListener returns a listener that delivers nothing yet. name is that of its
// HasSyncedChecker.
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

// HasSynced tells whether the handler has been given all there was when it
// joined, or, if it joined before the informer synced, all of the first list.
func (l *listener) HasSynced() bool { return l.progress.HasSynced() }

// HasSyncedChecker is HasSynced for those who want to wait.
func (l *listener) HasSyncedChecker() cache.DoneChecker { return l.progress }

// ShutdownChan is what cache.ShutDownEventHandler waits for.
func (l *listener) ShutdownChan() <-chan struct{} { return l.finished }

// add is called by the dispatcher.
func (l *listener) add(note *notification) {
	if note.initial {
		l.progress.Start()
	}
	l.backlog.put(note)
}

// close ends run, after the call that is under way. The dispatcher calls it, once.
func (l *listener) close() { l.backlog.close() }

// run is the listener's goroutine.
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

// deliver calls the handler. A panic in it is logged, and costs the handler this
// one notification. It is then as good as delivered: a handler that panics on
// one object still syncs, and those who wait for it do not wait forever.
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

// panicDepth returns how many frames lie between its caller, a deferred function
// that recovers from a panic, and the function that panicked: those of the Go
// runtime. Their number depends on the kind of panic.
func panicDepth() int {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	_, more := frames.Next() // the caller
	for depth := 0; more; depth++ {
		var frame runtime.Frame
		if frame, more = frames.Next(); !strings.HasPrefix(frame.Function, "runtime.") && !strings.HasPrefix(frame.Function, "internal/runtime/") {
			return depth + 1
		}
	}
	return 0
}

// backlog holds the notifications that one handler has not been given yet, in
// order. The dispatcher puts, the listener takes.
type backlog struct {
	mu     sync.Mutex
	notes  *buffer.Ring[*notification] // grows without bound, and shrinks again once it is empty
	closed bool
	wake   chan struct{} // holds a token once there is something in an empty backlog; closed with it

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

// take waits for the next notification. It returns false once the backlog is
// closed, whatever is left in it.
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
	b.notes = &buffer.Ring[*notification]{} // lets go of the objects, whoever keeps the registration
	close(b.wake)
}
