// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// minimumResyncPeriod is the shortest resync period of a handler.
const minimumResyncPeriod = time.Second

// AddEventHandler adds a handler with the informer's resync period and the global logger.
func (i *Informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler that gets a resync each resyncPeriod; none if that is zero.
func (i *Informer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, resyncPeriod time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resyncPeriod})
}

// AddEventHandlerWithOptions adds a handler. Before the start, the shortest resync period of all handlers becomes the interval at which the
// informer checks whether resyncs are due. After the start, that interval is the lower limit.
func (i *Informer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return nil, fmt.Errorf("handler %v was not added to shared informer because it %w", handler, errStopped)
	}
	logger, requested := klog.Background(), i.cfg.ResyncPeriod
	if options.Logger != nil {
		logger = *options.Logger
	}
	if options.ResyncPeriod != nil {
		requested = *options.ResyncPeriod
	}
	if requested > 0 && requested < minimumResyncPeriod {
		logger.Info("Raised the handler's resync period to the minimum", "resyncPeriod", requested, "minimum", minimumResyncPeriod)
		requested = minimumResyncPeriod
	}
	if requested > 0 && requested < i.resyncCheckPeriod && !i.started {
		i.resyncCheckPeriod = requested
	}

	l := newListener(handler, logger, i.nameWithHandler(handler))
	l.resyncPeriod = resyncPeriod(logger, requested, i.resyncCheckPeriod)
	i.dispatcher.addListener(l, i.indexer)
	return l, nil
}

// nameWithHandler returns the name that client-go's own informer gives the HasSyncedChecker of handler in
// logs. Only client-go can compute that name, so a client-go informer that never runs registers handler.
func (i *Informer) nameWithHandler(handler cache.ResourceEventHandler) string {
	stock := cache.NewSharedInformer(nil, i.cfg.Object, 0)
	registration, err := stock.AddEventHandler(handler)
	if err != nil { // It fails only after a stop.
		return i.HasSyncedChecker().Name()
	}
	return registration.HasSyncedChecker().Name()
}

// RemoveEventHandler removes a handler. A call of the handler may still be running; cache.ShutDownEventHandler
// waits until that call has ended. Removing a handler twice is harmless.
func (i *Informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*listener)
	if !ok {
		return fmt.Errorf("invalid key type %T", handle)
	}
	i.dispatcher.removeListener(l)
	return nil
}

// resyncPeriod returns the interval of a handler's resyncs; zero means never. check is the interval at which the informer looks for
// resyncs that are due.
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

func (l *listener) name() string {
	if named, ok := l.handler.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("%T", l.handler)
}

// HasSynced reports whether the handler has received the objects that existed when it was added. For a
// handler that was added before the informer synced, these are all objects of the first list.
func (l *listener) HasSynced() bool { return l.progress.HasSynced() }

// HasSyncedChecker returns HasSynced as a channel, which closes when HasSynced becomes true.
func (l *listener) HasSyncedChecker() cache.DoneChecker { return l.progress }

// ShutdownChan returns the channel that cache.ShutDownEventHandler waits for.
func (l *listener) ShutdownChan() <-chan struct{} { return l.finished }

// addListener adds a listener. After the start, the listener first gets every object of the index as an initial addition.
func (d *dispatcher) addListener(l *listener, index cache.Store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.nextResync = time.Now().Add(l.resyncPeriod)
	d.listeners = append(d.listeners, l)
	if !d.started {
		return
	}
	for _, obj := range index.List() {
		l.add(&notification{new: obj, initial: true})
	}
	if d.synced {
		// This call must follow the last initial addition: progress compares with their number.
		l.progress.UpstreamHasSynced()
	}
	d.running.Go(l.run)
}

// removeListener removes a listener and drops its backlog. It does nothing if d does not have the
// listener. The handler may still be running afterwards.
func (d *dispatcher) removeListener(l *listener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.Index(d.listeners, l)
	if at < 0 {
		return
	}
	d.listeners = slices.Delete(d.listeners, at, at+1)
	l.backlog.close()
	if !d.started {
		close(l.finished) // The listener has no goroutine that would close it.
	}
}

// start begins delivery. Notifications that already wait are delivered first.
func (d *dispatcher) start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started = true
	for _, l := range d.listeners {
		d.running.Go(l.run)
	}
}

// stop ends delivery, and returns when all calls of handlers have ended. The caller ensures that no listener is added from now on.
func (d *dispatcher) stop() {
	d.mu.Lock()
	for _, l := range d.listeners {
		l.backlog.close()
	}
	d.listeners = nil
	d.mu.Unlock()
	d.running.Wait() // without the lock: a handler may call removeListener
}

// indexSynced records that all initial additions have been passed to the listeners.
func (d *dispatcher) indexSynced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = true
	for _, l := range d.listeners {
		l.progress.UpstreamHasSynced()
	}
}

// panicDepth returns the call depth from its caller, a deferred function that recovers from a panic, to the
// function that panicked. The frames between are the Go runtime's; their number depends on the kind of panic.
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
