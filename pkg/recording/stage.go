// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"slices"
	"time"

	"github.com/glassback/glassback/pkg/trace"
)

// Stage is an event of one of the stages before a sync, from the wire to the workqueue: see trace.Event. Syncs have records of their own.
type Stage struct {
	Object

	Stage           string   `json:"stage"`
	Source          string   `json:"source"`
	For             *Object  `json:"for,omitempty"`
	Verb            string   `json:"verb,omitempty"`
	ResourceVersion string   `json:"resourceVersion,omitempty"`
	Changes         []Change `json:"changes,omitempty"`
	Writer          *Writer  `json:"writer,omitempty"`
	// OneIn is n if one in n changes was recorded then.
	OneIn uint32 `json:"oneIn"`
}

// Change is one field: see trace.Change.
type Change struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Writer is the last client that wrote the object: see trace.Writer.
type Writer struct {
	Manager string    `json:"manager"`
	Time    time.Time `json:"time"`
}

func stageOf(e *trace.Event) *Stage {
	s := &Stage{
		Object: Object(e.Object), Stage: e.Stage.String(), Source: e.Source, Verb: e.Verb, ResourceVersion: e.ResourceVersion, OneIn: e.OneIn,
	}
	if e.For != (trace.Object{}) {
		of := Object(e.For)
		s.For = &of
	}
	if e.Writer != nil {
		s.Writer = &Writer{e.Writer.Manager, e.Writer.Time}
	}
	for _, c := range e.Changes {
		s.Changes = append(s.Changes, Change(c))
	}
	return s
}

// stageNamed returns a stage before a sync, and whether there is one with this name.
func stageNamed(name string) (trace.Stage, bool) {
	for stage := trace.Wire; stage < trace.Sync; stage++ {
		if stage.String() == name {
			return stage, true
		}
	}
	return 0, false
}

// Events returns what a trace.Recorder got: the event of a stage, or the events of a sync, its writes and its end. It returns none for
// another line, and for a stage that this program does not know.
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
		ResourceVersion: s.ResourceVersion,
	}
	if s.For != nil {
		e.For = trace.Object(*s.For)
	}
	if s.Writer != nil {
		e.Writer = &trace.Writer{Manager: s.Writer.Manager, Time: s.Writer.Time}
	}
	for _, c := range s.Changes {
		e.Changes = append(e.Changes, trace.Change(c))
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
