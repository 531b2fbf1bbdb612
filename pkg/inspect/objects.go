// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// maxFound is the largest number of objects that find returns.
const maxFound = 50

// Found is the answer to find.
type Found struct {
	Objects []Object `json:"objects"`
	More    int      `json:"more,omitempty"`
}

// life returns the events of one object. It accepts any name of the kind.
func (s *server) life(r *http.Request) (*Life, *failure) {
	kind, namespace, name := r.FormValue("kind"), r.FormValue("namespace"), r.FormValue("name")
	if kind == "" || name == "" {
		return nil, badRequest("kind and name are missing: say which object, such as ?kind=Job&namespace=default&name=sample")
	}
	kind, failed := s.kindCalled(kind)
	if failed != nil {
		return nil, failed
	}
	object := trace.Object{Kind: kind, Namespace: namespace, Name: name}
	events, forgotten := s.Trace.Life(object)
	life := &Life{Object: object, Events: []Event{}, Forgotten: forgotten}
	for _, w := range s.watching(kind) {
		if _, exists, err := w.index.GetByKey(cache.NewObjectName(namespace, name).String()); err == nil && exists {
			life.Exists = true
		}
		life.Resource = w.resource
	}
	for n := range events {
		life.Gaps = life.Gaps || events[n].OneIn > 1
		life.Events = append(life.Events, s.event(&events[n]))
	}
	if !life.Exists && len(events) == 0 {
		return nil, notFound("there is no %s: it has no recorded event, and it is in no index", object)
	}
	return life, nil
}

// watching returns the informers of a kind. kind is the name of the kind, the name of its resource with or without the group, or an alias.
func (s *server) watching(kind string) []*shownInformer {
	var all []*shownInformer
	for _, w := range s.informers {
		plural, _, _ := strings.Cut(w.resource, ".")
		names := append([]string{w.kind, w.resource, plural}, w.aliases...)
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, kind) }) {
			all = append(all, w)
		}
	}
	return all
}

// kindCalled returns the watched or synced kind with that name.
func (s *server) kindCalled(name string) (string, *failure) {
	if informers := s.watching(name); len(informers) > 0 {
		return informers[0].kind, nil
	}
	for _, l := range s.loops {
		if strings.EqualFold(l.kind, name) {
			return l.kind, nil
		}
	}
	return "", notFound("no informer watches a %q: there are %s", name, strings.Join(s.kinds(), ", "))
}

func (s *server) kinds() []string {
	var all []string
	for _, w := range s.informers {
		all = append(all, w.kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// find returns the objects whose text "kind/namespace/name" contains each word of q: "job sample" finds job/default/sample.
func (s *server) find(r *http.Request) (*Found, *failure) {
	found := &Found{Objects: []Object{}}
	words := strings.Fields(strings.ToLower(r.FormValue("q")))
	seen := map[Object]bool{}
	for _, w := range s.informers {
		for _, key := range w.index.ListKeys() {
			name, err := cache.ParseObjectName(key)
			if err != nil {
				continue // No informer has such a key.
			}
			object := objectOfKey(w.kind, name)
			called := strings.ToLower(object.Kind + "/" + key)
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(called, word) }) && !seen[object] {
				seen[object] = true
				found.Objects = append(found.Objects, object)
			}
		}
	}
	slices.SortFunc(found.Objects, func(a, b Object) int {
		return strings.Compare(a.Kind+"/"+a.Namespace+"/"+a.Name, b.Kind+"/"+b.Namespace+"/"+b.Name)
	})
	found.More = max(0, len(found.Objects)-maxFound)
	found.Objects = found.Objects[:len(found.Objects)-found.More]
	return found, nil
}
