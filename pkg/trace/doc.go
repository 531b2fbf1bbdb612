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
// object in its Life, both of a fixed size. It never blocks a stage: a subscriber that does
// not keep up loses events, and is told how many. A nil *Recorder is a valid one that
// records nothing, so that a stage reports with one plain call whether anybody watches or
// not.
//
// Recording costs some hundred nanoseconds an event. Where changes come faster than
// recordings may cost, only some are recorded, and each of these at all of its stages: a
// stage asks Wants first. Syncs, what they wrote and how they ended are always recorded.
//
// Events and causes carry names, versions and field paths. Of values they carry those that
// package changes lets through: numbers, states and short texts of typed fields, and nothing
// of a Secret. An error's text is what the sync returned; whoever returns an error keeps
// secrets out of it, as out of a log.
package trace
