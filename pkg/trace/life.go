/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package trace

import (
	"container/list"
	"slices"
)

// What is remembered of single objects is bounded by these: some 20 MB when full, and twice
// that if every sync has many causes.
const (
	maxLives     = 256 // objects: those that something happened to last
	maxLifeSteps = 128 // events of each
	trimmed      = 32  // so many of the oldest go at once: moving the others has its price
)

// lives remembers the newest events of each object. A Recorder guards it.
type lives struct {
	byObject map[Object]*list.Element // of *life
	recent   *list.List               // the one that something happened to last is in front
}

// life holds the recorded events of one object.
type life struct {
	object Object
	events []Event // oldest first
	more   bool    // there were others before
}

func newLives() lives {
	return lives{byObject: map[Object]*list.Element{}, recent: list.New()}
}

// add files e under the objects whose life it is part of. A key that is put into a workqueue
// is part of the cause's; the synced object's has it among the causes of the sync.
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
	// Of quiet syncs in a row, the last one stays: an object that is looked at every ten seconds
	// would soon have nothing else in its life.
	if n := len(l.events); n >= 4 && quiet(l.events[n-4:n-2]) && quiet(l.events[n-2:]) {
		l.events[n-1].Repeats = l.events[n-3].Repeats + 1
		l.events = append(l.events[:n-4], l.events[n-2:]...)
	}
}

// quiet reports whether two events are a sync that nothing had happened for, and that did
// nothing.
func quiet(two []Event) bool {
	began, ended := &two[0], &two[1]
	return began.Stage == Sync && ended.Stage == Done && ended.Err == "" && len(began.Causes) == 1 && began.Causes[0].Verb == VerbAfter
}

// open begins the life of o, in the place of the one that is longest past.
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

func (l *lives) of(o Object) (events []Event, forgotten bool) {
	element := l.byObject[o]
	if element == nil {
		return nil, false
	}
	entry := element.Value.(*life)
	return slices.Clone(entry.events), entry.more
}
