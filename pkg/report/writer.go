// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/loop"
)

// Object is an object that has a status, such as *v1.MyCronJob.
type Object interface {
	metav1.Object
	runtime.Object
	Conditions() []metav1.Condition
}

// Client is the part of a generated typed client that a Writer uses.
type Client[T any] interface {
	UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

// Config describes a Writer. T is the type of the objects, and S is the type of their status.
type Config[T Object, S any] struct {
	// Kind and Resource name the objects, such as MyCronJob and mycronjobs.
	Kind, Resource string
	// Status returns the status of an object.
	Status func(T) *S
	// NoWarning are the reasons for which transitions sends no warning.
	NoWarning []string
	// MinorEvery is the shortest time from one write of a status to a write of minor changes; 0 delays no write.
	MinorEvery time.Duration
	// WithoutMinor returns a status without the fields whose changes are minor, such as numbers and messages. It must not
	// write to the slices and pointers of its argument. It is used only with MinorEvery.
	WithoutMinor func(S) S
	// Wrote is called after each write, unless it is nil. after has the new status.
	Wrote func(before, after T)

	// Store caches the objects.
	Store    cache.Store
	Written  *loop.Written
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
}

// Writer writes the statuses of the objects of one kind. It remembers in memory when it wrote: after a restart a
// minor change may be written sooner. Its methods may be called from several goroutines.
type Writer[T Object, S any] struct {
	Config[T, S]
	client func(namespace string) Client[T]
	times  sync.Map // of the last write, by cache.ObjectName
	pruned sync.Map // see isWritten, by cache.ObjectName
}

// NewWriter returns a Writer that writes with client.
func NewWriter[T Object, S any, C Client[T]](config Config[T, S], client func(namespace string) C) *Writer[T, S] {
	return &Writer[T, S]{Config: config, client: func(namespace string) Client[T] { return client(namespace) }}
}

// Report writes status as Write does. If only minor fields differ, it may delay the write: then it writes nothing,
// and returns how long to wait before the next try. If the object no longer exists, it does nothing.
func (w *Writer[T, S]) Report(ctx context.Context, object T, status S) (time.Duration, error) {
	if w.isWritten(object, status) {
		return 0, nil
	}
	if wait := w.delay(object, status); wait > 0 {
		return wait, nil
	}
	_, err := w.Write(ctx, object, status)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}

// Write writes status if it differs from the status of object, and sends an event for each transition. It returns a
// copy of object with the status and the resourceVersion that the API server stores. A conflict says that the cache
// was stale, and NotFound that the object no longer exists. It does not change object.
func (w *Writer[T, S]) Write(ctx context.Context, object T, status S) (T, error) {
	if w.isWritten(object, status) {
		return object, nil
	}
	changed := object.DeepCopyObject().(T)
	after := w.Status(changed)
	*after = status
	updated, err := w.client(object.GetNamespace()).UpdateStatus(ctx, changed, metav1.UpdateOptions{FieldManager: glassback.Name})
	if err != nil {
		return object, fmt.Errorf("update status of %s %s: %w", w.Kind, object.GetName(), err)
	}
	key := cache.MetaObjectToName(object)
	if w.MinorEvery > 0 {
		w.times.Store(key, w.Clock.Now())
	}
	w.Written.Record(ctx, key, "update "+w.Resource+"/status", w.Store, updated)
	klog.FromContext(ctx).V(2).Info("Updated status", "resourceVersion", updated.GetResourceVersion())
	transitions(w.Recorder, object, object.Conditions(), changed.Conditions(), w.NoWarning...)
	if w.Wrote != nil {
		w.Wrote(object, changed)
	}
	stored := w.Status(updated)
	w.pruned.Delete(key)
	if !equality.Semantic.DeepEqual(*stored, status) {
		w.pruned.Store(key, [2]S{*stored, status})
	}
	*after = *stored
	changed.SetResourceVersion(updated.GetResourceVersion())
	return changed, nil
}

// isWritten returns whether object has status, or has what the API server made of status when it was written last: a
// CustomResourceDefinition of an earlier version prunes fields that it does not have.
func (w *Writer[T, S]) isWritten(object T, status S) bool {
	before := w.Status(object)
	if equality.Semantic.DeepEqual(*before, status) {
		return true
	}
	pruned, ok := w.pruned.Load(cache.MetaObjectToName(object))
	return ok && equality.Semantic.DeepEqual(pruned, [2]S{*before, status})
}

// Preview adds the write that Write would make to a plan, and makes none.
func (w *Writer[T, S]) Preview(object T, status S, plan *Plan) error {
	before := w.Status(object)
	if equality.Semantic.DeepEqual(*before, status) {
		return nil
	}
	changed, err := fields.Diff(map[string]any{"status": *before}, map[string]any{"status": status})
	plan.Writes = append(plan.Writes, Write{Verb: "update", Kind: w.Kind, Name: object.GetName(), Fields: changed})
	return err
}

// Forget drops what is known of the last write. Call it when the object no longer exists.
func (w *Writer[T, S]) Forget(key cache.ObjectName) {
	w.times.Delete(key)
	w.pruned.Delete(key)
}

// delay returns how long the write of status must wait; 0 if it is due.
func (w *Writer[T, S]) delay(object T, status S) time.Duration {
	wrote, ok := w.times.Load(cache.MetaObjectToName(object))
	if !ok {
		return 0
	}
	wait := w.MinorEvery - w.Clock.Since(wrote.(time.Time))
	before := w.Status(object)
	if wait <= 0 || !equality.Semantic.DeepEqual(w.WithoutMinor(*before), w.WithoutMinor(status)) {
		return 0
	}
	return wait
}

// WithoutMessages returns a copy of conditions that has no messages: the API server may word the same error in another way each time.
func WithoutMessages(conditions []metav1.Condition) []metav1.Condition {
	bare := make([]metav1.Condition, len(conditions))
	for i, c := range conditions {
		c.Message = ""
		bare[i] = c
	}
	return bare
}
