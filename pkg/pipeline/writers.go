// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// writers holds the last writer of each object that is on its way to the index. A transform may drop managedFields, which name the
// writer, before the object reaches the index. It is safe for concurrent use.
type writers struct {
	mu   sync.Mutex
	last map[cache.ObjectName]written
}

type written struct {
	resourceVersion string
	by              *trace.Writer
}

// withWriters wraps a transform, so that apply can report the last writer of each object. Without a recorder it returns the transform
// itself.
func (t *tracer) withWriters(transform cache.TransformFunc) cache.TransformFunc {
	if t.recorder == nil {
		return transform
	}
	return func(obj any) (any, error) {
		if object, ok := obj.(metav1.Object); ok && t.wants(obj) {
			t.writers.put(object)
		}
		if transform == nil {
			return obj, nil
		}
		return transform(obj)
	}
}

// put keeps the last writer of an object. Of a version that it has, it keeps the first answer: an object of a streamed initial list is
// transformed twice, and the first time has dropped managedFields.
func (w *writers) put(object metav1.Object) {
	name, version := cache.MetaObjectToName(object), object.GetResourceVersion()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[cache.ObjectName]written{}
	}
	if known, ok := w.last[name]; !ok || known.resourceVersion != version {
		w.last[name] = written{version, lastWriter(object.GetManagedFields())}
	}
}

// take returns the last writer of an object, and forgets it. It returns nil if it does not know the writer of this version.
func (w *writers) take(obj any) *trace.Writer {
	object, ok := accessor(obj)
	if !ok {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := cache.MetaObjectToName(object)
	known := w.last[name]
	if known.resourceVersion != object.GetResourceVersion() {
		return nil // A later version is on its way.
	}
	delete(w.last, name)
	return known.by
}

// lastWriter returns the manager of the newest entry. It returns nil if several managers have an entry of that second.
func lastWriter(entries []metav1.ManagedFieldsEntry) *trace.Writer {
	var last *trace.Writer
	several := false
	for _, entry := range entries {
		switch {
		case entry.Time == nil:
		case last == nil || entry.Time.After(last.Time):
			last, several = &trace.Writer{Manager: entry.Manager, Time: entry.Time.Time}, false
		case entry.Time.Time.Equal(last.Time) && entry.Manager != last.Manager:
			several = true
		}
	}
	if several {
		return nil
	}
	return last
}
