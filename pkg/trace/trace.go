// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"strings"
	"time"
)

// Stage is one step of an object from the API server to a sync and back.
type Stage uint8

// The stages, in the order in which an object passes them.
const (
	// Wire: the reflector read the object from the response to a LIST or WATCH.
	Wire Stage = iota + 1
	// Queue: a delta for the object was put into the delta queue.
	Queue
	// Index: the delta was popped and applied to the index.
	Index
	// Dispatch: the event handlers get a notification. The index is already updated.
	Dispatch
	// Enqueue: a handler put a key into a controller's workqueue.
	Enqueue
	// Sync: a worker took the key with its causes.
	Sync
	// Write: the sync wrote an object to the API server.
	Write
	// Done: the sync returned.
	Done
)

var stageNames = [...]string{
	Wire: "wire", Queue: "queue", Index: "index", Dispatch: "dispatch",
	Enqueue: "enqueue", Sync: "sync", Write: "write", Done: "done",
}

// String returns the stage's name in lower case, as the documents use it.
func (s Stage) String() string {
	if int(s) < len(stageNames) && stageNames[s] != "" {
		return stageNames[s]
	}
	return fmt.Sprintf("stage(%d)", uint8(s))
}

// Object names an object. Namespace is "" for a cluster-scoped object.
type Object struct {
	Kind, Namespace, Name string
}

// String renders the object as "Job default/sample".
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	if o.Kind == "" || name == "" {
		return o.Kind + name
	}
	return o.Kind + " " + name
}

// Event records that one object passed one stage.
type Event struct {
	// Seq numbers a Recorder's events from 1 without gaps. The Recorder sets it.
	Seq uint64
	// Time is when the event was reported. The Recorder sets it if it is zero.
	Time time.Time
	// Stage is the stage that reports.
	Stage Stage
	// Missed is set if the watch missed the deletion and a relist revealed it: ResourceVersion is then that of the last known state (Index,
	// Dispatch).
	Missed bool
	// OneIn is n if one in n changes was recorded then; 1 means all. The Recorder sets it if it is 0.
	OneIn uint32
	// Source is the reporting gear: an informer's resource ("jobs.batch") up to Dispatch, a controller's name ("mycronjob") from Enqueue on.
	Source string
	// Object is the object that passed the stage. At Enqueue it is the object whose change is the cause, at Write the written object, and
	// at Sync and Done the same as For.
	Object
	// For is the object that is synced, from Enqueue on.
	For Object
	// ResourceVersion is the object's, if the stage knows it.
	ResourceVersion string
	// Verb is a delta type (Added, Updated, Deleted, Replaced, Sync), or a write ("create jobs.batch").
	Verb string
	// Changes are the fields that differ from the object that the index held before (Index). The slice is shared: do not change it.
	Changes []Change
	// Writer is the last client that wrote the object; nil if it is not known (Index). It is shared: do not change it.
	Writer *Writer
	// Causes are the reasons of the sync (Sync, Done). The slice is shared: do not change it.
	Causes []Cause
	// More counts further causes, which were not kept.
	More int
	// Duration is the duration of the sync (Done).
	Duration time.Duration
	// After is the time after which the sync asked to run again (Done); zero if it did not.
	After time.Duration
	// Err is the text of the error of a write or of a sync (Write, Done).
	Err string
	// Repeats counts the syncs that the Life dropped because this one repeats them: each had a timer as its only cause, wrote nothing and
	// had no error (Done).
	Repeats int
}

// String renders the event in one line, without its time:
//
//	index     jobs.batch  Updated Job default/sample-1641736135 (resourceVersion 4711: status.active 1 → 0)
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-9s %s  ", e.Stage, e.Source)
	switch e.Stage {
	case Enqueue:
		fmt.Fprintf(&b, "%s, because %s", e.For, Cause{Object: e.Object, Verb: e.Verb, ResourceVersion: e.ResourceVersion})
	case Sync:
		b.WriteString(e.For.String())
		for i, cause := range e.Causes {
			b.WriteString([]string{", because ", "; "}[min(i, 1)])
			b.WriteString(cause.String())
		}
		if e.More > 0 {
			fmt.Fprintf(&b, "; and %d more", e.More)
		}
	case Done:
		fmt.Fprintf(&b, "%s, after %s", e.For, e.Duration.Round(time.Microsecond))
		if e.Err != "" {
			fmt.Fprintf(&b, ", failed: %s", e.Err)
		}
		if e.After > 0 {
			fmt.Fprintf(&b, ", again in %s", e.After.Round(time.Millisecond))
		}
		if e.Repeats > 0 {
			fmt.Fprintf(&b, ", like %d before it", e.Repeats)
		}
	default:
		e.describe(&b)
	}
	return b.String()
}

// describe writes the verb, the object and its changes.
func (e Event) describe(b *strings.Builder) {
	fmt.Fprint(b, e.Verb)
	if e.Object != (Object{}) {
		fmt.Fprint(b, " ", e.Object)
	}
	var notes []string
	for _, change := range e.Changes {
		notes = append(notes, change.String())
	}
	switch changed := strings.Join(notes, ", "); {
	case e.ResourceVersion != "" && changed != "":
		fmt.Fprintf(b, " (resourceVersion %s: %s)", e.ResourceVersion, changed)
	case e.ResourceVersion != "":
		fmt.Fprintf(b, " (resourceVersion %s)", e.ResourceVersion)
	}
	if e.Stage == Write {
		fmt.Fprintf(b, ", for %s", e.For)
	}
	if e.Err != "" {
		fmt.Fprintf(b, ", failed: %s", e.Err)
	}
}

// Writer is the last client that wrote an object, as the object's managedFields name it.
type Writer struct {
	// Manager is the name of the client, its field manager.
	Manager string
	// Time is the time of the write by the clock of the API server, in whole seconds.
	Time time.Time
}

// Change is one field of an object that differs from before.
type Change struct {
	// Path is the field's path in JSON, such as "status.active".
	Path string
	// Old and New are readable values of the field; both are "" if they are not shown.
	Old, New string
}

// String renders the change as "status.active 1 → 0".
func (c Change) String() string {
	if c.Old == "" && c.New == "" {
		return c.Path
	}
	return c.Path + " " + c.Old + " → " + c.New
}

// Verbs of causes that are not watch events.
const (
	// VerbAfter: an earlier sync asked to run again at this time.
	VerbAfter = "After"
	// VerbRetry: an earlier sync failed.
	VerbRetry = "Retry"
	// VerbStart: the sync has a key from the start, and no watched object.
	VerbStart = "Start"
)

// Cause is one reason for which a key was put into a workqueue.
type Cause struct {
	// Time is when the key was put in.
	Time time.Time
	// Object is the object whose change is the cause: the synced object, or one that it owns or reads.
	Object
	// Verb is Added, Updated, Deleted, Sync (a periodic resync), After, Retry or Start.
	Verb string
	// ResourceVersion is the object's after the change.
	ResourceVersion string
	// Fields are the paths of the fields that an Updated changed, such as
	// "status.succeeded". Their number is bounded.
	Fields []string
	// Urgent keys are synced before keys of a restart or of a resync.
	Urgent bool
}

// String renders the cause in one line, for a log:
//
//	Updated Job default/sample-1641736135 (resourceVersion 4711: status.succeeded)
func (c Cause) String() string {
	var b strings.Builder
	b.WriteString(c.Verb)
	if c.Object != (Object{}) {
		b.WriteByte(' ')
		b.WriteString(c.Object.String())
	}
	if c.ResourceVersion != "" {
		b.WriteString(" (resourceVersion ")
		b.WriteString(c.ResourceVersion)
		if len(c.Fields) > 0 {
			b.WriteString(": ")
			b.WriteString(strings.Join(c.Fields, ", "))
		}
		b.WriteByte(')')
	}
	return b.String()
}
