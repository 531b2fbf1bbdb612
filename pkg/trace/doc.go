// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trace records what happened to which object, and why.
//
// Each stage that an object passes reports one Event to a Recorder:
//
//	wire → queue → index → dispatch → enqueue → sync … write … done
//	└──────── pkg/pipeline ───────┘   └────── pkg/loop ───────────┘
//
// The Recorder keeps the newest events of all objects in a ring, and the newest events of each object in its Life. Both have a fixed size.
// The Recorder never blocks a stage: a slow reader misses events, and learns how many. A nil *Recorder is valid and records nothing.
//
// Recording takes some hundred nanoseconds an event. If there are too many changes, the Recorder samples them: it records a change at all
// stages or at none, and a stage calls Wants first. Syncs, their writes and their results are always recorded.
//
// Events and causes contain names, versions and field paths. They contain only values that the page may show: see package fields. The text
// of an error is the one that the sync returned. A sync must keep secrets out of its errors, just as out of the log.
package trace
