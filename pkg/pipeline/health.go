// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

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

// errBroken is the error of an open WATCH that broke. The reflector logs the details.
var errBroken = errors.New("the watch ended with an error: see the log")

// Health says whether an Informer follows the API server.
//
// To judge it, use Synced and the age of Failing. Watching alone says little: a WATCH ends every few
// minutes, and the reflector opens the next one at once.
type Health struct {
	// Synced is the informer's HasSynced.
	Synced bool
	// Watching reports whether a WATCH is open. It is false before the first WATCH, between two of them, and after the informer has stopped.
	Watching bool
	// Failing is the time of the first failure since a WATCH was last opened: a request failed, or the WATCH
	// broke. It is zero without a failure. A connection that hangs fails when the client's own timeout ends it.
	Failing time.Time
	// Err is the last failure; nil if Failing is zero.
	Err error
	// Failures counts the LISTs and WATCHes that have failed.
	Failures int64
}

// Health returns the present state. It is cheap, and does not wait.
func (i *Informer) Health() Health {
	health := i.source.health()
	health.Synced = i.HasSynced()
	return health
}

// Failures returns how many LISTs and WATCHes have failed. It reads no channel, so a test in another synctest bubble may call it.
func (i *Informer) Failures() int64 { return i.source.health().Failures }

// source records the outcome of the Reflector's requests: when each begins and ends. The events of a
// WATCH do not pass through source.
//
// The Reflector sends requests from one goroutine, and has one WATCH open at most.
type source struct {
	mu   sync.Mutex
	open *openWatch // nil: none
	now  Health     // without Synced and Watching
}

// observe returns a ListerWatcher that sends its requests through lw, and records their outcome.
func (s *source) observe(lw cache.ListerWatcher) cache.ListerWatcher {
	next := cache.ToListerWatcherWithContext(lw)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := next.ListWithContext(ctx, options)
			if err != nil && ctx.Err() == nil {
				s.failed(err)
			}
			return list, err // A success does not end a failure: without a WATCH, the list becomes stale.
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := next.WatchWithContext(ctx, options)
			if err == nil {
				return s.opened(w), nil
			}
			// A server that cannot begin a WATCH with all objects answers Invalid. This is no failure: the Reflector sends a LIST instead.
			if ctx.Err() == nil && (options.SendInitialEvents == nil || !apierrors.IsInvalid(err)) {
				s.failed(err)
			}
			return nil, err
		},
	}, lw)
}

func (s *source) opened(w watch.Interface) watch.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = &openWatch{Interface: w, source: s}
	s.now.Failing, s.now.Err = time.Time{}, nil
	return s.open
}

func (s *source) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Failing.IsZero() {
		s.now.Failing = time.Now()
	}
	s.now.Err = err
	s.now.Failures++
}

// ended records why a ListAndWatch ended, unless a request has failed already.
func (s *source) ended(err error) {
	if s.health().Failing.IsZero() {
		s.failed(err)
	}
}

func (s *source) health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	health := s.now
	health.Watching = s.open != nil
	return health
}

// openWatch is a WATCH. The Reflector calls Stop when the WATCH has ended, sometimes twice.
type openWatch struct {
	watch.Interface

	source *source
}

func (w *openWatch) Stop() {
	w.Interface.Stop()
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	if w.source.open == w {
		w.source.open = nil
	}
}
