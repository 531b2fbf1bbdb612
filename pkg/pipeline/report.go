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
	if t.recorder == nil {
		return
	}
	if event, wanted := t.event(verb, obj); wanted {
		t.send(trace.Wire, event)
		t.send(trace.Queue, event)
	}
}

// resync reports that the queue emits again what the index holds.
func (t *tracer) resync() {
	t.recorder.Report(trace.Event{Stage: trace.Queue, Source: t.source, Verb: string(cache.Sync)})
}

// tell reports that the index holds the outcome of a delta, and that handlers are told of it, if
// any wants it.
func (t *tracer) tell(verb cache.DeltaType, note *notification, wanted func(*notification) bool) {
	if t.recorder == nil {
		return
	}
	obj := note.new
	if obj == nil {
		obj = note.old
	}
	event, recorded := t.event(verb, obj)
	if !recorded {
		return
	}
	dispatched := event
	if note.old != nil && note.new != nil {
		event.Changes = changes.Between(note.old, note.new)
	}
	t.send(trace.Index, event)
	if wanted(note) {
		t.send(trace.Dispatch, dispatched)
	}
}

func (t *tracer) send(stage trace.Stage, event trace.Event) {
	event.Stage = stage
	t.recorder.Report(event)
}

// event returns what there is to say of an object, if its change is one to record.
func (t *tracer) event(verb cache.DeltaType, obj any) (trace.Event, bool) {
	var name trace.Object
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		var namespaced bool
		if name.Namespace, name.Name, namespaced = strings.Cut(gone.Key, "/"); !namespaced {
			name.Namespace, name.Name = "", gone.Key
		}
		obj = gone.Obj
	}
	version := ""
	if object, ok := accessor(obj); ok {
		if version = object.GetResourceVersion(); !t.recorder.Wants(version) {
			return trace.Event{}, false
		}
		name.Namespace, name.Name = object.GetNamespace(), object.GetName()
	}
	name.Kind = t.kind
	return trace.Event{Source: t.source, Object: name, Verb: string(verb), ResourceVersion: version}, true
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
