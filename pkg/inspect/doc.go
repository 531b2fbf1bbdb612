/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package inspect is the glass back: a page, and the API behind it, on which the gears of a
// running operator can be watched.
//
//	/inspect/                 the page
//	/inspect/api/overview     all gears at this moment                                (Overview)
//	/inspect/api/stream       the same, twice a second, and what passes between       (Overview, Events)
//	/inspect/api/queue        what a delta queue holds: ?informer=                    (Queue)
//	/inspect/api/index        what an index holds: ?informer=&by=                     (Index)
//	/inspect/api/workqueue    what a workqueue holds, and who works: ?controller=     (Workqueue)
//	/inspect/api/life         what happened to one object: ?kind=&namespace=&name=    (Life)
//	/inspect/api/find         objects whose name has a text in it: ?q=                (Found)
//	/inspect/api/hold         POST: hold a gear by hand                               (HoldRequest → Overview)
//
// All of it is read from where it is: pipeline.Informer and loop.Loop tell what they hold, and
// trace.Recorder what has passed. Nothing is kept here but what a client has seen last, so
// that nobody who looks holds anybody up. An error is a Problem, with a status of 400 or more.
//
// Names, versions, times and field paths are shown, and of values what trace lets through:
// nothing that an object holds as data, and nothing of a Secret.
package inspect
