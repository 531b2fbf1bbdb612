// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/trace"
)

// tracer reports the objects of one informer to the trace. Without a recorder, a report costs one
// comparison. With a recorder, a change that sampling omits costs a hash of its resourceVersion.
type tracer struct {
	recorder *trace.Recorder // nil: nothing is recorded
	source   string
	kind     string
	writers  writers
}

// arrive reports that the reflector has read an object and is about to put it into the queue.
func (t *tracer) arrive(verb cache.DeltaType, obj any) {
	if t.wants(obj) {
		event := t.event(verb, obj)
		t.send(trace.Wire, event)
		t.send(trace.Queue, event)
	}
}

// resync reports that the queue emits the objects of the index again.
func (t *tracer) resync() {
	t.recorder.Report(trace.Event{Stage: trace.Queue, Source: t.source, Verb: string(cache.Sync)})
}

// apply reports that a delta has been applied to the index, and that the handlers get note, if any handler wants it.
func (t *tracer) apply(verb cache.DeltaType, note *notification, wanted func(*notification) bool) {
	if t.recorder == nil {
		return
	}
	writer := t.writers.take(note.object())
	if !t.wants(note.object()) {
		return
	}
	event := t.event(verb, note.object())
	if note.new != nil {
		event.Writer = writer
	}
	if note.old != nil && note.new != nil {
		event.Changes = fields.Between(note.old, note.new)
	}
	t.send(trace.Index, event)
	if wanted(note) {
		event.Changes, event.Writer = nil, nil
		t.send(trace.Dispatch, event)
	}
}

func (t *tracer) wants(obj any) bool {
	return t.recorder != nil && t.recorder.Wants(resourceVersionOf(obj))
}

func (t *tracer) send(stage trace.Stage, event trace.Event) {
	event.Stage = stage
	t.recorder.Report(event)
}

// event returns the event for an object, or for the last known state of a deleted one.
func (t *tracer) event(verb cache.DeltaType, obj any) trace.Event {
	event := trace.Event{Source: t.source, Object: trace.Object{Kind: t.kind}, Verb: string(verb)}
	if deleted, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		var namespaced bool
		if event.Namespace, event.Name, namespaced = strings.Cut(deleted.Key, "/"); !namespaced {
			event.Namespace, event.Name = "", deleted.Key
		}
		event.Missed = true
		obj = deleted.Obj
	}
	if object, ok := accessor(obj); ok {
		event.Namespace, event.Name, event.ResourceVersion = object.GetNamespace(), object.GetName(), object.GetResourceVersion()
	}
	return event
}

// resourceVersionOf returns the last known resourceVersion of an object.
func resourceVersionOf(obj any) string {
	if deleted, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = deleted.Obj
	}
	if object, ok := accessor(obj); ok {
		return object.GetResourceVersion()
	}
	return ""
}

// accessor is meta.Accessor with a bool instead of an error.
func accessor(obj any) (metav1.Object, bool) {
	if object, ok := obj.(metav1.Object); ok {
		return object, true
	}
	object, err := meta.Accessor(obj)
	return object, err == nil
}

// kindOf returns the kind of an example object, or else the name of its type.
func kindOf(example runtime.Object) string {
	if example == nil {
		return ""
	}
	if kind := example.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	t := reflect.TypeOf(example)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}
