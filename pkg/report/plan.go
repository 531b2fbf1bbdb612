// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"github.com/glassback/glassback/pkg/fields"
)

// Plan is what one sync would do for one object, in values that a program prints: see glassback plan.
type Plan struct {
	// Policy is the name of the policy that decided. It is empty for kinds without policies.
	Policy string `json:"policy,omitempty"`
	// Step says what the operation does now; empty if the object is settled.
	Step string `json:"step,omitempty"`
	// Writes are the requests to the API server that change something, in their order.
	Writes []Write `json:"writes,omitempty"`
	// Calls are the commands to Redis and the calls to ECS that change something, in their order.
	Calls []Call `json:"calls,omitempty"`
	// Waiting says that this sync only waits, and that a later one may change something.
	Waiting bool `json:"waiting,omitempty"`
	// Note says why the operator leaves the object as it is.
	Note string `json:"note,omitempty"`
	// Incomplete says what could not be observed; empty if the plan is complete.
	Incomplete string `json:"incomplete,omitempty"`
}

// Settled reports whether there is nothing to do.
func (p *Plan) Settled() bool { return len(p.Writes)+len(p.Calls) == 0 && !p.Waiting }

// Lines returns the plan as text: the step, each write with at most maxFields of its fields, each call, and the rest.
func (p *Plan) Lines(maxFields int) []string {
	var lines []string
	if p.Settled() && p.Incomplete == "" {
		lines = append(lines, "nothing to do")
	}
	switch {
	case p.Policy != "" && p.Step != "":
		lines = append(lines, p.Policy+": "+p.Step)
	case p.Policy+p.Step != "":
		lines = append(lines, p.Policy+p.Step)
	}
	for _, write := range p.Writes {
		lines = append(lines, write.String())
		for _, field := range write.Fields[:min(len(write.Fields), maxFields)] {
			lines = append(lines, "    "+field.String())
		}
		if more := len(write.Fields) - maxFields; more > 0 {
			lines = append(lines, fmt.Sprintf("    and %d more fields: see -o json", more))
		}
	}
	for _, call := range p.Calls {
		lines = append(lines, call.String())
	}
	if p.Note != "" {
		lines = append(lines, "note: "+p.Note)
	}
	if p.Incomplete != "" {
		lines = append(lines, "incomplete: "+p.Incomplete)
	}
	return lines
}

// Write is one request to the API server that changes an object.
type Write struct {
	Verb string `json:"verb"`
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Fields are the fields that the write changes; empty for a deletion and an eviction.
	Fields []fields.Field `json:"fields,omitempty"`
}

// String returns the write in a few words, without its fields.
func (w Write) String() string { return w.Verb + " " + w.Kind + " " + w.Name }

// Call is one command to Redis, or one call to ECS.
type Call struct {
	To      string `json:"to"`
	Command string `json:"command"`
}

// String returns the call in one line.
func (c Call) String() string { return c.To + ": " + c.Command }
