// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// writers holds the last writer of each object from its transform until it reaches the index. managedFields name the writer, but a
// transform may drop them. writers is safe for concurrent use.
type writers struct {
	mu   sync.Mutex
	last map[cache.ObjectName]lastWrite
}

// lastWrite is the write that made a version of an object.
type lastWrite struct {
	resourceVersion string
	writer          *trace.Writer // nil if unknown: see lastWriter
}

// withWriters wraps a transform to store the last writer of each object, which tracer.apply reports. Without a recorder it returns the
// transform itself.
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

// put stores the last writer of an object. It keeps a writer that is already stored for the same version: client-go transforms an
// object of a streamed initial list twice, and managedFields may be gone the second time.
func (w *writers) put(object metav1.Object) {
	name, version := cache.MetaObjectToName(object), object.GetResourceVersion()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[cache.ObjectName]lastWrite{}
	}
	if stored, ok := w.last[name]; !ok || stored.resourceVersion != version {
		w.last[name] = lastWrite{version, lastWriter(object.GetManagedFields())}
	}
}

// take removes the last writer of an object, and returns it. It returns nil if the writer of this version is unknown.
func (w *writers) take(obj any) *trace.Writer {
	object, ok := accessor(obj)
	if !ok {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := cache.MetaObjectToName(object)
	stored := w.last[name]
	if stored.resourceVersion != object.GetResourceVersion() {
		return nil // Keep the stored writer: it may belong to a later version, which has not reached the index yet.
	}
	delete(w.last, name)
	return stored.writer
}

// lastWriter returns the manager of the newest entry. It returns nil if several managers have an entry of the same second.
func lastWriter(entries []metav1.ManagedFieldsEntry) *trace.Writer {
	var last *trace.Writer
	ambiguous := false
	for _, entry := range entries {
		switch {
		case entry.Time == nil:
		case last == nil || entry.Time.After(last.Time):
			last, ambiguous = &trace.Writer{Manager: entry.Manager, Time: entry.Time.Time}, false
		case entry.Time.Time.Equal(last.Time) && entry.Manager != last.Manager:
			ambiguous = true
		}
	}
	if ambiguous {
		return nil
	}
	return last
}
