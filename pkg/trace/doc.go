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
// The Recorder keeps the newest events in a ring of fixed size and hands each
// one to its subscribers. It never blocks a stage: a subscriber that does not
// keep up loses events, and is told how many. Reporting does not allocate, and
// a nil *Recorder is a valid one that records nothing, so that a stage reports
// with one plain call whether anybody watches or not.
//
// Events and causes carry names, versions and field paths, not values: what an
// object holds does not leak through its trace. An error's text is the exception;
// whoever returns an error from a sync keeps secrets out of it, as out of a log.
package trace
