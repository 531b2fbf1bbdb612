// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"container/list"
	"slices"
)

// These bounds limit the memory to about 20 MB, or twice that if every sync has many causes.
const (
	maxLives     = 256 // objects with the newest events
	maxLifeSteps = 128 // events of each object
	trimmed      = 32  // events of an object that are dropped at once, since each drop moves the remaining events
)

// lives holds the newest events of each object. Recorder.mu guards it.
type lives struct {
	byObject map[Object]*list.Element // of *life
	recent   *list.List               // of *life; the object of the newest event is in front
}

// life holds the recorded events of one object.
type life struct {
	object Object
	events []Event // oldest first
	more   bool    // older events were dropped
}

func newLives() lives {
	return lives{byObject: map[Object]*list.Element{}, recent: list.New()}
}

// add adds e to the lives of its objects. It adds an Enqueue only to the life of the object that is the cause: in the life of the synced
// object, the Sync lists that cause.
func (l *lives) add(e *Event) {
	if e.Name != "" {
		l.file(e.Object, e)
	}
	if e.Stage > Enqueue && e.For != e.Object && e.For.Name != "" {
		l.file(e.For, e)
	}
}

func (l *lives) file(o Object, e *Event) {
	element := l.byObject[o]
	if element == nil {
		element = l.open(o)
	} else {
		l.recent.MoveToFront(element)
	}
	element.Value.(*life).add(e)
}

func (l *life) add(e *Event) {
	if len(l.events) == maxLifeSteps {
		l.events = append(l.events[:0], l.events[trimmed:]...)
		l.more = true
	}
	l.events = append(l.events, *e)
	// Only the last of consecutive quiet syncs stays: the life of an object with a sync every ten seconds would soon contain nothing else.
	if n := len(l.events); n >= 4 && quiet(l.events[n-4:n-2]) && quiet(l.events[n-2:]) {
		l.events[n-1].Repeats = l.events[n-3].Repeats + 1
		l.events = append(l.events[:n-4], l.events[n-2:]...)
	}
}

// quiet reports whether two events are the Sync and the Done of one sync that had a timer as its only cause, no write and no error.
func quiet(two []Event) bool {
	began, ended := &two[0], &two[1]
	return began.Stage == Sync && ended.Stage == Done && ended.Err == "" && len(began.Causes) == 1 && began.Causes[0].Verb == VerbAfter
}

// open begins the life of o. If there are maxLives already, it drops the life that got no event for the longest time.
func (l *lives) open(o Object) *list.Element {
	if l.recent.Len() >= maxLives {
		last := l.recent.Back()
		delete(l.byObject, last.Value.(*life).object)
		l.recent.Remove(last)
	}
	element := l.recent.PushFront(&life{object: o})
	l.byObject[o] = element
	return element
}

// get returns a copy of the events of o, and whether older events were dropped.
func (l *lives) get(o Object) (events []Event, forgotten bool) {
	element := l.byObject[o]
	if element == nil {
		return nil, false
	}
	entry := element.Value.(*life)
	return slices.Clone(entry.events), entry.more
}
