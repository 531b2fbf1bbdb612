// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/trace"
)

// Self returns the key of the object itself, for the controller's own resource.
func Self(obj metav1.Object) (cache.ObjectName, bool) {
	return cache.MetaObjectToName(obj), true
}

// ControllerOf returns a function for children: it returns the key of an object's controller, if that owner
// is of the given kind. group is the owner's API group, without the version; "" is the core group.
func ControllerOf(group, kind string) func(metav1.Object) (cache.ObjectName, bool) {
	return func(obj metav1.Object) (cache.ObjectName, bool) {
		owner := metav1.GetControllerOfNoCopy(obj)
		if owner == nil || owner.Kind != kind {
			return cache.ObjectName{}, false
		}
		if version, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || version.Group != group {
			return cache.ObjectName{}, false
		}
		return cache.NewObjectName(obj.GetNamespace(), owner.Name), true
	}
}

// Watch adds an event handler to informer. Each change of an object adds the key that keyOf returns for the object. If an update changes
// that key, the handler adds the old and the new key. kind is the kind of the objects. Call Watch before Run, and before the informer runs.
//
// Before Run, handlers add no keys: a standby would collect the keys of all objects that are created and deleted.
// Run begins with the keys of all cached objects.
func (l *Loop) Watch(informer cache.SharedIndexInformer, kind string, keyOf func(metav1.Object) (cache.ObjectName, bool)) error {
	h := &handler{loop: l, kind: kind, keyOf: keyOf, objects: informer.GetStore()}
	if _, err := informer.AddEventHandler(h); err != nil {
		return fmt.Errorf("watch %s: %w", kind, err)
	}
	l.handlers = append(l.handlers, h)
	return nil
}

// begin adds the keys of all cached objects. It loses no change: an informer changes its cache before it
// calls a handler. So the cache holds each change that a handler has dropped.
func (l *Loop) begin() {
	l.begun.Store(true)
	for _, h := range l.handlers {
		for _, obj := range h.objects.List() {
			h.OnAdd(obj, true)
		}
	}
}

// handler adds keys for the changes of one informer's objects.
type handler struct {
	loop    *Loop
	kind    string
	keyOf   func(metav1.Object) (cache.ObjectName, bool)
	objects cache.Store // the informer's
}

// String returns the name of the controller. pipeline.Stats shows it.
func (h *handler) String() string { return h.loop.Name }

func (h *handler) OnAdd(o any, isInInitialList bool) {
	if obj, ok := o.(metav1.Object); ok {
		h.add(string(cache.Added), nil, obj, !isInInitialList)
	}
}

func (h *handler) OnUpdate(o, n any) {
	old, ok1 := o.(metav1.Object)
	obj, ok2 := n.(metav1.Object)
	if !ok1 || !ok2 {
		return
	}
	if old.GetResourceVersion() == obj.GetResourceVersion() {
		h.add(string(cache.Sync), nil, obj, false)
		return
	}
	before, had := h.keyOf(old)
	if after, has := h.keyOf(obj); had && (!has || after != before) {
		h.add(string(cache.Updated), nil, old, true)
	}
	h.add(string(cache.Updated), old, obj, true)
}

func (h *handler) OnDelete(o any) {
	// If the watch missed the deletion, the tombstone holds the last known state.
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	if obj, ok := o.(metav1.Object); ok {
		h.add(string(cache.Deleted), nil, obj, true) // urgent: before the keys that Run begins with
	}
}

// add adds the key of obj. After an update, old is the previous state of obj; otherwise it is nil. For urgent, see trace.Cause.
func (h *handler) add(verb string, old, obj metav1.Object, urgent bool) {
	if !h.loop.begun.Load() {
		return
	}
	key, ok := h.keyOf(obj)
	if !ok {
		return
	}
	cause := trace.Cause{
		Object: trace.Object{Kind: h.kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
		Verb:   verb, ResourceVersion: obj.GetResourceVersion(), Urgent: urgent,
	}
	if old != nil {
		cause.Fields = fields.Paths(old, obj)
	}
	h.loop.Add(key, cause)
}
