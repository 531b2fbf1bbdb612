// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"time"

	"github.com/glassback/glassback/pkg/breakpoint"
	"github.com/glassback/glassback/pkg/trace"
)

// Overview is the state of all gears at one moment. GET overview returns it, and the stream sends it as "overview", twice a second.
type Overview struct {
	Version string `json:"version"`
	// Instance names this replica: the Pod's name, or the host's.
	Instance string    `json:"instance"`
	Time     time.Time `json:"time"`
	// Started is the time since when this process records.
	Started time.Time `json:"started"`
	// OneIn is the sampling rate: one in OneIn changes is recorded; 1 means all. Under load, fewer changes are recorded, but each with all its
	// stages. Counts always include all changes.
	OneIn int `json:"oneIn"`
	// Breakpoints reports whether gears can be held.
	Breakpoints bool `json:"breakpoints"`
	// Recording is set if the answer is about a moment of a recording. Time is that moment.
	Recording   *Recording   `json:"recording,omitempty"`
	Informers   []Informer   `json:"informers"`
	Controllers []Controller `json:"controllers"`
}

// Recording is the time that a recording covers. With ?at=TIME, in the form of RFC 3339, a request is about that moment; without it, about
// the end. A stream begins at that moment, or else at the start, and runs in real time.
type Recording struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Dropped counts the syncs, and DroppedStages the stages, that the operator did not record, because its disk was too slow or failed.
	Dropped       uint64 `json:"dropped"`
	DroppedStages uint64 `json:"droppedStages"`
	// Damaged says which files cannot be read to their end, and what was read of them.
	Damaged []string `json:"damaged,omitempty"`
}

// Informer is one pipeline: from the API server to the handlers.
type Informer struct {
	// ID is the resource, such as "jobs.batch"; with the controller in brackets, if several controllers
	// watch the resource; with "/" and the namespace, if the operator works in some namespaces only.
	ID        string `json:"id"`
	Resource  string `json:"resource"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	// Queue is "DeltaFIFO" or "RealFIFO".
	Queue string `json:"queue"`

	// Watching, Synced, Failing, Error and Failures are from pipeline.Health.
	Watching bool       `json:"watching"`
	Synced   bool       `json:"synced"`
	Failing  *time.Time `json:"failing,omitempty"`
	Error    string     `json:"error,omitempty"`
	Failures int64      `json:"failures"`

	// ResourceVersion is the last one that the reflector has read.
	ResourceVersion string `json:"resourceVersion"`
	// Arrived counts the objects that the reflector has read, Applied those that have reached the index, and Queued those in between.
	Arrived uint64 `json:"arrived"`
	Queued  int    `json:"queued"`
	Applied uint64 `json:"applied"`
	// Objects counts the objects in the index.
	Objects int `json:"objects"`
	// Lag is how long the newest recorded change took from the wire to the index, in seconds.
	Lag float64 `json:"lag"`

	Handlers []Handler `json:"handlers"`

	// WireHeld and QueueHeld are set while the gear is held.
	WireHeld  *Hold `json:"wireHeld,omitempty"`
	QueueHeld *Hold `json:"queueHeld,omitempty"`
}

// Handler is one event handler of an Informer.
type Handler struct {
	// Controller is the ID of the Controller whose workqueue it fills; empty if there is none.
	Controller string `json:"controller,omitempty"`
	// Name is a name to show.
	Name    string `json:"name"`
	Pending int    `json:"pending"`
	Synced  bool   `json:"synced"`
}

// Controller is a workqueue and its workers.
type Controller struct {
	// ID is the name, such as "mycronjob"; with "/" and the namespace, as for an Informer.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Kind is the kind of the objects that it syncs.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	// Workers counts the workers; 0 while this operator does not lead.
	Workers int `json:"workers"`
	// Added counts the keys that handlers have added; Syncs the syncs that have ended, Failed those with
	// an error or a panic, and Panics those with a panic.
	Added  uint64 `json:"added"`
	Syncs  uint64 `json:"syncs"`
	Failed uint64 `json:"failed"`
	Panics uint64 `json:"panics"`
	// Waiting counts the keys in the queue, and Processing the keys that a worker has. Timers counts the keys that return at a set time, and
	// Retrying those of them whose sync failed.
	Waiting    int `json:"waiting"`
	Processing int `json:"processing"`
	Timers     int `json:"timers"`
	Retrying   int `json:"retrying"`

	SyncHeld *Hold `json:"syncHeld,omitempty"`
}

// Hold describes a gear that is held by hand.
type Hold = breakpoint.Hold

// Events are the events since the last message. The stream sends it as "events".
type Events struct {
	Events []Event `json:"events"`
	// Missed counts the recorded events that were too many to send.
	Missed uint64 `json:"missed,omitempty"`
}

// Event is a trace.Event: one object has passed one stage.
type Event struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Stage string    `json:"stage"` // wire queue index dispatch enqueue sync write done
	// Source is an Informer's ID up to dispatch, a Controller's from enqueue on.
	Source string `json:"source"`
	// Object is the object that passed the stage: at enqueue, the object whose change is the cause; at write, the written object.
	Object
	// For is the object that the sync is for: from enqueue on.
	For *Object `json:"for,omitempty"`

	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Verb is Added, Updated, Deleted, Replaced, Sync, After, Retry or Start; at write, a verb and a resource, such as "create jobs.batch".
	Verb string `json:"verb,omitempty"`
	// Missed is set if the watch missed the deletion and a relist revealed it: at index and dispatch.
	Missed bool `json:"missed,omitempty"`
	// Changes are the fields that differ from the previous state in the index: at index.
	Changes []Change `json:"changes,omitempty"`
	// Writer is the last client that wrote the object; absent if it is not known: at index.
	Writer *Writer `json:"writer,omitempty"`
	// Causes led to the sync: at sync and at done. MoreCauses counts those that were not kept.
	Causes     []Cause `json:"causes,omitempty"`
	MoreCauses int     `json:"moreCauses,omitempty"`
	// Duration is the time of the sync, and After the time until it asked to run again, both in seconds; Error is its error: at done.
	Duration float64 `json:"duration,omitempty"`
	After    float64 `json:"after,omitempty"`
	Error    string  `json:"error,omitempty"`
	// Repeats counts the similar syncs before this one that a Life leaves out: at done. A timer led to each, and none had a write or an error.
	Repeats int `json:"repeats,omitempty"`
	// Line is the event in one line, as glassback trace prints it.
	Line string `json:"line"`
}

// Object is a trace.Object: the object of an event.
type Object = trace.Object

// Writer is a trace.Writer: the client that wrote an object.
type Writer = trace.Writer

// Change is a trace.Change: a field that an update changed.
type Change = trace.Change

// Cause is a trace.Cause: the reason why a key was added.
type Cause struct {
	Time time.Time `json:"time"`
	Verb string    `json:"verb"`
	Object
	ResourceVersion string   `json:"resourceVersion,omitempty"`
	Fields          []string `json:"fields,omitempty"`
	Line            string   `json:"line"`
}

// Queue is the content of a delta queue. It is empty most of the time, unless it is held.
type Queue struct {
	Held   *Hold `json:"held,omitempty"`
	Queued int   `json:"queued"`
	// Objects are the objects with deltas in the queue, in their order. More counts further deltas.
	Objects []Deltas `json:"objects"`
	More    int      `json:"more,omitempty"`
	// Passed are the newest recorded events of this queue, newest first.
	Passed []Event `json:"passed"`
}

// Deltas are the changes of one object in the queue.
type Deltas struct {
	Object
	Deltas []Delta `json:"deltas"`
}

// Delta is one change.
type Delta struct {
	Verb            string    `json:"verb"`
	ResourceVersion string    `json:"resourceVersion"`
	Since           time.Time `json:"since"`
}

// Index is the content of an index.
type Index struct {
	Objects int `json:"objects"`
	// Indexers are the names of the indexers; By is the requested one, "" for the key of the objects.
	Indexers []string `json:"indexers"`
	By       string   `json:"by"`
	// Groups has one group for each value of By, in alphabetical order. Without By, it has a single group with the value "".
	Groups []Group `json:"groups"`
	More   int     `json:"more,omitempty"`
}

// Group is the objects of one value.
type Group struct {
	Value   string    `json:"value"`
	Objects []Indexed `json:"objects"`
	More    int       `json:"more,omitempty"`
}

// Indexed is one object in an index.
type Indexed struct {
	Object
	ResourceVersion string    `json:"resourceVersion"`
	Created         time.Time `json:"created"`
}

// Workqueue is the content of a workqueue. Each list begins with the earliest key.
type Workqueue struct {
	// Waiting are the keys in the queue, and Processing the keys that a worker has. Waiting and the Processing keys with Again are the dirty
	// set of client-go.
	Waiting    []Entry `json:"waiting"`
	Processing []Entry `json:"processing"`
	// Timers are the keys that return at a set time.
	Timers []Timer `json:"timers"`
	More   int     `json:"more,omitempty"`
}

// Entry is one key with its causes. Again reports that the key was added since its sync began: the queue returns the key when that sync
// ends.
type Entry struct {
	Object
	Since      time.Time `json:"since"`
	Causes     []Cause   `json:"causes,omitempty"`
	MoreCauses int       `json:"moreCauses,omitempty"`
	Again      bool      `json:"again,omitempty"`
}

// Timer is one key that returns at a set time.
type Timer struct {
	Object
	At time.Time `json:"at"`
	// Retries counts its consecutive failures. With 0, its sync asked to run again.
	Retries int `json:"retries,omitempty"`
}

// Life is the recorded events of one object, oldest first.
type Life struct {
	Object
	Resource string  `json:"resource"`
	Exists   bool    `json:"exists"` // in the index
	Events   []Event `json:"events"`
	// Forgotten reports that older events are no longer recorded.
	Forgotten bool `json:"forgotten,omitempty"`
	// Gaps reports that some changes in between were not recorded.
	Gaps bool `json:"gaps,omitempty"`
}

// HoldRequest is the body of POST hold.
type HoldRequest struct {
	// Gear is "wire" or "queue" of an Informer, or "sync" of a Controller. ID is that Informer's or Controller's.
	Gear string `json:"gear"`
	ID   string `json:"id"`
	// Action is one of
	//
	//	hold      stop the gear until release, or until it releases itself
	//	release   let it continue
	//	delay     make each sync wait for Delay seconds
	//	drop      break the open WATCH after a second; the next one continues from its resourceVersion
	//	expire    break the open WATCH; the next one fails with 410 Gone
	Action string  `json:"action"`
	Delay  float64 `json:"delay,omitempty"`
}

// Problem is the body of an error, with an HTTP status of 400 or more.
type Problem struct {
	Error string `json:"error"` // says what is wrong and what to do
}
