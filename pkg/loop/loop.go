/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/trace"
)

// SyncFunc brings the object named key to its desired state, as far as one pass
// can. What it returns decides when the key comes back without an event:
//
//   - err: after a backoff, but no later than after, if that is positive;
//   - after > 0, no err: once that much time has passed;
//   - neither: not at all.
type SyncFunc func(ctx context.Context, key cache.ObjectName) (after time.Duration, err error)

// Soonest returns the shorter of two times to wait, of which 0 is none: see SyncFunc.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// Config is what a Loop is made of.
type Config struct {
	// Name is the controller's, for logs and traces.
	Name string
	// Kind is that of the objects whose keys are synced, such as "MyCronJob".
	Kind string
	// Queue holds the keys that are to be synced. The Loop shuts it down.
	Queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// Limiter is the one that Queue asks: for State to tell when what failed comes back. May
	// be nil.
	Limiter *Limiter
	// Sync is called with each key that the queue hands out.
	Sync SyncFunc
	// Trace is told of every stage; nil for nobody.
	Trace *trace.Recorder
}

// Loop runs a controller's Sync for the keys of its queue.
type Loop struct {
	Config
	causes   causes
	metrics  Metrics
	hold     hold
	handlers []*handler
	begun    atomic.Bool // Run has been called, and handlers add keys

	workers, added, syncs, failed, panics atomic.Int64
}

// New returns a Loop. It starts nothing: keys may be added before Run.
func New(config Config) *Loop {
	return &Loop{Config: config, causes: newCauses(), metrics: metricsOf(config.Name)}
}

// Add puts key into the queue, because of cause. The cause is recorded before
// the key: a worker that is handed the key finds it.
func (l *Loop) Add(key cache.ObjectName, cause trace.Cause) {
	if cause.Time.IsZero() {
		cause.Time = time.Now()
	}
	l.added.Add(1)
	l.causes.add(key, cause)
	if l.Trace.Wants(cause.ResourceVersion) {
		l.Trace.Report(trace.Event{
			Time: cause.Time, Stage: trace.Enqueue, Source: l.Name, Verb: cause.Verb,
			Object: cause.Object, For: l.object(key), ResourceVersion: cause.ResourceVersion,
		})
	}
	l.Queue.Add(key)
}

func (l *Loop) object(key cache.ObjectName) trace.Object {
	return trace.Object{Kind: l.Kind, Namespace: key.Namespace, Name: key.Name}
}

// Panics returns how many syncs have panicked.
func (l *Loop) Panics() int64 { return l.panics.Load() }

// Run adds the keys of all cached objects, and syncs keys with the given number of
// workers until ctx is done. The caches have to be synced. It returns when the last
// sync has ended. Keys that wait in the queue then are left: the next
// start finds their objects again. Syncs under way go on with drain, a context
// that outlives ctx; cancel it to cut them short.
func (l *Loop) Run(ctx, drain context.Context, workers int) {
	logger := klog.FromContext(ctx).WithValues("controller", l.Name)
	drain = klog.NewContext(drain, logger)
	l.metrics.Workers(workers)
	l.workers.Add(int64(workers))
	defer func() {
		l.workers.Add(int64(-workers))
		l.metrics.Workers(-workers)
	}()
	l.begin()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for l.next(ctx, drain) {
			}
		})
	}
	logger.Info("Started controller", "workers", workers)
	<-ctx.Done()
	l.Queue.ShutDown()
	running.Wait()
	logger.Info("Stopped controller")
}

// next syncs one key. It returns false once the queue is shut down and empty.
func (l *Loop) next(ctx, drain context.Context) bool {
	key, shutdown := l.Queue.Get()
	if shutdown {
		return false
	}
	defer l.Queue.Done(key)
	if ctx.Err() != nil {
		return true
	}
	why := l.causes.take(key, time.Now(), l.Queue.NumRequeues(key) > 0)
	if l.hold.wait(ctx); ctx.Err() != nil {
		l.causes.done(key, time.Now(), 0, 0)
		return true
	}
	start := time.Now()
	l.metrics.Started(why.causes)
	l.Trace.Report(trace.Event{
		Time: start, Stage: trace.Sync, Source: l.Name, Object: l.object(key), For: l.object(key), Causes: why.causes, More: why.more,
	})
	logger := klog.FromContext(drain).WithValues("object", key)
	syncCtx := context.WithValue(klog.NewContext(drain, logger), contextKey{}, why.causes)
	after, err := l.syncOnce(syncCtx, key)
	took := time.Since(start)
	l.metrics.Finished(resultOf(after, err), took)
	l.finish(logger, key, why, took, after, err)
	return true
}

// syncOnce calls Sync, and makes an error of a panic.
func (l *Loop) syncOnce(ctx context.Context, key cache.ObjectName) (after time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			l.panics.Add(1)
			l.metrics.Panicked()
			err = fmt.Errorf("panic in sync: %v", r)
			klog.FromContext(ctx).Error(err, "Recovered from a panic", "stack", string(debug.Stack()))
		}
	}()
	return l.Sync(ctx, key)
}

// finish puts the key back as the outcome says, and tells of it.
func (l *Loop) finish(logger klog.Logger, key cache.ObjectName, why pending, took, after time.Duration, err error) {
	event := trace.Event{
		Stage: trace.Done, Source: l.Name, Object: l.object(key), For: l.object(key), Causes: why.causes, More: why.more, Duration: took, After: after,
	}
	l.syncs.Add(1)
	delay, retries, now := after, 0, time.Now() // before the queue looks at its clock
	if err == nil {
		l.Queue.Forget(key)
	} else {
		event.Err = err.Error()
		l.failed.Add(1)
		l.Queue.AddRateLimited(key)
		retries = l.Queue.NumRequeues(key)
		delay = Soonest(after, l.Limiter.last(key)) // The queue keeps the earlier of the two.
	}
	if after > 0 {
		l.Queue.AddAfter(key, after)
	}
	l.causes.done(key, now, delay, retries)
	l.Trace.Report(event)
	if isConflict(err) {
		// Somebody else wrote first. The watch brings their version; nothing is wrong.
		logger.V(4).Info("Sync met a conflict and runs again", "causes", why, "err", err)
	} else if err != nil {
		logger.Error(err, "Sync failed and runs again", "causes", why, "duration", took, "retries", l.Queue.NumRequeues(key))
	} else {
		logger.V(2).Info("Synced", "causes", why, "duration", took, "after", after)
	}
}

// isConflict returns whether err is a conflict, and nothing else besides.
func isConflict(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !isConflict(err) })
	}
	return apierrors.IsConflict(err)
}
