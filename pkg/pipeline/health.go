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

// errBroken is the error of an open WATCH that broke. The reflector logs the details, and 410 Gone only with -v=4.
var errBroken = errors.New("the watch ended with an error, such as 410 Gone: see the log, with -v=4")

// Health says whether an Informer follows the API server.
//
// To judge it, use Synced and the age of Failing. Watching alone says little: a WATCH ends every few
// minutes, and the reflector opens the next one at once.
type Health struct {
	// Synced is the informer's HasSynced.
	Synced bool
	// Watching reports whether a WATCH is open. It is false before the first WATCH, between two of them, and after the informer has stopped.
	Watching bool
	// Failing is the time of the first failure since the informer last followed the API server: a request failed, or the WATCH
	// broke. It is zero without a failure. A WATCH ends it; if it begins with all objects, as soon as these have come. A connection
	// that hangs fails when the client's own timeout ends it.
	Failing time.Time
	// Err is the last failure; nil if Failing is zero.
	Err error
	// Failures counts the LISTs and WATCHes that have failed. It misses a WATCH that breaks before all objects have come: the
	// Reflector repeats it at once.
	Failures int64
}

// Health returns the present state. It is cheap, and does not wait.
func (i *Informer) Health() Health {
	health := i.requests.health()
	health.Synced = i.HasSynced()
	return health
}

// Failures returns how many LISTs and WATCHes have failed. It reads no channel, so a test in another synctest bubble may call it.
func (i *Informer) Failures() int64 { return i.requests.health().Failures }

// requests records the outcome of the Reflector's requests: when each begins and ends. It also ends a WATCH
// that has lost its bookmark. The events of a WATCH do not pass through requests.
//
// The Reflector sends requests from one goroutine, and has one WATCH open at most.
type requests struct {
	mu       sync.Mutex
	open     *openWatch // nil: none
	now      Health     // without Synced and Watching
	noStream bool       // whether a WATCH that began with all objects has lost its bookmark: no other WATCH will begin so

	heard time.Time // when the last object of such a WATCH came
}

// observe returns a ListerWatcher that sends its requests through lw, and records their outcome.
func (r *requests) observe(lw cache.ListerWatcher) cache.ListerWatcher {
	next := cache.ToListerWatcherWithContext(lw)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := next.ListWithContext(ctx, options)
			if err != nil && ctx.Err() == nil {
				r.failed(err)
			}
			return list, err // A success does not end a failure: without a WATCH, the list becomes stale.
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			streams := ptr.Deref(options.SendInitialEvents, false)
			if streams && r.refusesStream() {
				return nil, errNoBookmark // The Reflector sends a LIST instead.
			}
			w, err := next.WatchWithContext(ctx, options)
			if err == nil {
				return r.opened(w, klog.FromContext(ctx), streams), nil
			}
			// A server that cannot begin a WATCH with all objects answers Invalid. This is no failure: the Reflector sends a LIST instead.
			if ctx.Err() == nil && (options.SendInitialEvents == nil || !apierrors.IsInvalid(err)) {
				r.failed(err)
			}
			return nil, err
		},
	}, lw)
}

func (r *requests) opened(w watch.Interface, logger klog.Logger, streams bool) watch.Interface {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := &openWatch{Interface: w, requests: r}
	r.open = open
	if streams {
		r.heard, open.since = time.Now(), time.Now()
		open.lost = time.AfterFunc(bookmarkPatience, func() { r.checkStream(open, logger) })
	} else {
		r.now.Failing, r.now.Err = time.Time{}, nil
	}
	return open
}

// hear records that an object of a WATCH that begins with all objects has come.
func (r *requests) hear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = time.Now()
}

// listed records that all objects have come.
func (r *requests) listed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open != nil && r.open.lost != nil {
		r.open.lost.Stop()
		r.open.lost = nil
		r.now.Failing, r.now.Err = time.Time{}, nil
	}
}

func (r *requests) refusesStream() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noStream
}

// checkStream ends a WATCH that has lost its bookmark.
func (r *requests) checkStream(w *openWatch, logger klog.Logger) {
	r.mu.Lock()
	silent := time.Since(r.heard)
	switch {
	case r.open != w || w.lost == nil:
	case silent < bookmarkPatience && time.Since(w.since) < streamPatience:
		w.lost.Reset(bookmarkPatience - silent)
	default:
		r.noStream, w.lost = true, nil
		defer func() {
			logger.Error(errNoBookmark, "The initial list is incomplete")
			r.failed(errNoBookmark)
			w.Stop()
		}()
	}
	r.mu.Unlock()
}

func (r *requests) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Failing.IsZero() {
		r.now.Failing = time.Now()
	}
	r.now.Err = err
	r.now.Failures++
}

// ended records why a ListAndWatch ended, unless a request has failed already.
func (r *requests) ended(err error) {
	if r.health().Failing.IsZero() {
		r.failed(err)
	}
}

func (r *requests) health() Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	health := r.now
	health.Watching = r.open != nil
	return health
}

// openWatch is a WATCH. The Reflector calls Stop when the WATCH has ended, sometimes twice.
type openWatch struct {
	watch.Interface

	requests *requests
	since    time.Time   // when it was opened, if it begins with all objects
	lost     *time.Timer // runs until the bookmark has come; nil if none is awaited
}

func (w *openWatch) Stop() {
	w.Interface.Stop()
	w.requests.mu.Lock()
	defer w.requests.mu.Unlock()
	if w.lost != nil {
		w.lost.Stop()
		w.lost = nil
	}
	if w.requests.open == w {
		w.requests.open = nil
	}
}
