/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package trace records what happened to which object, and why.
//
// Every stage of an object's way reports one Event to a Recorder:
//
//	wire → queue → index → dispatch → enqueue → sync … write … done
//	└──────── pkg/pipeline ───────┘   └────── pkg/loop ───────────┘
//
// The Recorder keeps the newest events of all objects in a ring, and the newest of each
// object in its Life, both of a fixed size. It never blocks a stage: a subscriber that is too
// slow loses events, and gets their number. A nil *Recorder is valid and records nothing, so
// that a stage can report with one call in any case.
//
// Recording costs some hundred nanoseconds an event. If there are too many
// changes, the Recorder records only some of them, but each of these at all stages: a stage
// calls Wants first. Syncs, what they wrote and how they ended are always recorded.
//
// Events and causes carry names, versions and field paths. Of values they carry those that
// package changes lets through: numbers, states and short texts of typed fields, and nothing
// of a Secret. The text of an error is the one that the sync returned. A sync must keep
// secrets out of its errors, as out of a log.
package trace
