// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect serves a page and the API of this page. They show the gears of a running operator: its informers, workqueues and workers.
//
//	/inspect/                 the page
//	/inspect/api/overview     the state of all gears                                  (Overview)
//	/inspect/api/stream       the same, twice a second, and the events in between     (Overview, Events)
//	/inspect/api/queue        the content of a delta queue: ?informer=                (Queue)
//	/inspect/api/index        the content of an index: ?informer=&by=                 (Index)
//	/inspect/api/workqueue    the keys of a workqueue and its workers: ?controller=   (Workqueue)
//	/inspect/api/life         the events of one object: ?kind=&namespace=&name=       (Life)
//	/inspect/api/find         objects whose name contains a text: ?q=                 (Found)
//	/inspect/api/hold         POST: hold a gear by hand                               (HoldRequest → Overview)
//
// glassback inspect serves the same for a moment of a recording: ?at=TIME. The trace.Recorder then gets the recorded events up to that
// moment, and the state of the informers and workqueues is the last recorded one (playback.go, tape.go, moment.go).
//
// The state comes from pipeline.Informer and loop.Loop, and the events from trace.Recorder. This package itself keeps only the breakpoints
// and the counts of each Loop, as observers of the Loop. An error is a Problem, with a status of 400 or more.
//
// The API shows names, versions, times and field paths. It shows the values that trace records: no data
// of an object, and nothing of a Secret.
package inspect
