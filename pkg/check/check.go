/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package check asks one thing after the other about an installation, and says of each how it
// is, why, and what to do about it. It knows nothing of what is asked.
//
//	Section ─▶ Check ─▶ Result ─▶ Outcome ─▶ Text, as it comes
//	                                  └────▶ Report, at the end
//
// A check is only asked if all that it needs has passed, for no longer than it may take, and
// not any more once the context has ended.
package check

import (
	"context"
	"slices"
)

// State is how it is with what a check is about.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning" // It works, and somebody should look at it.
	Failed  State = "failed"
	Skipped State = "skipped" // It does not apply, or cannot be told.
)

// Result is what a check says. Reason and Remedy are one line each.
type Result struct {
	State State `json:"state"`
	// Reason is why the state is so. For OK it is what was found, and may be left out.
	Reason string `json:"reason,omitempty"`
	// Remedy is what to do about a Warning or a failure.
	Remedy string `json:"remedy,omitempty"`
}

// Pass returns the result of what is as it should be.
func Pass(reason string) Result { return Result{State: OK, Reason: reason} }

// Warn returns the result of what works, and should be looked at.
func Warn(reason, remedy string) Result { return Result{Warning, reason, remedy} }

// Fail returns the result of what is not as it has to be.
func Fail(reason, remedy string) Result { return Result{Failed, reason, remedy} }

// Skip returns the result of what does not apply or cannot be told.
func Skip(reason string) Result { return Result{State: Skipped, Reason: reason} }

// Check is one thing to ask.
type Check struct {
	// ID names the check for programs. It is the same in every run, and no other one's.
	ID string
	// Title says in a few words how it should be.
	Title string
	// Needs are IDs of earlier checks. If one of them has failed or was skipped, this one is
	// skipped.
	Needs []string
	// Run asks, and returns soon after its context has ended.
	Run func(context.Context) Result
}

// Section is what is asked about one thing.
type Section struct {
	ID    string
	Title string
	// Needs are what every check of it needs besides its own.
	Needs []string
	// Checks are asked in this order.
	Checks []Check
	// More returns checks that depend on what Checks have found: they come after them. It may
	// be nil.
	More func() []Check
}

// Outcome is a check that was run, or skipped.
type Outcome struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Result
	// Because is the ID of the check that has not passed, and that this one needs: so it was
	// skipped.
	Because string `json:"because,omitempty"`
}

// SectionReport is what came of a section.
type SectionReport struct {
	ID     string    `json:"id"`
	Title  string    `json:"title"`
	Checks []Outcome `json:"checks"`
}

// Report is what came of all.
type Report struct {
	Sections []SectionReport `json:"sections"`
	// Interrupted says that not all could be asked.
	Interrupted bool `json:"interrupted"`
}

// Outcomes returns those of the given states, or all if none is given.
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

// State returns the worst of all: Failed, Warning or OK.
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
