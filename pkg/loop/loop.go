// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/trace"
)

// SyncFunc reconciles the object named key once. Its results say when Sync runs for the key again, if no event comes earlier:
//
//   - an error: after a backoff; if after is shorter and > 0, after that time;
//   - after > 0 and no error: after that time;
//   - after = 0 and no error: never.
type SyncFunc func(ctx context.Context, key cache.ObjectName) (after time.Duration, err error)

// maxSync bounds a sync: after this time, its context ends. The longest call that a sync makes, to create a VM, may take a minute. A time
// that a sync is held before it begins, such as at a breakpoint, does not count.
const maxSync = 2 * time.Minute

// Soonest returns the shorter of two delays. 0 means no delay, as in the result of a SyncFunc.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// Config describes a Loop.
type Config struct {
	// Name is the controller's name, for logs, metrics and traces.
	Name string
	// Kind is the kind of the objects whose keys are synced, such as "MyCronJob".
	Kind string
	// Sync is called with each key. Its context ends after two minutes.
	Sync SyncFunc
	// MinRetry is the backoff after the first error for a key. Each further error doubles it, up to MaxRetry.
	MinRetry, MaxRetry time.Duration
	// Clock measures the delays; nil is the real clock.
	Clock clock.WithTicker
	// Observers observe the keys and the syncs, in this order. The observers of writes are those of NewWritten.
	Observers []Observer
}

// Loop runs a controller's Sync for the keys of its queue.
type Loop struct {
	Config
	// Queue holds the keys that wait for a sync. Run shuts it down.
	Queue workqueue.TypedRateLimitingInterface[cache.ObjectName]

	limiter  workqueue.TypedRateLimiter[cache.ObjectName]
	order    *order
	causes   causes
	handlers []*handler
	begun    atomic.Bool // set by Run; handlers add keys only afterwards
	workers  atomic.Int64
}

// New returns a Loop. It starts nothing.
func New(config Config) *Loop {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](config.MinRetry, config.MaxRetry)
	l := &Loop{Config: config, limiter: limiter, causes: newCauses()}
	l.order = newOrder(func(key cache.ObjectName) bool { return l.causes.urgent(key, time.Now()) })
	// These are the three layers of client-go's workqueue. The innermost one uses order instead of the default FIFO.
	keys := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{
		Name: config.Name, Clock: config.Clock, Queue: l.order,
	})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[cache.ObjectName]{
		Name: config.Name, Clock: config.Clock, Queue: keys,
	})
	l.Queue = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{
		Name: config.Name, DelayingQueue: delayed,
	})
	return l
}

// Observe adds an observer of the keys and the syncs. Call it before Run.
func (l *Loop) Observe(observer Observer) { l.Observers = append(slices.Clip(l.Observers), observer) }

// Add puts key into the queue because of cause. It records the cause first: the worker that gets the key needs it.
func (l *Loop) Add(key cache.ObjectName, cause trace.Cause) {
	if cause.Time.IsZero() {
		cause.Time = time.Now()
	}
	l.causes.add(key, cause)
	event := trace.Event{
		Time: cause.Time, Stage: trace.Enqueue, Source: l.Name, Verb: cause.Verb,
		Object: cause.Object, For: l.object(key), ResourceVersion: cause.ResourceVersion,
	}
	for _, o := range l.Observers {
		o.Enqueue(event)
	}
	l.Queue.Add(key)
}

func (l *Loop) object(key cache.ObjectName) trace.Object {
	return trace.Object{Kind: l.Kind, Namespace: key.Namespace, Name: key.Name}
}

// Run adds the keys of all cached objects, and syncs keys with the given number of workers until ctx ends. The caches must be synced.
// After ctx has ended, Run starts no sync, and returns when the last running sync has ended. It drops the keys in the queue: the next
// start adds the keys of all objects. Syncs get drain, a context that outlives ctx. Cancel drain to interrupt them.
func (l *Loop) Run(ctx, drain context.Context, workers int) {
	logger := klog.FromContext(ctx).WithValues("controller", l.Name)
	drain = klog.NewContext(drain, logger)
	for _, o := range l.Observers {
		defer o.Run(ctx, workers)()
	}
	l.workers.Add(int64(workers))
	defer l.workers.Add(int64(-workers))
	l.order.setWorkers(workers)
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

// next syncs one key; after ctx has ended, it drops the key. It returns false once the queue is shut down and empty.
func (l *Loop) next(ctx, drain context.Context) bool {
	key, shutdown := l.Queue.Get()
	if shutdown {
		return false
	}
	defer l.Queue.Done(key)
	defer l.order.done(key)
	if ctx.Err() != nil {
		return true
	}
	start := time.Now()
	why := l.causes.take(key, start, l.Queue.NumRequeues(key) > 0)
	ctx = klog.NewContext(drain, klog.FromContext(drain).WithValues("object", key))
	event := l.event(trace.Sync, start, key, why)
	for _, o := range l.Observers {
		ctx = o.Begin(ctx, event)
	}
	after, result, err := l.syncOnce(ctx, key)
	l.finish(ctx, key, why, time.Since(start), after, result, err)
	return true
}

// event returns a trace event of the sync of key.
func (l *Loop) event(stage trace.Stage, at time.Time, key cache.ObjectName, why Pending) trace.Event {
	return trace.Event{Time: at, Stage: stage, Source: l.Name, Object: l.object(key), For: l.object(key), Causes: why.Causes, More: why.More}
}

// syncOnce calls Sync, unless ctx ended while an observer held the sync. It returns a panic as an error.
func (l *Loop) syncOnce(ctx context.Context, key cache.ObjectName) (after time.Duration, result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in sync: %v", r)
			result = Panic
			klog.FromContext(ctx).Error(err, "Recovered from a panic", "stack", string(debug.Stack()))
		}
	}()
	if ctx.Err() != nil {
		return 0, Error, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, maxSync)
	defer cancel()
	after, err = l.Sync(limited, key)
	return after, resultOf(after, err), err
}

// finish requeues the key if the outcome of its sync requires that, and reports the outcome.
func (l *Loop) finish(ctx context.Context, key cache.ObjectName, why Pending, took, after time.Duration, result Result, err error) {
	text := ""
	delay, now := after, time.Now() // before the queue reads its clock
	if err == nil {
		l.Queue.Forget(key)
	} else {
		// errors.Join puts each error on a separate line. The log must show all errors in the line that names the object.
		text = strings.ReplaceAll(err.Error(), "\n", "; ")
		retry := l.limiter.When(key)
		l.Queue.AddAfter(key, retry) // This is AddRateLimited, which does not return the delay.
		delay = Soonest(after, retry)
	}
	if after > 0 {
		l.Queue.AddAfter(key, after) // The queue keeps the earlier of two times.
	}
	l.causes.done(key, now, delay, err != nil, delay == after)
	event := l.event(trace.Done, time.Now(), key, why)
	event.Duration, event.After, event.Err = took, after, trace.Shorten(text)
	for _, o := range l.Observers {
		o.End(ctx, event, result)
	}
	logger := klog.FromContext(ctx)
	switch {
	case result == Requeue:
		// A conflict is no error: the object has changed since it was cached, and the watch will deliver the newer version.
		logger.V(4).Info("Sync met a conflict and runs again", "causes", why, "err", text)
	case err != nil:
		logger.Error(errors.New(text), "Sync failed and runs again", "causes", why, "duration", took, "retries", l.Queue.NumRequeues(key))
	default:
		logger.V(2).Info("Synced", "causes", why, "duration", took, "after", after)
	}
}

// isConflict reports whether err is a conflict, or joins conflicts only.
func isConflict(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !isConflict(err) })
	}
	return apierrors.IsConflict(err)
}
