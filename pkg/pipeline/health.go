/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
	"k8s.io/client-go/util/watchlist"
	"k8s.io/utils/clock"
)

// errBroken is all that there is to know of a WATCH that was open and ended with an
// error: the reflector logs it, and begins anew.
var errBroken = errors.New("the watch ended with an error, which the log tells")

// Health says whether an Informer follows the API server: how true its index is.
//
// Whoever wants to know whether it does so well enough looks at Synced, and at how long
// it has been failing, and not at Watching: a WATCH ends every few minutes, and is opened
// again at once.
type Health struct {
	// Synced is the informer's HasSynced.
	Synced bool
	// Watching says that a WATCH is open: what changes now arrives. Before the first
	// one, between two of them and after the informer has stopped, none is.
	Watching bool
	// Failing is since when there has been no WATCH because requests fail, or because the
	// last one broke; zero if it is not so. A connection that hangs is found out by the
	// client's own timeouts, and fails then.
	Failing time.Time
	// Err is what failed last; nil if Failing is zero.
	Err error
	// Failures is how often a LIST or a WATCH has failed so far.
	Failures int64
}

// Health is cheap, and waits for nothing.
func (i *Informer) Health() Health {
	health := i.source.health()
	health.Synced = i.HasSynced()
	return health
}

// source is what the Reflector reads from: the ListerWatcher of the informer's Config,
// and a note of how its requests went. It sees requests begin and end, and no events:
// those pass without it.
//
// The Reflector calls it from one goroutine, and has one WATCH open at most.
type source struct {
	lw        cache.ListerWatcherWithContext
	streaming bool
	clock     clock.PassiveClock

	mu   sync.Mutex
	open *openWatch // nil: none
	now  Health     // but for Synced and Watching

	held    *Hold       // nil: requests reach the API server
	free    *time.Timer // ends held
	expired bool        // the next WATCH is told that its resourceVersion is too old
}

var (
	_ cache.ListerWatcher            = (*source)(nil)
	_ cache.ListerWatcherWithContext = (*source)(nil)
)

// newSource takes lw nil as it comes: an informer in a test may never run.
func newSource(lw cache.ListerWatcher, clock clock.PassiveClock) *source {
	s := &source{clock: clock}
	if lw != nil {
		s.lw, s.streaming = cache.ToListerWatcherWithContext(lw), !watchlist.DoesClientNotSupportWatchListSemantics(lw)
	}
	return s
}

// IsWatchListSemanticsUnSupported is what the Reflector looks for besides.
func (s *source) IsWatchListSemanticsUnSupported() bool { return !s.streaming }

func (s *source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s *source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext is not what ends a failure: without a WATCH, its result grows old.
func (s *source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := s.obstacle(false); err != nil {
		s.failed(err)
		return nil, err
	}
	list, err := s.lw.ListWithContext(ctx, options)
	if err != nil && ctx.Err() == nil {
		s.failed(err)
	}
	return list, err
}

func (s *source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := s.obstacle(true); err != nil {
		s.failed(err)
		return nil, err
	}
	w, err := s.lw.WatchWithContext(ctx, options)
	if err != nil {
		// A server that cannot begin a WATCH with all objects says that it is invalid.
		// The Reflector asks it for a LIST instead: nothing is wrong.
		if ctx.Err() == nil && (options.SendInitialEvents == nil || !apierrors.IsInvalid(err)) {
			s.failed(err)
		}
		return nil, err
	}
	return s.opened(w), nil
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
		s.now.Failing = s.clock.Now()
	}
	s.now.Err = err
	s.now.Failures++
}

// ended notes that a ListAndWatch has: why, if source knows no reason of its own.
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

// openWatch is a WATCH. The Reflector stops each as soon as it has ended, some of them
// twice.
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
