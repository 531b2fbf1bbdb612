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
	// Queue: a delta for the object is about to be put into the delta queue.
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
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
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
	// Missed is set if the watch missed the deletion and a relist revealed it. Then ResourceVersion is that of the last known state
	// (Index, Dispatch).
	Missed bool
	// OneIn is the sampling rate at the time of the event: one in OneIn changes was recorded; 1 means all. The Recorder sets it if it is 0.
	OneIn uint32
	// Source is what reports the event: an informer's name ("jobs.batch") up to Dispatch, a controller's name ("mycronjob") from Enqueue on.
	Source string
	// Object is the object that passed the stage. At Enqueue it is the object whose change is the cause, at Write the written object, and
	// at Sync and Done the same as For.
	Object
	// For is the object that is synced, from Enqueue on.
	For Object
	// ResourceVersion is the resourceVersion of Object; "" if the stage does not know it.
	ResourceVersion string
	// Verb is a delta type (Added, Updated, Deleted, Replaced, Sync), or a write ("create jobs.batch"). From Enqueue on, Sync is an
	// update from a state to itself, by a relist or a resync.
	Verb string
	// Changes are the fields that differ from the object that the index held before (Index). The slice is shared: do not change it.
	Changes []Change
	// Writer is the last client that wrote the object; nil if unknown (Index). The pointer is shared: do not change the Writer.
	Writer *Writer
	// Causes are the reasons of the sync (Sync, Done). The slice is shared: do not change it.
	Causes []Cause
	// More counts the causes that were not kept.
	More int
	// Duration is the duration of the sync (Done).
	Duration time.Duration
	// After is the time after which the sync asked to run again (Done); zero if it did not ask.
	After time.Duration
	// Err is the text of the error of a write or of a sync (Write, Done).
	Err string
	// Repeats counts the earlier syncs that the Life dropped because this sync repeats them (Done). Each had a timer as its only cause, no
	// write and no error.
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
		var changed []string
		for _, change := range e.Changes {
			changed = append(changed, change.String())
		}
		b.WriteString(describe(e.Verb, e.Object, e.ResourceVersion, strings.Join(changed, ", ")))
		if e.Stage == Write {
			fmt.Fprintf(&b, ", for %s", e.For)
		}
		if e.Err != "" {
			fmt.Fprintf(&b, ", failed: %s", e.Err)
		}
	}
	return b.String()
}

// describe returns the verb, the object with its resourceVersion, and what changed.
func describe(verb string, o Object, resourceVersion, changed string) string {
	text := verb
	if o != (Object{}) {
		text += " " + o.String()
	}
	switch {
	case resourceVersion != "" && changed != "":
		text += " (resourceVersion " + resourceVersion + ": " + changed + ")"
	case resourceVersion != "":
		text += " (resourceVersion " + resourceVersion + ")"
	}
	return text
}

// Writer is the last client that wrote an object, as the object's managedFields name it.
type Writer struct {
	// Manager is the name of the client, its field manager.
	Manager string `json:"manager"`
	// Time is the time of the write by the clock of the API server, in whole seconds.
	Time time.Time `json:"time"`
}

// Change is one field of an object that differs from before.
type Change struct {
	// Path is the field's path in JSON, such as "status.active".
	Path string `json:"path"`
	// Old and New are readable values of the field; both are "" if they may be secret, or are too large.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
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
	// VerbStart: the controller added its key when it started.
	VerbStart = "Start"
)

// Cause is one reason for which a key was put into a workqueue.
type Cause struct {
	// Time is when the key was added.
	Time time.Time
	// Object is the object whose change is the cause: the synced object, or one that it owns or reads.
	Object
	// Verb is Added, Updated, Deleted, Sync (unchanged in a relist or a resync), After, Retry or Start.
	Verb string
	// ResourceVersion is the resourceVersion of Object after the change.
	ResourceVersion string
	// Fields are the paths of the fields that an Updated changed, such as
	// "status.succeeded". Their number is bounded.
	Fields []string
	// Urgent says that the key is synced before the keys of a restart or of a resync.
	Urgent bool
}

// String renders the cause in one line, for a log:
//
//	Updated Job default/sample-1641736135 (resourceVersion 4711: status.succeeded)
func (c Cause) String() string {
	return describe(c.Verb, c.Object, c.ResourceVersion, strings.Join(c.Fields, ", "))
}
