// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/breakpoint"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// observedLoop is a Loop with what the page adds to it.
type observedLoop struct {
	Run

	breakpoint breakpoint.Sync
	counts     counts
}

// observe adds observers to run, which must not run yet.
func observe(run Run, breakpoints bool) *observedLoop {
	o := &observedLoop{Run: run}
	run.Observe(&o.counts)
	if breakpoints {
		run.Observe(&o.breakpoint)
	}
	return o
}

// counts is a loop.Observer that counts keys and syncs.
type counts struct {
	loop.NoObserver

	added, syncs, failed, panics atomic.Uint64
}

// Enqueue implements loop.Observer.
func (c *counts) Enqueue(trace.Event) { c.added.Add(1) }

// End implements loop.Observer.
func (c *counts) End(_ context.Context, _ trace.Event, result loop.Result) {
	c.syncs.Add(1)
	switch result {
	case loop.Panic:
		c.panics.Add(1)
		c.failed.Add(1)
	case loop.Error, loop.Requeue:
		c.failed.Add(1)
	}
}

// show returns the Loop as the API shows it.
func (o *observedLoop) show() *shownLoop {
	return &shownLoop{
		id: o.id(), name: o.Name, kind: o.Kind, namespace: o.Namespace, describe: o.describe, workqueue: o.workqueue, breakpoint: &o.breakpoint,
	}
}

// describe returns the Loop's counts.
func (o *observedLoop) describe() Controller {
	now, snapshot := time.Now(), o.Snapshot()
	c := Controller{
		ID: o.id(), Name: o.Name, Kind: o.Kind, Namespace: o.Namespace, Workers: snapshot.Workers,
		Added: o.counts.added.Load(), Syncs: o.counts.syncs.Load(), Failed: o.counts.failed.Load(), Panics: o.counts.panics.Load(),
		Waiting: o.Waiting(), Processing: len(snapshot.Syncing), SyncHeld: o.breakpoint.Held(),
	}
	for key, at := range snapshot.Timers {
		if at.After(now) {
			c.Timers++
			if o.Queue.NumRequeues(key) > 0 {
				c.Retrying++
			}
		}
	}
	if c.SyncHeld != nil {
		c.SyncHeld.Kept = c.Waiting + c.Processing
	}
	return c
}

// workqueue returns the keys of the Loop: those that wait, those that workers have, and those that return at a time.
func (o *observedLoop) workqueue() *Workqueue {
	now, snapshot := time.Now(), o.Snapshot()
	waiting, processing := o.entries(snapshot.Waiting), o.entries(snapshot.Syncing)
	var timers []Timer
	for key, at := range snapshot.Timers {
		switch object := objectOfKey(o.Kind, key); {
		case at.After(now):
			timers = append(timers, Timer{Object: object, At: at, Retries: o.Queue.NumRequeues(key)})
		case waiting[key] == nil && processing[key] == nil: // The queue has the key again.
			waiting[key] = &Entry{Object: object, Since: at}
		}
	}
	w := newWorkqueue(waiting, processing, timers)
	explain(w.Waiting, snapshot.Waiting)
	explain(w.Processing, snapshot.Syncing)
	return w
}

// entries returns an entry for each key, without its causes: most keys of a long queue are not shown.
func (o *observedLoop) entries(pending map[cache.ObjectName]loop.Pending) map[cache.ObjectName]*Entry {
	entries := make(map[cache.ObjectName]*Entry, len(pending))
	for key, p := range pending {
		entries[key] = &Entry{Object: objectOfKey(o.Kind, key), Since: p.Since}
	}
	return entries
}

// explain adds the causes to entries.
func explain(entries []Entry, pending map[cache.ObjectName]loop.Pending) {
	for n := range entries {
		e := &entries[n]
		p := pending[cache.NewObjectName(e.Namespace, e.Name)]
		e.Causes, e.MoreCauses = causesOf(p.Causes), p.More
	}
}

// newWorkqueue returns the Workqueue with these keys. A key that waits while it is processed is shown as processed.
func newWorkqueue(waiting, processing map[cache.ObjectName]*Entry, timers []Timer) *Workqueue {
	w := &Workqueue{}
	for key, entry := range waiting {
		if processing[key] == nil {
			w.Waiting = append(w.Waiting, *entry)
		}
	}
	for key, entry := range processing {
		shown := *entry
		shown.Again = waiting[key] != nil
		w.Processing = append(w.Processing, shown)
	}
	since := func(e Entry) (time.Time, Object) { return e.Since, e.Object }
	w.Waiting, w.Processing = earliest(w.Waiting, since, &w.More), earliest(w.Processing, since, &w.More)
	w.Timers = earliest(timers, func(t Timer) (time.Time, Object) { return t.At, t.Object }, &w.More)
	return w
}

// earliest returns the first maxEntries keys, and adds the number of the others to more.
func earliest[T any](keys []T, of func(T) (time.Time, Object), more *int) []T {
	slices.SortFunc(keys, func(a, b T) int {
		at, one := of(a)
		then, other := of(b)
		return cmp.Or(at.Compare(then), strings.Compare(one.String(), other.String()))
	})
	left := max(0, len(keys)-maxEntries)
	*more += left
	return append([]T{}, keys[:len(keys)-left]...) // JSON shows no keys as [].
}
