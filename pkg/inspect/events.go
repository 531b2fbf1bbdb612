// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"

	"github.com/glassback/glassback/pkg/trace"
)

// lineTime is the format of the time in an event's line.
const lineTime = "15:04:05.000000"

// event returns the JSON form of a trace.Event.
func (s *server) event(e *trace.Event) Event {
	shown := Event{
		Seq: e.Seq, Time: e.Time, Stage: e.Stage.String(), Source: e.Source, Object: e.Object,
		ResourceVersion: e.ResourceVersion, Verb: e.Verb, Missed: e.Missed, Changes: e.Changes, Writer: e.Writer,
		Causes: causesOf(e.Causes), MoreCauses: e.More, Duration: e.Duration.Seconds(), After: e.After.Seconds(), Error: e.Err,
		Repeats: e.Repeats, Line: e.Time.Format(lineTime) + "  " + e.String(),
	}
	if e.Stage >= trace.Enqueue {
		object := e.For
		shown.For, shown.Source = &object, cmp.Or(s.loopOf(e.Source, e.For.Namespace), e.Source)
	}
	return shown
}

func causesOf(causes []trace.Cause) []Cause {
	var all []Cause
	for _, c := range causes {
		all = append(all, Cause{
			Time: c.Time, Verb: c.Verb, Object: c.Object, ResourceVersion: c.ResourceVersion, Fields: c.Fields, Line: c.String(),
		})
	}
	return all
}

// filter selects the events that match all of its non-empty fields.
type filter struct {
	kind, namespace, name string // of the object, or of the object that is synced
	source                string // an informer or a controller
}

func (f filter) wants(e *Event) bool {
	if f.source != "" && f.source != e.Source {
		return false
	}
	return f.matches(e.Object) || (e.For != nil && f.matches(*e.For))
}

func (f filter) matches(o Object) bool {
	return (f.kind == "" || f.kind == o.Kind) && (f.namespace == "" || f.namespace == o.Namespace) && (f.name == "" || f.name == o.Name)
}
