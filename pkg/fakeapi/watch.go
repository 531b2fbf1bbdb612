// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// Source is the ListerWatcher of one informer.
type Source struct {
	Server *Server
	// Name is the argument of Server.Lag. Example is any object of the resource.
	Name    string
	Example Object
	// Match picks the objects that the informer reads; nil picks all.
	Match func(Object) bool
	// ListFirst makes the reflector begin with a LIST, as for a server that cannot send the first objects in a watch (WatchList).
	ListFirst bool
}

var _ cache.ListerWatcherWithContext = Source{}

// IsWatchListSemanticsUnSupported returns whether a reflector must begin with a LIST.
func (s Source) IsWatchListSemanticsUnSupported() bool { return s.ListFirst }

// List implements cache.ListerWatcher.
func (s Source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (s Source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext lists the objects, unless Server.Before returns an error.
func (s Source) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	request := Request{Verb: "list", Resource: ResourceOf(s.Example)}
	if s.Server.Before != nil {
		if err := s.Server.Before(request); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.Server.mu.Lock()
	defer s.Server.mu.Unlock()
	return s.Server.list(kindOf(s.Example), request.Resource, s.match()), nil
}

// WatchWithContext opens a watch, unless Server.Before returns an error.
func (s Source) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return s.Server.watch(Request{Verb: "watch", Resource: ResourceOf(s.Example)}, s.Name, s.Example, s.match(), options)
}

func (s Source) match() func(Object) bool {
	if s.Match != nil {
		return s.Match
	}
	return func(Object) bool { return true }
}

// Break ends all watches of a resource.
func (s *Server) Break(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range slices.Clone(s.streams) {
		if w.resource == resource {
			w.end()
		}
	}
}

// Compact removes the history: a watch from an earlier resourceVersion gets 410 Gone.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.version
}

// watch opens a watch. A watch with SendInitialEvents needs example for its bookmark.
func (s *Server) watch(
	request Request, name string, example Object, match func(Object) bool, options metav1.ListOptions,
) (watch.Interface, error) {
	if s.Before != nil {
		if err := s.Before(request); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &stream{
		server: s, resource: request.Resource, name: name, match: match,
		results: make(chan watch.Event), wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	if ptr.Deref(options.SendInitialEvents, false) {
		for _, obj := range s.sorted(request.Resource) {
			if match(obj) {
				w.put(watch.Added, obj, 0)
			}
		}
		mark := clone(example)
		mark.SetResourceVersion(strconv.FormatInt(s.version, 10))
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		w.put(watch.Bookmark, mark, 0)
	} else {
		from, err := strconv.ParseInt(options.ResourceVersion, 10, 64)
		switch {
		case err != nil:
			return nil, apierrors.NewBadRequest(err.Error())
		case from < s.compacted:
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, s.compacted))
		}
		for _, event := range s.events {
			if event.Version > from {
				w.send(event)
			}
		}
	}
	s.streams = append(s.streams, w)
	go w.run()
	return w, nil
}

// stream is an open watch. The goroutine of run sends each event to the client at its arrival time, in order.
type stream struct {
	server   *Server
	resource string
	name     string
	match    func(Object) bool
	results  chan watch.Event
	wake     chan struct{} // has an item after put
	stopped  chan struct{}
	last     time.Time // the latest arrival time so far; the server's lock guards it

	mu      sync.Mutex
	waiting []delayedEvent
}

// delayedEvent is an event, and the time at which the client gets it.
type delayedEvent struct {
	watch.Event

	at time.Time
}

// send calls put for an event if match selects the object before or after the change. The client gets Added if match selects the object
// only now, and Deleted if match no longer selects it. The caller holds the server's lock.
func (w *stream) send(event Event) {
	if event.Resource != w.resource {
		return
	}
	matched, matches := event.Was != nil && w.match(event.Was), event.Now != nil && w.match(event.Now)
	if !matched && !matches {
		return
	}
	lag := time.Duration(0)
	if w.server.Lag != nil {
		lag = w.server.Lag(w.name)
	}
	switch {
	case matched && matches:
		w.put(watch.Modified, event.Now, lag)
	case matches:
		w.put(watch.Added, event.Now, lag)
	default: // The object was deleted, or match no longer selects it. The event carries the version of this change.
		gone := clone(event.Was)
		gone.SetResourceVersion(strconv.FormatInt(event.Version, 10))
		w.put(watch.Deleted, gone, lag)
	}
}

// put queues a copy of obj for the client. It arrives lag after the previous event, or lag after now if that is later. The caller holds the
// server's lock.
func (w *stream) put(kind watch.EventType, obj Object, lag time.Duration) {
	if now := time.Now(); w.last.Before(now) {
		w.last = now
	}
	w.last = w.last.Add(lag)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, delayedEvent{watch.Event{Type: kind, Object: clone(obj)}, w.last})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns the waiting events, and removes them.
func (w *stream) take() []delayedEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.waiting
	w.waiting = nil
	return waiting
}

func (w *stream) run() {
	defer close(w.results)
	for {
		for _, event := range w.take() {
			if wait := time.Until(event.at); wait > 0 {
				select {
				case <-time.After(wait):
				case <-w.stopped:
					return
				}
			}
			select {
			case w.results <- event.Event:
			case <-w.stopped:
				return
			}
		}
		select {
		case <-w.wake:
		case <-w.stopped:
			return
		}
	}
}

// end ends the watch. The caller holds the server's lock.
func (w *stream) end() {
	if at := slices.Index(w.server.streams, w); at >= 0 {
		w.server.streams = slices.Delete(w.server.streams, at, at+1)
		close(w.stopped)
	}
}

// ResultChan implements watch.Interface.
func (w *stream) ResultChan() <-chan watch.Event { return w.results }

// Stop implements watch.Interface.
func (w *stream) Stop() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.end()
}
