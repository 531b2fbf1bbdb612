/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package inspect

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// How much of a gear is shown at most. What is left out is counted.
const (
	mostEntries = 500
	mostGroups  = 200
	mostPassed  = 30
)

func (s *server) overview(*http.Request) (*Overview, *failure) {
	s.lags.look(s.Trace)
	o := &Overview{
		Version: s.Version, Instance: s.Instance, Time: time.Now(), OneIn: s.Trace.OneIn(), Breakpoints: s.Breakpoints,
		Informers: []Informer{}, Controllers: []Controller{},
	}
	for n := range s.Informers {
		o.Informers = append(o.Informers, s.describeInformer(&s.Informers[n]))
	}
	for n := range s.Loops {
		o.Controllers = append(o.Controllers, describeLoop(&s.Loops[n]))
	}
	return o, nil
}

func (s *server) describeInformer(w *Watched) Informer {
	health, stats := w.Health(), w.Stats()
	i := Informer{
		ID: w.Name(), Resource: w.Resource, Kind: w.Kind(), Namespace: w.Namespace, Queue: w.Queue().String(),
		Watching: health.Watching, Synced: health.Synced, Failures: health.Failures,
		ResourceVersion: w.LastSyncResourceVersion(), Arrived: uint64(stats.Arrived), Queued: stats.Queued, Applied: uint64(stats.Applied),
		Objects: len(w.GetStore().ListKeys()), Lag: s.lags.of(w.Name()), Handlers: []Handler{},
	}
	if !health.Failing.IsZero() {
		i.Failing, i.Error = &health.Failing, health.Err.Error()
	}
	for _, h := range stats.Handlers {
		i.Handlers = append(i.Handlers, Handler{Controller: s.loopOf(h.Handler, w.Namespace), Name: h.Handler, Pending: h.Pending, Synced: h.Synced})
	}
	queue, _ := w.QueueHeld(0)
	i.WireHeld, i.QueueHeld = describeHold(w.WireHeld()), describeHold(queue)
	return i
}

// loopOf returns the id of the controller that calls itself name, and works in namespace or in all;
// "" if there is none.
func (s *server) loopOf(name, namespace string) string {
	for n := range s.Loops {
		if run := &s.Loops[n]; run.Name == name && (run.Namespace == "" || run.Namespace == namespace) {
			return run.id()
		}
	}
	return ""
}

func describeHold(h *pipeline.Hold) *Hold {
	if h == nil {
		return nil
	}
	return &Hold{Since: h.Since, Until: h.Until, Kept: h.Kept}
}

func describeLoop(r *Run) Controller {
	counts := r.Counts()
	c := Controller{
		ID: r.id(), Name: r.Name, Kind: r.Loop.Kind, Namespace: r.Namespace, Workers: counts.Workers,
		Added: uint64(counts.Added), Syncs: uint64(counts.Syncs), Failed: uint64(counts.Failed), Panics: uint64(counts.Panics),
		Waiting: counts.Waiting, Processing: counts.Processing, Timers: counts.Timers, Retrying: counts.Retrying,
	}
	if held := r.Held(); held != nil {
		c.SyncHeld = &Hold{Since: held.Since, Until: held.Until, Delay: held.Delay.Seconds(), Kept: counts.Waiting + counts.Processing}
	}
	return c
}

func (s *server) queue(r *http.Request) (*Queue, *failure) {
	w, failed := s.informer(r)
	if failed != nil {
		return nil, failed
	}
	hold, kept := w.QueueHeld(mostEntries)
	q := &Queue{Held: describeHold(hold), Queued: w.Stats().Queued, Objects: []Deltas{}, Passed: []Event{}}
	at := map[trace.Object]int{}
	for _, k := range kept {
		n, known := at[k.Object]
		if !known {
			n = len(q.Objects)
			at[k.Object] = n
			q.Objects = append(q.Objects, Deltas{Object: objectOf(k.Object)})
		}
		q.Objects[n].Deltas = append(q.Objects[n].Deltas, Delta{Verb: string(k.Verb), ResourceVersion: k.ResourceVersion, Since: k.Since})
	}
	if hold != nil {
		q.More = hold.Kept - len(kept)
	}
	for _, e := range slices.Backward(s.Trace.Events()) {
		if e.Source == w.Name() && e.Stage == trace.Queue && len(q.Passed) < mostPassed {
			q.Passed = append(q.Passed, s.event(&e))
		}
	}
	return q, nil
}

func (s *server) index(r *http.Request) (*Index, *failure) {
	w, failed := s.informer(r)
	if failed != nil {
		return nil, failed
	}
	indexer, by := w.GetIndexer(), r.FormValue("by")
	answer := &Index{Objects: len(indexer.ListKeys()), Indexers: []string{}, By: by, Groups: []Group{}}
	for name := range indexer.GetIndexers() {
		answer.Indexers = append(answer.Indexers, name)
	}
	slices.Sort(answer.Indexers)
	switch {
	case by == "":
		answer.Groups = []Group{group("", w.Kind(), indexer.List())}
		return answer, nil
	case !slices.Contains(answer.Indexers, by):
		return nil, missing("there is no index %q: there are %q, and none for the key", by, answer.Indexers)
	}
	values := indexer.ListIndexFuncValues(by)
	slices.Sort(values)
	answer.More = max(0, len(values)-mostGroups)
	for _, value := range values[:len(values)-answer.More] {
		if objects, err := indexer.ByIndex(by, value); err == nil && len(objects) > 0 { // It is there, as it was just now.
			answer.Groups = append(answer.Groups, group(value, w.Kind(), objects))
		}
	}
	return answer, nil
}

// group names objects of an index, in alphabetical order.
func group(value, kind string, objects []any) Group {
	g := Group{Value: value, Objects: []Indexed{}}
	for _, o := range objects {
		if object, ok := o.(metav1.Object); ok {
			g.Objects = append(g.Objects, Indexed{
				Object:          Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()},
				ResourceVersion: object.GetResourceVersion(), Created: object.GetCreationTimestamp().Time,
			})
		}
	}
	slices.SortFunc(g.Objects, func(a, b Indexed) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	g.More = max(0, len(g.Objects)-mostEntries)
	g.Objects = g.Objects[:len(g.Objects)-g.More]
	return g
}

func (s *server) workqueue(r *http.Request) (*Workqueue, *failure) {
	run, failed := s.loopCalled(r.FormValue("controller"))
	if failed != nil {
		return nil, failed
	}
	state := run.State()
	kind := run.Loop.Kind
	answer := &Workqueue{Waiting: entries(kind, state.Waiting), Processing: entries(kind, state.Processing), Timers: []Timer{}}
	for _, t := range state.Timers[:min(len(state.Timers), mostEntries)] {
		answer.Timers = append(answer.Timers, Timer{Object: objectOfKey(kind, t.Key), At: t.At, Retries: t.Retries})
	}
	answer.More = len(state.Waiting) + len(state.Processing) + len(state.Timers) - len(answer.Waiting) - len(answer.Processing) - len(answer.Timers)
	return answer, nil
}

func entries(kind string, all []loop.Entry) []Entry {
	shown := []Entry{}
	for _, e := range all[:min(len(all), mostEntries)] {
		shown = append(shown, Entry{Object: objectOfKey(kind, e.Key), Since: e.Since, Causes: causesOf(e.Causes), MoreCauses: e.More, Again: e.Again})
	}
	return shown
}

func objectOfKey(kind string, key cache.ObjectName) Object {
	return Object{Kind: kind, Namespace: key.Namespace, Name: key.Name}
}
