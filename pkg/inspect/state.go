// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/breakpoint"
	"github.com/glassback/glassback/pkg/trace"
)

// The largest numbers of keys or objects, groups, and events in an answer. An answer counts the other keys, objects and groups.
const (
	maxEntries = 500
	maxGroups  = 200
	maxPassed  = 30
)

func (s *server) overview(*http.Request) (*Overview, *failure) {
	s.lags.update(s.Trace)
	o := &Overview{
		Version: s.Version, Instance: s.Instance, Time: s.now(), Started: s.started, OneIn: s.oneIn(), Breakpoints: s.Breakpoints,
		Recording: s.recording, Informers: []Informer{}, Controllers: []Controller{},
	}
	for _, i := range s.informers {
		described := i.describe()
		described.Lag = s.lags.get(i.id)
		o.Informers = append(o.Informers, described)
	}
	for _, l := range s.loops {
		o.Controllers = append(o.Controllers, l.describe())
	}
	return o, nil
}

// shownInformer is one informer: of this operator, or of a recording at one moment.
type shownInformer struct {
	id, kind, resource, namespace string
	aliases                       []string

	index    cache.Indexer
	describe func() Informer // without Lag

	wire  breakpoint.Wire
	queue breakpoint.Queue
}

// shownLoop is one controller's loop: of this operator, or of a recording at one moment.
type shownLoop struct {
	id, name, kind, namespace string

	describe  func() Controller
	workqueue func() *Workqueue

	breakpoint *breakpoint.Sync // nil in a recording
}

// showInformer returns an informer of this operator.
func (s *server) showInformer(w Watched) *shownInformer {
	i := &shownInformer{
		id: w.Name(), kind: w.Kind(), resource: w.Resource, namespace: w.Namespace, aliases: w.Aliases, index: w.GetIndexer(),
	}
	i.describe = func() Informer { return s.describeInformer(w, i) }
	return i
}

func (s *server) describeInformer(w Watched, shown *shownInformer) Informer {
	health, stats := w.Health(), w.Stats()
	i := Informer{
		ID: w.Name(), Resource: w.Resource, Kind: w.Kind(), Namespace: w.Namespace, Queue: w.Queue().String(),
		Watching: health.Watching, Synced: health.Synced, Failures: health.Failures,
		ResourceVersion: w.LastSyncResourceVersion(), Arrived: uint64(stats.Arrived), Queued: stats.Queued, Applied: uint64(stats.Applied),
		Objects: len(w.GetStore().ListKeys()), Handlers: []Handler{},
		WireHeld: shown.wire.Held(), QueueHeld: shown.queue.Held(),
	}
	if !health.Failing.IsZero() {
		i.Failing, i.Error = &health.Failing, health.Err.Error()
	}
	for _, h := range stats.Handlers {
		i.Handlers = append(i.Handlers, Handler{
			Controller: s.loopOf(h.Handler, w.Namespace), Name: h.Handler, Pending: h.Pending, Synced: h.Synced,
		})
	}
	return i
}

// loopOf returns the ID of the controller with that name that works in namespace or in all namespaces; "" if there is none.
func (s *server) loopOf(name, namespace string) string {
	for _, l := range s.loops {
		if l.name == name && (l.namespace == "" || l.namespace == namespace) {
			return l.id
		}
	}
	return ""
}

func (s *server) queue(r *http.Request) (*Queue, *failure) {
	w, failed := s.informerCalled(r.FormValue("informer"))
	if failed != nil {
		return nil, failed
	}
	described := w.describe()
	q := &Queue{Held: described.QueueHeld, Queued: described.Queued, Objects: []Deltas{}, Passed: []Event{}}
	kept, at := w.queue.Kept(maxEntries), map[Object]int{}
	for _, k := range kept {
		object, err := meta.Accessor(k.Object)
		if err != nil {
			continue // The queue will refuse it.
		}
		name := Object{Kind: w.kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		n, known := at[name]
		if !known {
			n = len(q.Objects)
			at[name] = n
			q.Objects = append(q.Objects, Deltas{Object: name})
		}
		delta := Delta{Verb: string(k.Verb), ResourceVersion: object.GetResourceVersion(), Since: k.Since}
		q.Objects[n].Deltas = append(q.Objects[n].Deltas, delta)
	}
	if q.Held != nil {
		q.More = max(0, q.Held.Kept-len(kept))
	}
	for _, e := range slices.Backward(s.Trace.Events()) {
		if e.Source == w.id && e.Stage == trace.Queue && len(q.Passed) < maxPassed {
			q.Passed = append(q.Passed, s.event(&e))
		}
	}
	return q, nil
}

func (s *server) index(r *http.Request) (*Index, *failure) {
	w, failed := s.informerCalled(r.FormValue("informer"))
	if failed != nil {
		return nil, failed
	}
	indexer, by := w.index, r.FormValue("by")
	answer := &Index{Objects: len(indexer.ListKeys()), Indexers: []string{}, By: by, Groups: []Group{}}
	for name := range indexer.GetIndexers() {
		answer.Indexers = append(answer.Indexers, name)
	}
	slices.Sort(answer.Indexers)
	switch {
	case by == "":
		answer.Groups = []Group{group("", w.kind, indexer.List())}
		return answer, nil
	case !slices.Contains(answer.Indexers, by):
		return nil, notFound("there is no index %q: there are %q, and none for the key", by, answer.Indexers)
	}
	values := indexer.ListIndexFuncValues(by)
	slices.Sort(values)
	answer.More = max(0, len(values)-maxGroups)
	for _, value := range values[:len(values)-answer.More] {
		if objects, err := indexer.ByIndex(by, value); err == nil && len(objects) > 0 { // The value may have been removed meanwhile.
			answer.Groups = append(answer.Groups, group(value, w.kind, objects))
		}
	}
	return answer, nil
}

// group returns the names of objects of an index, in alphabetical order.
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
	g.More = max(0, len(g.Objects)-maxEntries)
	g.Objects = g.Objects[:len(g.Objects)-g.More]
	return g
}

func (s *server) workqueue(r *http.Request) (*Workqueue, *failure) {
	l, failed := s.loopCalled(r.FormValue("controller"))
	if failed != nil {
		return nil, failed
	}
	return l.workqueue(), nil
}

func objectOfKey(kind string, key cache.ObjectName) Object {
	return Object{Kind: kind, Namespace: key.Namespace, Name: key.Name}
}
