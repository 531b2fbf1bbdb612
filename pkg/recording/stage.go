// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"slices"
	"time"

	"github.com/glassback/glassback/pkg/trace"
)

// Stage is the record of a trace.Event of one of the stages before a sync: from trace.Wire to trace.Enqueue. Record itself has the fields
// of a sync.
type Stage struct {
	Object

	Stage           string         `json:"stage"`
	Source          string         `json:"source"`
	For             *Object        `json:"for,omitempty"`
	Verb            string         `json:"verb,omitempty"`
	ResourceVersion string         `json:"resourceVersion,omitempty"`
	Missed          bool           `json:"missed,omitempty"`
	Changes         []trace.Change `json:"changes,omitempty"`
	Writer          *trace.Writer  `json:"writer,omitempty"`
	// OneIn is the sampling rate at the time of the event: one in OneIn changes was recorded.
	OneIn uint32 `json:"oneIn"`
}

func stageOf(e *trace.Event) *Stage {
	s := &Stage{
		Object: Object(e.Object), Stage: e.Stage.String(), Source: e.Source, Verb: e.Verb, ResourceVersion: e.ResourceVersion, OneIn: e.OneIn,
		Missed: e.Missed, Changes: e.Changes, Writer: e.Writer,
	}
	if e.For != (trace.Object{}) {
		synced := Object(e.For)
		s.For = &synced
	}
	return s
}

// stageNamed returns the stage of this name. It returns false if the name is unknown, or is not that of a stage before a sync.
func stageNamed(name string) (trace.Stage, bool) {
	for stage := trace.Wire; stage < trace.Sync; stage++ {
		if stage.String() == name {
			return stage, true
		}
	}
	return 0, false
}

// Events converts the record to the events that a trace.Recorder got. A stage has one event. A sync has one for its start, one for each
// write and one for its end. Other records have none, and neither has a stage that this program does not know.
func (r *Record) Events() []trace.Event {
	switch {
	case r.Stage != nil:
		return r.Stage.events(r.Time)
	case r.IsSync():
		return r.syncEvents()
	}
	return nil
}

func (s *Stage) events(at time.Time) []trace.Event {
	stage, known := stageNamed(s.Stage)
	if !known {
		return nil
	}
	e := trace.Event{
		Time: at, Stage: stage, OneIn: max(s.OneIn, 1), Source: s.Source, Object: trace.Object(s.Object), Verb: s.Verb,
		ResourceVersion: s.ResourceVersion, Missed: s.Missed, Changes: s.Changes, Writer: s.Writer,
	}
	if s.For != nil {
		e.For = trace.Object(*s.For)
	}
	return []trace.Event{e}
}

func (r *Record) syncEvents() []trace.Event {
	object := trace.Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	sync := trace.Event{
		Time: r.Time, Stage: trace.Sync, OneIn: 1, Source: r.Controller, Object: object, For: object, More: r.MoreCauses,
	}
	for _, c := range r.Causes {
		sync.Causes = append(sync.Causes, trace.Cause{
			Time: c.Time, Object: trace.Object(c.Object), Verb: c.Verb, ResourceVersion: c.ResourceVersion, Fields: c.Fields,
		})
	}
	all := []trace.Event{sync}
	for _, w := range r.Writes {
		all = append(all, trace.Event{
			Time: w.Time, Stage: trace.Write, OneIn: 1, Source: r.Controller, Object: trace.Object(w.Object), For: object, Verb: w.Verb,
			ResourceVersion: w.ResourceVersion, Err: w.Error,
		})
	}
	done := sync
	done.Stage, done.Time, done.Duration = trace.Done, r.Time.Add(r.Took.Duration), r.Took.Duration
	done.After, done.Err = r.After.Duration, r.Error
	all = append(all, done)
	slices.SortStableFunc(all, func(a, b trace.Event) int { return a.Time.Compare(b.Time) })
	return all
}
