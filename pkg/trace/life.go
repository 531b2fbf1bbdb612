/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package trace

import "container/list"

// What is remembered of single objects is bounded by these two: some 20 MB when full.
const (
	maxLives     = 1024 // objects: those that something happened to last
	maxLifeSteps = 64   // events of each
)

// lives remembers the newest events of each object. A Recorder guards it.
type lives struct {
	byObject map[Object]*list.Element // of *life
	recent   *list.List               // the one that something happened to last is in front
}

// life is what happened to one object.
type life struct {
	object Object
	ring   []Event // grows up to maxLifeSteps
	oldest int     // in ring, once it has that many
	more   bool    // there were others, which it has no longer
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
	entry := element.Value.(*life)
	if len(entry.ring) < maxLifeSteps {
		entry.ring = append(entry.ring, *e)
		return
	}
	entry.ring[entry.oldest] = *e
	entry.oldest = (entry.oldest + 1) % maxLifeSteps
	entry.more = true
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
	events = append(events, entry.ring[entry.oldest:]...)
	return append(events, entry.ring[:entry.oldest]...), entry.more
}
