/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package pipeline

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
	"github.com/glassback/glassback/pkg/trace/changes"
)

// tracer reports the objects of one informer to the trace. Without a recorder, a report
// costs one comparison; with one, an object whose change is not recorded costs a hash of its
// resourceVersion.
type tracer struct {
	recorder *trace.Recorder // nil: nobody watches
	source   string
	kind     string
}

// arrive reports that an object came off the wire, and is about to be put into the queue.
func (t *tracer) arrive(verb cache.DeltaType, obj any) {
	if t.recorder != nil && t.recorder.Wants(resourceVersionOf(obj)) {
		event := t.event(verb, obj)
		t.send(trace.Wire, event)
		t.send(trace.Queue, event)
	}
}

// resync reports that the queue emits again what the index holds.
func (t *tracer) resync() {
	t.recorder.Report(trace.Event{Stage: trace.Queue, Source: t.source, Verb: string(cache.Sync)})
}

// tell reports that the index holds the outcome of a delta, and that handlers are told of it, if
// there is one that wants it.
func (t *tracer) tell(verb cache.DeltaType, note *notification, wanted func(*notification) bool) {
	if t.recorder != nil && t.recorder.Wants(resourceVersionOf(note.object())) {
		t.told(verb, note, wanted)
	}
}

func (t *tracer) told(verb cache.DeltaType, note *notification, wanted func(*notification) bool) {
	event := t.event(verb, note.object())
	if note.old != nil && note.new != nil {
		event.Changes = changes.Between(note.old, note.new)
	}
	t.send(trace.Index, event)
	if wanted(note) {
		event.Changes = nil
		t.send(trace.Dispatch, event)
	}
}

func (t *tracer) send(stage trace.Stage, event trace.Event) {
	event.Stage = stage
	t.recorder.Report(event)
}

// event returns what there is to say of an object.
func (t *tracer) event(verb cache.DeltaType, obj any) trace.Event {
	event := trace.Event{Source: t.source, Object: trace.Object{Kind: t.kind}, Verb: string(verb)}
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		var namespaced bool
		if event.Namespace, event.Name, namespaced = strings.Cut(gone.Key, "/"); !namespaced {
			event.Namespace, event.Name = "", gone.Key
		}
		obj = gone.Obj
	}
	if object, ok := accessor(obj); ok {
		event.Namespace, event.Name, event.ResourceVersion = object.GetNamespace(), object.GetName(), object.GetResourceVersion()
	}
	return event
}

// resourceVersionOf returns the resourceVersion of an object, or the last one that is known of it.
func resourceVersionOf(obj any) string {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if object, ok := accessor(obj); ok {
		return object.GetResourceVersion()
	}
	return ""
}

// accessor is meta.Accessor, without an error that would be made to be dropped.
func accessor(obj any) (metav1.Object, bool) {
	if object, ok := obj.(metav1.Object); ok { // All that the API server has.
		return object, true
	}
	object, err := meta.Accessor(obj)
	return object, err == nil
}

// kindOf returns the kind of an example object: its own, or the name of its type.
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
