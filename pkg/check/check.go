// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check implements the command glassback check. It runs the checks of an installation one after the other. For each check, it
// prints the state, the reason, and what to do.
//
//	Section ─▶ Check ─▶ Result ─▶ Outcome ─▶ printer, at once
//	                                  └────▶ Report, at the end
//
// A check is skipped if a check that it needs has failed or was skipped. It runs for a limited time, and not after the context has ended.
package check

import (
	"context"
	"slices"
)

// State is the state that a check found.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning" // it works, but a person should look at it
	Failed  State = "failed"
	Skipped State = "skipped" // the check does not apply, or could not determine the state
)

// Result is what a check found. Reason and Remedy are one line each.
type Result struct {
	State State `json:"state"`
	// Reason explains the state. For OK it is what was found, and may be empty.
	Reason string `json:"reason,omitempty"`
	// Remedy is what to do. A Warning and a failure have one; other states may.
	Remedy string `json:"remedy,omitempty"`
}

func pass(reason string) Result         { return Result{State: OK, Reason: reason} }
func warn(reason, remedy string) Result { return Result{Warning, reason, remedy} }
func fail(reason, remedy string) Result { return Result{Failed, reason, remedy} }
func skip(reason string) Result         { return Result{State: Skipped, Reason: reason} }

// Check checks one property of an installation.
type Check struct {
	// ID names the check for programs. It is the same in every run, and no two checks share it.
	ID string
	// Title says in a few words what is expected.
	Title string
	// Needs are IDs of earlier checks. If one of them has failed or was skipped, this check is skipped.
	Needs []string
	// Run does the check, and returns soon after its context has ended.
	Run func(context.Context) Result
}

// Section is a group of checks.
type Section struct {
	ID    string
	Title string
	// Needs are added to the needs of each check in it.
	Needs []string
	// Checks run in this order.
	Checks []Check
	// More returns checks that depend on what Checks found: they run after them. It may be nil.
	More func() []Check
}

// Outcome is a check that ran, or was skipped.
type Outcome struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Result
	// Because is the ID of the failed or skipped check that this one needs, directly or through others, and for which it was skipped.
	Because string `json:"because,omitempty"`
}

// SectionReport has the outcomes of a section.
type SectionReport struct {
	ID     string    `json:"id"`
	Title  string    `json:"title"`
	Checks []Outcome `json:"checks"`
}

// Report has all outcomes.
type Report struct {
	Sections []SectionReport `json:"sections"`
	// Interrupted says that the context ended before the last check.
	Interrupted bool `json:"interrupted"`
}

// Outcomes returns the outcomes with the given states, or all if none is given.
func (r Report) Outcomes(states ...State) []Outcome {
	var all []Outcome
	for _, s := range r.Sections {
		for _, o := range s.Checks {
			if len(states) == 0 || slices.Contains(states, o.State) {
				all = append(all, o)
			}
		}
	}
	return all
}

// State returns the worst state: Failed, Warning or OK. An interrupted report is Failed.
func (r Report) State() State {
	switch {
	case r.Interrupted || len(r.Outcomes(Failed)) > 0:
		return Failed
	case len(r.Outcomes(Warning)) > 0:
		return Warning
	default:
		return OK
	}
}
