// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"time"

	"github.com/glassback/glassback/pkg/recording"
)

// Decisions lets the command glassback replay call decide again. A record holds tokens instead of tag values: decide compares the tokens of
// the spec with those of the instance.
var Decisions = recording.NewKind(kind.Kind, Plan{}, func(o *Observed) *Observed { return o }, decide)

// Record implements recording.Observed. It returns a copy with times of the wall clock. The sync itself, and the memory for the next one,
// keep those of this process: they stay right when the wall clock is set.
func (o *Observed) Record() any {
	r := *o
	m := &r.Memory
	for _, t := range []*time.Time{
		&r.Now, &r.PolledAt, &r.AnsweredAt, &m.ChangedAt, &m.Trial.Again, &m.MissingSince, &m.UnreachableSince, &m.UntaggedSince,
		&m.NothingFoundSince, &m.Backoff.Until, &m.AddressUntil,
	} {
		*t = recording.Wall(o.Now, *t)
	}
	return &r
}

// Record implements recording.Plan.
func (p Plan) Record(*Observed) any { return p }
