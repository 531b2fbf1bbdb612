/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package inspect

import (
	"cmp"
	"time"

	"github.com/glassback/glassback/pkg/trace"
)

// lineTime is how the time of an event is written in a line.
const lineTime = "15:04:05.000000"

// event renders a trace.Event.
func (s *server) event(e *trace.Event) Event {
	shown := Event{
		Seq: e.Seq, Time: e.Time, Stage: e.Stage.String(), Source: e.Source, Object: objectOf(e.Object),
		ResourceVersion: e.ResourceVersion, Verb: e.Verb, Causes: causesOf(e.Causes), MoreCauses: e.More,
		Duration: e.Duration.Seconds(), After: e.After.Seconds(), Error: e.Err, Repeats: e.Repeats, Line: e.Time.Format(lineTime) + "  " + e.String(),
	}
	if e.Stage >= trace.Enqueue {
		object := objectOf(e.For)
		shown.For, shown.Source = &object, cmp.Or(s.loopOf(e.Source, e.For.Namespace), e.Source)
	}
	for _, c := range e.Changes {
		shown.Changes = append(shown.Changes, Change(c))
	}
	return shown
}

func objectOf(o trace.Object) Object { return Object(o) }

func causesOf(causes []trace.Cause) []Cause {
	var all []Cause
	for _, c := range causes {
		all = append(all, Cause{
			Time: c.Time, Verb: c.Verb, Object: objectOf(c.Object), ResourceVersion: c.ResourceVersion, Fields: c.Fields, Line: c.String(),
		})
	}
	return all
}

// narrow says which events somebody wants to see: those that have all that is not empty.
type narrow struct {
	kind, namespace, name string // of the object, or of the one that is synced
	source                string // an informer or a controller
}

func (n narrow) wants(e *Event) bool {
	if n.source != "" && n.source != e.Source {
		return false
	}
	return n.is(e.Object) || (e.For != nil && n.is(*e.For))
}

func (n narrow) is(o Object) bool {
	return (n.kind == "" || n.kind == o.Kind) && (n.namespace == "" || n.namespace == o.Namespace) && (n.name == "" || n.name == o.Name)
}

// How often the stream sends, and how many events at most at a time.
const (
	eventsEvery   = 100 * time.Millisecond
	overviewEvery = 500 * time.Millisecond
	mostEvents    = 500
	// sendPatience is for a client that does not read.
	sendPatience = 5 * time.Second
	mostStreams  = 32
	// rightEvery is how often the right to see a stream that goes on is asked for again.
	rightEvery = time.Minute
)
