// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loop connects event handlers, a workqueue and a controller's Sync. Only this package calls a
// queue's Get, Done, Forget and AddAfter, so one place keeps the contract of the workqueue:
//
//	event handler ──Add(key, cause)──▶ causes   (bounded list per key)
//	                              └──▶ workqueue (one entry per key) ──▶ worker ──▶ Sync(ctx, key)
//	                                       ▲                                          │
//	                                       └── after a time, or after a backoff ◀─────┘
//
// A workqueue holds each key once, even after many events, and does not hold the causes. Package loop keeps
// the causes beside the queue, so the log line and the trace of a sync show the events that led to it.
//
// The queue returns keys of changes, and keys that are due, before keys of a restart, of a resync, and of
// failed syncs: see order.
//
// Before Run, handlers add no keys: a standby would collect the keys of all objects that are created and deleted.
// Run begins with the keys of all cached objects.
//
// Two workers never sync the same key at the same time: the queue returns a key that is added during its sync after Done.
//
// Observers see what happens to keys: the trace, metrics, spans, recordings, and the page with its breakpoints.
//
// Written makes a sync wait until the caches show the writes of the previous sync.
package loop
