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

// workqueue returns the keys of the Loop: those that wait, those that workers have, and those that
// return at a time. Each list begins with the earliest.
func (o *observedLoop) workqueue() *Workqueue {
	now, snapshot := time.Now(), o.Snapshot()
	var waiting, processing, timers []datedKey
	for key, p := range snapshot.Syncing {
		processing = append(processing, datedKey{p.Since, key})
	}
	for key, p := range snapshot.Waiting {
		if _, syncing := snapshot.Syncing[key]; !syncing {
			waiting = append(waiting, datedKey{p.Since, key})
		}
	}
	for key, at := range snapshot.Timers {
		_, added := snapshot.Waiting[key]
		_, syncing := snapshot.Syncing[key]
		switch {
		case at.After(now):
			timers = append(timers, datedKey{at, key})
		case !added && !syncing: // The queue has the key again.
			waiting = append(waiting, datedKey{at, key})
		}
	}
	w := &Workqueue{Waiting: []Entry{}, Processing: []Entry{}, Timers: []Timer{}}
	for _, k := range earliest(waiting, &w.More) {
		w.Waiting = append(w.Waiting, o.entry(k, snapshot.Waiting[k.key]))
	}
	for _, k := range earliest(processing, &w.More) {
		entry := o.entry(k, snapshot.Syncing[k.key])
		_, entry.Again = snapshot.Waiting[k.key]
		w.Processing = append(w.Processing, entry)
	}
	for _, k := range earliest(timers, &w.More) {
		w.Timers = append(w.Timers, Timer{Object: objectOfKey(o.Kind, k.key), At: k.at, Retries: o.Queue.NumRequeues(k.key)})
	}
	return w
}

func (o *observedLoop) entry(k datedKey, p loop.Pending) Entry {
	return Entry{Object: objectOfKey(o.Kind, k.key), Since: k.at, Causes: causesOf(p.Causes), MoreCauses: p.More}
}

type datedKey struct {
	at  time.Time
	key cache.ObjectName
}

// earliest returns the first maxEntries keys, and adds the number of the others to more.
func earliest(keys []datedKey, more *int) []datedKey {
	slices.SortFunc(keys, func(a, b datedKey) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.key.String(), b.key.String()))
	})
	left := max(0, len(keys)-maxEntries)
	*more += left
	return keys[:len(keys)-left]
}
