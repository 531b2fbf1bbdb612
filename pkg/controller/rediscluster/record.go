// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"github.com/glassback/glassback/pkg/recording"
)

// Decisions lets glassback replay decide again. It merges the views of the members again. It does not compute again which Pods are
// outdated, and which directives and users are to be set: they depend on texts that are not recorded.
var Decisions = recording.NewKind(kind.Kind, plan{}, restore, decide)

// Record implements recording.Observed.
func (o *observed) Record() any {
	r := *o
	r.Histories = map[string]history{}
	for id, n := range o.nodes {
		if n.history != (history{}) {
			r.Histories[id] = n.history
		}
	}
	return &r
}

// restore sets what is derived from the recorded fields.
func restore(o *observed) *observed {
	o.matchServices()
	o.merge()
	for id, known := range o.Histories {
		if n := o.nodes[id]; n != nil {
			n.history = known
		}
	}
	return o
}
