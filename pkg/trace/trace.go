/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package trace

import (
	"fmt"
	"strings"
	"time"
)

// Stage is a station on an object's way from the API server to a sync and back.
type Stage uint8

// The stages, in the order in which an object passes them.
const (
	// Wire: the reflector took the object off a LIST or WATCH response.
	Wire Stage = iota + 1
	// Queue: a delta for the object was put into the delta queue.
	Queue
	// Index: the delta was popped, and the index now holds its outcome.
	Index
	// Dispatch: the event handlers are told, after the index.
	Dispatch
	// Enqueue: a handler put a key into a controller's workqueue.
	Enqueue
	// Sync: a worker took the key, and with it its causes.
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

// Event says that one object passed one stage.
type Event struct {
	// Seq numbers a Recorder's events from 1 without gaps. The Recorder sets it.
	Seq uint64
	// Time is when the event was reported. The Recorder sets it if it is zero.
	Time time.Time
	// Stage is the station that reports.
	Stage Stage
	// Source is the reporting gear: an informer's resource ("jobs.batch") up to
	// Dispatch, a controller's name ("mycronjob") from Enqueue on.
	Source string
	// Namespace and Name are the object's; Namespace is empty for a cluster-wide one.
	Namespace, Name string
	// ResourceVersion is the object's, if the stage has the object at hand.
	ResourceVersion string
	// Verb says what happened: a delta type (Added, Updated, Deleted, Replaced,
	// Sync), or the verb of a write (create, update, delete, apply).
	Verb string
	// Causes says why, from Enqueue on. Neither the reporter nor a reader may
	// change the slice afterwards: it is shared.
	Causes []Cause
	// Duration is how long the sync took (Done).
	Duration time.Duration
	// After is how long until the sync asked to run again (Done); zero if it did not.
	After time.Duration
	// Err is the text of the error that the sync ended with (Done, Write).
	Err string
}

// Verbs of causes that no watch event stands behind.
const (
	// VerbAfter: an earlier sync asked to run again at this time.
	VerbAfter = "After"
	// VerbRetry: an earlier sync failed.
	VerbRetry = "Retry"
	// VerbStart: what is synced is there from the start, and no object that is watched.
	VerbStart = "Start"
)

// Cause is one reason for which a key was put into a workqueue.
type Cause struct {
	// Time is when the key was put in.
	Time time.Time
	// Kind, Namespace and Name are those of the object whose change is the cause:
	// the synced object itself, or one that it owns or reads.
	Kind, Namespace, Name string
	// Verb is Added, Updated, Deleted, Sync (a periodic resync), After, Retry
	// or Start.
	Verb string
	// ResourceVersion is that of the object after the change.
	ResourceVersion string
	// Fields are the paths of the fields that an Updated changed, such as
	// "status.succeeded"; a bounded number of them.
	Fields []string
}

// String renders the cause in one line, for a log:
//
//	Updated Job default/sample-1641736135 (resourceVersion 4711: status.succeeded)
func (c Cause) String() string {
	var b strings.Builder
	b.WriteString(c.Verb)
	if c.Kind != "" {
		b.WriteByte(' ')
		b.WriteString(c.Kind)
	}
	if c.Name != "" {
		b.WriteByte(' ')
		if c.Namespace != "" {
			b.WriteString(c.Namespace)
			b.WriteByte('/')
		}
		b.WriteString(c.Name)
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
