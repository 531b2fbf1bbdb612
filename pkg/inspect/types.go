/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package inspect

import "time"

// Overview is what all gears show at one moment. It is the answer of GET overview, and what
// the stream sends as "overview", twice a second.
type Overview struct {
	Version string `json:"version"`
	// Instance says which replica this is: the Pod's name, or the host's.
	Instance string    `json:"instance"`
	Time     time.Time `json:"time"`
	// OneIn says how many changes there are now for each that is recorded: 1 is all of them.
	// Under a load that costs more to record than it may, few are, and their stages all are.
	// Counts are of all changes, always.
	OneIn int `json:"oneIn"`
	// Breakpoints says whether gears can be held.
	Breakpoints bool         `json:"breakpoints"`
	Informers   []Informer   `json:"informers"`
	Controllers []Controller `json:"controllers"`
}

// Informer is one pipeline: from the API server to the handlers.
type Informer struct {
	// ID is the resource, such as "jobs.batch"; with "/" and the namespace, if the
	// operator works in some namespaces only. Label makes a difference where one resource
	// is watched by several.
	ID        string `json:"id"`
	Resource  string `json:"resource"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	// Queue is "DeltaFIFO" or "RealFIFO".
	Queue string `json:"queue"`

	// Watching, Synced, Failing, Error and Failures are those of pipeline.Health.
	Watching bool       `json:"watching"`
	Synced   bool       `json:"synced"`
	Failing  *time.Time `json:"failing,omitempty"`
	Error    string     `json:"error,omitempty"`
	Failures int64      `json:"failures"`

	// ResourceVersion is how far the reflector has read.
	ResourceVersion string `json:"resourceVersion"`
	// Arrived counts the objects that came off the wire, Applied the deltas that the index has
	// taken in; Queued of them are between the two.
	Arrived uint64 `json:"arrived"`
	Queued  int    `json:"queued"`
	Applied uint64 `json:"applied"`
	// Objects is how many the index holds.
	Objects int `json:"objects"`
	// Lag is how long the newest recorded change took from the wire into the index, in seconds.
	Lag float64 `json:"lag"`

	Handlers []Handler `json:"handlers"`

	// Wire and Delta are set while the gear is held.
	WireHeld  *Hold `json:"wireHeld,omitempty"`
	QueueHeld *Hold `json:"queueHeld,omitempty"`
}

// Handler is one event handler of an Informer.
type Handler struct {
	// Controller is the ID of the Controller whose workqueue it fills; empty if it is none's.
	Controller string `json:"controller,omitempty"`
	// Name says what it is, for a person.
	Name    string `json:"name"`
	Pending int    `json:"pending"`
	Synced  bool   `json:"synced"`
}

// Controller is a workqueue and its workers.
type Controller struct {
	// ID is the name, such as "mycronjob"; with "/" and the namespace, as for an Informer.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Kind is that of the objects which it syncs.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	// Workers is how many there are; none before this operator leads, nor after.
	Workers int `json:"workers"`
	// Added counts how often a handler has put in a key, Syncs, Failed and Panics the syncs.
	Added  uint64 `json:"added"`
	Syncs  uint64 `json:"syncs"`
	Failed uint64 `json:"failed"`
	Panics uint64 `json:"panics"`
	// Waiting is how many keys are in the queue, Processing how many a worker has, Timers how
	// many come back at a time, and Retrying how many of these do because a sync failed.
	Waiting    int `json:"waiting"`
	Processing int `json:"processing"`
	Timers     int `json:"timers"`
	Retrying   int `json:"retrying"`

	SyncHeld *Hold `json:"syncHeld,omitempty"`
}

// Hold says that a gear is held by hand.
type Hold struct {
	Since time.Time `json:"since"`
	// Until is when it is released without anybody doing so.
	Until time.Time `json:"until"`
	// Delay is how long each sync waits, in seconds; 0: until it is released.
	Delay float64 `json:"delay,omitempty"`
	// Kept is how much piles up before it now: deltas, or keys.
	Kept int `json:"kept"`
}

// Events is what the stream sends as "events": what has passed since the last time.
type Events struct {
	Events []Event `json:"events"`
	// Missed is how many recorded events were left out, because there were too many to send.
	Missed uint64 `json:"missed,omitempty"`
}

// Event is a trace.Event: one object has passed one stage.
type Event struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Stage string    `json:"stage"` // wire queue index dispatch enqueue sync write done
	// Source is an Informer's ID up to dispatch, a Controller's from enqueue on.
	Source string `json:"source"`
	// Object is what has passed. At enqueue it is the object whose change is the cause, at
	// write the object that was written.
	Object
	// For is the object that is, was, or will be synced: from enqueue on.
	For *Object `json:"for,omitempty"`

	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Verb is Added, Updated, Deleted, Replaced, Sync, After, Retry or Start; at write, what
	// it did, such as "create jobs.batch".
	Verb string `json:"verb,omitempty"`
	// Changes are the fields that differ from what the index held before: at index.
	Changes []Change `json:"changes,omitempty"`
	// Causes are why: at sync and at done. MoreCauses were not kept.
	Causes     []Cause `json:"causes,omitempty"`
	MoreCauses int     `json:"moreCauses,omitempty"`
	// Duration is how long the sync took, After in how long it asked to run again, both in
	// seconds; Error is what it ended with: at done.
	Duration float64 `json:"duration,omitempty"`
	After    float64 `json:"after,omitempty"`
	Error    string  `json:"error,omitempty"`
	// Repeats is how many syncs before this one are left out of a Life, because they were like it:
	// asked for by the one before, without a write or an error: at done.
	Repeats int `json:"repeats,omitempty"`
	// Line is all of it in one line, as glassback trace prints it.
	Line string `json:"line"`
}

// Object names an object.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Change is one field. Old and New are left out where a value may not be shown, or is too
// large; both are "" then.
type Change struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Cause is a trace.Cause: why a key was put into a workqueue.
type Cause struct {
	Time time.Time `json:"time"`
	Verb string    `json:"verb"`
	Object
	ResourceVersion string   `json:"resourceVersion,omitempty"`
	Fields          []string `json:"fields,omitempty"`
	Line            string   `json:"line"`
}

// Queue is what a delta queue holds. It is empty but for moments, unless it is held.
type Queue struct {
	Held   *Hold `json:"held,omitempty"`
	Queued int   `json:"queued"`
	// Objects are those with deltas in it, in their order; More further ones are left out.
	Objects []Deltas `json:"objects"`
	More    int      `json:"more,omitempty"`
	// Passed are the newest recorded events of this queue, newest first.
	Passed []Event `json:"passed"`
}

// Deltas is what has happened to one object since it was last popped.
type Deltas struct {
	Object
	Deltas []Delta `json:"deltas"`
}

// Delta is one thing that has happened.
type Delta struct {
	Verb            string    `json:"verb"`
	ResourceVersion string    `json:"resourceVersion"`
	Since           time.Time `json:"since"`
}

// Index is what an index holds.
type Index struct {
	Objects int `json:"objects"`
	// Indexers are the names by which it can be searched, beside the key; By is the one
	// that was asked for, "" for the key.
	Indexers []string `json:"indexers"`
	By       string   `json:"by"`
	// Groups are the values of that index in alphabetical order; one, "", for the key.
	Groups []Group `json:"groups"`
	More   int     `json:"more,omitempty"`
}

// Group is what an index has under one value.
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

// Workqueue is what a workqueue holds, and what is about it.
type Workqueue struct {
	// Waiting are the keys in the queue. Processing are those that a worker has: of these,
	// Again says that a key has been put in meanwhile, and is queued when the sync ends.
	// Together with those, Waiting is the dirty set.
	Waiting    []Entry `json:"waiting"`
	Processing []Entry `json:"processing"`
	// Timers are keys that come back at a time.
	Timers []Timer `json:"timers"`
	More   int     `json:"more,omitempty"`
}

// Entry is one key, and why it is there.
type Entry struct {
	Object
	Since      time.Time `json:"since"`
	Causes     []Cause   `json:"causes,omitempty"`
	MoreCauses int       `json:"moreCauses,omitempty"`
	Again      bool      `json:"again,omitempty"`
}

// Timer is one key that comes back.
type Timer struct {
	Object
	At time.Time `json:"at"`
	// Retries is how often it has failed in a row; 0: its sync has asked for it.
	Retries int `json:"retries,omitempty"`
}

// Life is all that is remembered of one object, oldest first.
type Life struct {
	Object
	Resource string  `json:"resource"`
	Exists   bool    `json:"exists"` // in the index
	Events   []Event `json:"events"`
	// Forgotten says that there was more.
	Forgotten bool `json:"forgotten,omitempty"`
	// Gaps says that at some time within not all changes were recorded.
	Gaps bool `json:"gaps,omitempty"`
}

// HoldRequest is what is posted to hold.
type HoldRequest struct {
	// Gear is "wire" or "queue" of an Informer, or "sync" of a Controller; ID is its.
	Gear string `json:"gear"`
	ID   string `json:"id"`
	// Action is one of
	//
	//	hold      stop it until release, or until it releases itself
	//	release   let it go on
	//	delay     have each sync wait for Delay seconds
	//	drop      break the WATCH that is open, after a second; the next one continues from its resourceVersion
	//	expire    break it, and have the API server call that resourceVersion too old
	Action string  `json:"action"`
	Delay  float64 `json:"delay,omitempty"`
}

// Problem is the answer where there is none, with an HTTP status of 400 and more.
type Problem struct {
	Error string `json:"error"` // what to do
}
