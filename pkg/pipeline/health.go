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
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// bookmarkPatience is how long a WATCH that begins with all objects may send nothing before its bookmark, which says that these were all.
// Some proxies, and some versions of the API server, lose this bookmark: the reflector would wait for it until the WATCH ends, and then
// again.
const bookmarkPatience = time.Minute

// streamPatience is how long all objects may take. Changes that come after the lost bookmark look like some of them.
const streamPatience = 10 * time.Minute

// errNoBookmark is the failure of such a WATCH.
var errNoBookmark = errors.New("a watch that began with all objects did not say that these were all, so they are listed instead")

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
	mu       sync.Mutex
	open     *openWatch // nil: none
	now      Health     // without Synced and Watching
	noStream bool       // whether a WATCH that began with all objects has lost its bookmark: no other WATCH will begin so

	heard time.Time // when the last object of such a WATCH came
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
			streams := ptr.Deref(options.SendInitialEvents, false)
			if streams && s.refusesStream() {
				return nil, errNoBookmark // The Reflector sends a LIST instead.
			}
			w, err := next.WatchWithContext(ctx, options)
			if err == nil {
				return s.opened(w, klog.FromContext(ctx), streams), nil
			}
			// A server that cannot begin a WATCH with all objects answers Invalid. This is no failure: the Reflector sends a LIST instead.
			if ctx.Err() == nil && (options.SendInitialEvents == nil || !apierrors.IsInvalid(err)) {
				s.failed(err)
			}
			return nil, err
		},
	}, lw)
}

func (s *source) opened(w watch.Interface, logger klog.Logger, streams bool) watch.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := &openWatch{Interface: w, source: s}
	s.open = open
	s.now.Failing, s.now.Err = time.Time{}, nil
	if streams {
		s.heard, open.since = time.Now(), time.Now()
		open.lost = time.AfterFunc(bookmarkPatience, func() { s.checkStream(open, logger) })
	}
	return open
}

// hear records that an object of a WATCH that begins with all objects has come.
func (s *source) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}

// listed records that all objects have come.
func (s *source) listed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil && s.open.lost != nil {
		s.open.lost.Stop()
		s.open.lost = nil
	}
}

func (s *source) refusesStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noStream
}

// checkStream ends a WATCH that has lost its bookmark.
func (s *source) checkStream(w *openWatch, logger klog.Logger) {
	s.mu.Lock()
	silent := time.Since(s.heard)
	switch {
	case s.open != w || w.lost == nil:
	case silent < bookmarkPatience && time.Since(w.since) < streamPatience:
		w.lost.Reset(bookmarkPatience - silent)
	default:
		s.noStream, w.lost = true, nil
		defer func() {
			logger.Error(errNoBookmark, "The initial list is incomplete")
			s.failed(errNoBookmark)
			w.Stop()
		}()
	}
	s.mu.Unlock()
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
	since  time.Time   // when it was opened, if it begins with all objects
	lost   *time.Timer // runs until the bookmark has come; nil if none is awaited
}

func (w *openWatch) Stop() {
	w.Interface.Stop()
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	if w.lost != nil {
		w.lost.Stop()
		w.lost = nil
	}
	if w.source.open == w {
		w.source.open = nil
	}
}
