// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// keptEvents is the number of events that a moment keeps, for all objects together. A running operator keeps as many.
const keptEvents = 8192

// moment is a server that shows a recording at one time. Its trace.Recorder gets all events up to that time, like the trace.Recorder of a
// running operator.
type moment struct {
	*server

	tape *tape
	next int       // the index of the first step after at
	at   time.Time // the time that the moment shows

	aliases   map[string][]string // further names of each kind
	oneIn     int                 // one in oneIn changes was recorded at that time
	informers map[string]*recordedInformer
	loops     map[string]*recordedLoop
}

// recordedInformer is an informer of a recording. Its state comes from the last overview and from the events after it. Its index has only
// the objects whose changes were recorded, and only their names and resourceVersions.
type recordedInformer struct {
	*shownInformer

	state Informer
}

// recordedLoop is a controller of a recording. Its state comes from the last overview and from the events after it. Its keys come from the
// events alone.
type recordedLoop struct {
	*shownLoop

	state               Controller
	waiting, processing map[cache.ObjectName]*Entry
	timers              map[cache.ObjectName]time.Time
}

// newMoment returns a moment that shows the start of the recording.
func (p *player) newMoment() *moment {
	t := p.tape
	m := &moment{
		tape: t, at: t.From, aliases: p.aliases, oneIn: 1, informers: map[string]*recordedInformer{}, loops: map[string]*recordedLoop{},
	}
	m.server = &server{
		Config: Config{Version: t.version, Instance: t.instance, Trace: trace.NewRecorder(keptEvents), Done: p.done},
		lags:   newLags(), streams: &p.streams, recording: &t.Recording,
		now: func() time.Time { return m.at }, started: t.From, oneIn: func() int { return m.oneIn },
	}
	return m
}

// advance applies all further steps up to and including a time.
func (m *moment) advance(to time.Time) {
	m.at = to
	for ; m.next < len(m.tape.steps) && !m.tape.steps[m.next].time.After(to); m.next++ {
		switch step := &m.tape.steps[m.next]; {
		case !step.started.IsZero():
			m.server.started = step.started
			clear(m.informers)
			clear(m.loops)
		case step.gears != nil:
			m.setGears(step.gears)
		default:
			m.apply(step.event)
		}
	}
}

// setGears replaces the states of the informers and controllers with those of an overview.
func (m *moment) setGears(g *gears) {
	m.server.informers, m.server.loops = nil, nil
	for _, state := range g.informers {
		i := m.informers[state.ID]
		if i == nil {
			i = newRecordedInformer(state, m.aliases[state.Kind])
			m.informers[state.ID] = i
		}
		i.state = *state
		m.server.informers = append(m.server.informers, i.shownInformer)
	}
	for _, state := range g.controllers {
		l := m.loops[state.ID]
		if l == nil {
			l = newRecordedLoop(state)
			m.loops[state.ID] = l
		}
		l.state = *state
		m.server.loops = append(m.server.loops, l.shownLoop)
	}
}

func newRecordedInformer(state *Informer, aliases []string) *recordedInformer {
	i := &recordedInformer{state: *state}
	i.shownInformer = &shownInformer{
		id: state.ID, kind: state.Kind, resource: state.Resource, namespace: state.Namespace, aliases: aliases,
		index:    cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		describe: func() Informer { return i.state },
	}
	return i
}

func newRecordedLoop(state *Controller) *recordedLoop {
	l := &recordedLoop{
		state: *state, waiting: map[cache.ObjectName]*Entry{}, processing: map[cache.ObjectName]*Entry{},
		timers: map[cache.ObjectName]time.Time{},
	}
	l.shownLoop = &shownLoop{
		id: state.ID, name: state.Name, kind: state.Kind, namespace: state.Namespace,
		describe: func() Controller { return l.state }, workqueue: l.workqueue,
	}
	return l
}

// apply gives an event to the trace.Recorder, and to the informer or the controller that the event is from.
func (m *moment) apply(e *trace.Event) {
	m.oneIn = int(e.OneIn)
	m.Trace.Report(*e)
	if i := m.informers[e.Source]; i != nil && e.Stage < trace.Enqueue {
		i.apply(e)
	}
	if l := m.loops[m.loopOf(e.Source, e.For.Namespace)]; l != nil && e.Stage >= trace.Enqueue {
		l.apply(e)
	}
}

// apply counts an event. An event of the stage Index also changes the index.
func (i *recordedInformer) apply(e *trace.Event) {
	switch e.Stage {
	case trace.Wire:
		i.state.Arrived++
		i.state.ResourceVersion = e.ResourceVersion
	case trace.Queue:
		i.state.Queued++
	case trace.Index:
		i.state.Queued = max(0, i.state.Queued-1)
		i.state.Applied++
		i.updateIndex(e)
	}
}

// updateIndex adds, replaces or deletes the object of an event, and updates the number of objects.
func (i *recordedInformer) updateIndex(e *trace.Event) {
	object := &metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, ResourceVersion: e.ResourceVersion}
	switch cache.DeltaType(e.Verb) {
	case cache.Deleted:
		i.state.Objects = max(0, i.state.Objects-1)
		_ = i.index.Delete(object) // It does not fail: the object has a key.
		return
	case cache.Added:
		if _, exists, _ := i.index.Get(object); !exists {
			i.state.Objects++
		}
	}
	_ = i.index.Update(object)
}

// apply moves the key of an event through the workqueue, as the controller did.
func (l *recordedLoop) apply(e *trace.Event) {
	key := cache.NewObjectName(e.For.Namespace, e.For.Name)
	switch e.Stage {
	case trace.Enqueue:
		l.state.Added++
		if l.waiting[key] == nil {
			l.waiting[key] = &Entry{Object: e.For, Since: e.Time}
			l.state.Waiting++
		}
		cause := trace.Cause{Time: e.Time, Object: e.Object, Verb: e.Verb, ResourceVersion: e.ResourceVersion}
		l.waiting[key].Causes = append(l.waiting[key].Causes, causesOf([]trace.Cause{cause})...)
	case trace.Sync:
		if l.waiting[key] != nil {
			delete(l.waiting, key)
			l.state.Waiting = max(0, l.state.Waiting-1)
		}
		l.state.Processing++
		l.processing[key] = &Entry{Object: e.For, Since: e.Time, Causes: causesOf(e.Causes), MoreCauses: e.More}
		if at, set := l.timers[key]; set && !at.After(e.Time) {
			delete(l.timers, key)
			l.state.Timers = max(0, l.state.Timers-1)
		}
	case trace.Done:
		delete(l.processing, key)
		l.state.Processing = max(0, l.state.Processing-1)
		l.state.Syncs++
		if e.Err != "" {
			l.state.Failed++
		}
		if e.After > 0 {
			if _, set := l.timers[key]; !set {
				l.state.Timers++
			}
			l.timers[key] = e.Time.Add(e.After)
		}
	}
}

// workqueue returns the keys. The timers do not include a retry after a failed sync: the recording does not have its time.
func (l *recordedLoop) workqueue() *Workqueue {
	var timers []Timer
	for key, at := range l.timers {
		timers = append(timers, Timer{Object: objectOfKey(l.kind, key), At: at})
	}
	return newWorkqueue(l.waiting, l.processing, timers)
}

// player answers requests with a moment of a recording.
type player struct {
	tape    *tape
	aliases map[string][]string
	done    <-chan struct{}
	streams atomic.Int64

	mu     sync.Mutex
	latest *moment // the moment of the last request, which advances to a later time but not to an earlier one
}

// newRecorded reads a recording from files. It returns the handler of the page and its API, and the Recording. aliases are further names of
// each kind. The streams end when done is closed.
func newRecorded(files []string, aliases map[string][]string, done <-chan struct{}) (http.Handler, *Recording, error) {
	t, err := readTape(files)
	if err != nil {
		return nil, nil, err
	}
	p := &player{tape: t, aliases: aliases, done: done}
	handler, err := p.newMoment().handler(p.moment, p.following)
	return handler, &t.Recording, err
}

// requestedTime returns the time that a request names, or byDefault if it names none.
func (p *player) requestedTime(r *http.Request, byDefault time.Time) (time.Time, *failure) {
	text := r.URL.Query().Get(atParameter)
	if text == "" {
		return byDefault, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, badRequest("%q is no time: say it like %s", text, p.tape.To.Format(time.RFC3339Nano))
	}
	return p.clamp(at), nil
}

// clamp returns the time of the recording that is nearest to at.
func (p *player) clamp(at time.Time) time.Time {
	switch {
	case at.Before(p.tape.From):
		return p.tape.From
	case at.After(p.tape.To):
		return p.tape.To
	}
	return at
}

// moment returns a view of the recording at the time that a request names. Requests share p.latest, so a request waits until the view of
// the previous request is done.
func (p *player) moment(r *http.Request) (*view, *failure) {
	at, failed := p.requestedTime(r, p.tape.To)
	if failed != nil {
		return nil, failed
	}
	p.mu.Lock()
	if p.latest == nil || at.Before(p.latest.at) {
		p.latest = p.newMoment()
	}
	p.latest.advance(at)
	return &view{server: p.latest.server, advance: func() {}, done: p.mu.Unlock}, nil
}

// following returns a view for a stream. It starts at the time that a request names, and advances to the end of the recording in real
// time.
func (p *player) following(r *http.Request) (*view, *failure) {
	at, failed := p.requestedTime(r, p.tape.From)
	if failed != nil {
		return nil, failed
	}
	m, began := p.newMoment(), time.Now()
	m.advance(at)
	return &view{server: m.server, advance: func() { m.advance(p.clamp(at.Add(time.Since(began)))) }, done: func() {}}, nil
}
