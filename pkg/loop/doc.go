/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package loop is what stands between a workqueue and a controller's Sync. It is
// the only code that calls a queue's Get, Done, Forget and AddRateLimited, so
// the contract of the workqueue is kept in one place:
//
//	event handler ──Add(key, cause)──▶ causes   (bounded list per key)
//	                              └──▶ workqueue (one entry per key) ──▶ worker ──▶ Sync(ctx, key)
//	                                       ▲                                          │
//	                                       └── after, or rate-limited on an error ◀───┘
//
// A workqueue holds each key once, however many events asked for it, and so
// forgets why. The list of causes beside it remembers: the sync that an event
// led to finds the event in its context, in its log line, and in its trace.
//
// Before Run, handlers add nothing: an operator that stands by for another one would collect
// the keys of all objects that come and go. Run begins with the keys of all cached objects.
//
// Two workers never sync the same key at the same time: a key that is added
// while it is being synced is handed out again after Done.
package loop
