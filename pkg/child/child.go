/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/loop"
)

// neverVersion is a resourceVersion that no object has: etcd's revisions begin at
// 1, before anything is written. An apply that carries it creates the object, or
// fails with a conflict if there is one of that name.
const neverVersion = "1"

// Object is a child as the cache holds it, such as *appsv1.Deployment.
type Object interface {
	comparable
	metav1.Object
}

// Configuration is what is applied, such as *appsv1ac.DeploymentApplyConfiguration.
type Configuration[A any] interface {
	comparable
	WithUID(types.UID) A
	WithResourceVersion(string) A
}

// Client is what a Kind needs of a generated typed client.
type Client[T, A any] interface {
	Apply(ctx context.Context, configuration A, options metav1.ApplyOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// Kind keeps the children of one kind.
type Kind[T Object, A Configuration[A]] struct {
	// Name is the kind's, such as Deployment.
	Name string
	// Owner is the kind of those that own them, such as Application.
	Owner string
	// Resource is for traces, such as deployments.apps.
	Resource string
	// Cache is where an informer puts the children. Their managedFields must have
	// this operator's own entry.
	Cache cache.Store
	// Client returns the client for a namespace.
	Client func(namespace string) Client[T, A]
	// Extract is the generated function that returns, of an object, the fields that a
	// field manager owns.
	Extract func(object T, fieldManager string) (A, error)
	// Written is told of every write.
	Written *loop.Written
}

// Seen is what the cache shows of one child.
type Seen[T Object, A Configuration[A]] struct {
	// Object is the cache's own: nobody may change it. It is nil if there is none, or
	// none that the owner controls.
	Object T
	// Owned are the fields of Object that this operator owns, with the values that
	// they have now.
	Owned A
	// other is an object of that name that the owner does not control.
	other T
}

// Observe looks for the child of owner that has the given name.
func (k *Kind[T, A]) Observe(owner metav1.Object, name string) (Seen[T, A], error) {
	var seen Seen[T, A]
	cached, exists, err := k.Cache.GetByKey(cache.NewObjectName(owner.GetNamespace(), name).String())
	if err != nil {
		return seen, fmt.Errorf("get %s %s from the cache: %w", k.Name, name, err)
	}
	object, ok := cached.(T)
	if !exists || !ok {
		return seen, nil
	}
	if !metav1.IsControlledBy(object, owner) {
		seen.other = object
		return seen, nil
	}
	seen.Object = object
	if seen.Owned, err = k.Extract(object, glassback.Name); err != nil {
		return seen, fmt.Errorf("extract the fields of %s %s that %s owns: %w", k.Name, name, glassback.Name, err)
	}
	return seen, nil
}

// Bring returns the change that brings the child of owner with the given name to
// what is wanted. wanted may be nil, for none; it is not used by anybody else any
// more.
func (k *Kind[T, A]) Bring(owner metav1.Object, name string, seen Seen[T, A], wanted A) Change {
	var noObject T
	var noConfiguration A
	change := Change{Kind: k.Name, Name: name}
	switch {
	case seen.Object != noObject && seen.Object.GetDeletionTimestamp() != nil:
	case wanted == noConfiguration && seen.Object != noObject:
		change.Verb = Delete
		change.do = func(ctx context.Context) (bool, error) { return k.delete(ctx, owner, seen.Object) }
	case wanted == noConfiguration:
	case seen.other != noObject:
		change.Verb = Create
		change.do = func(context.Context) (bool, error) { return false, k.taken(owner, seen.other) }
	case seen.Object == noObject:
		change.Verb = Create
		change.do = func(ctx context.Context) (bool, error) { return k.create(ctx, owner, name, wanted) }
	case !equality.Semantic.DeepEqual(seen.Owned, wanted):
		change.Verb = Update
		change.do = func(ctx context.Context) (bool, error) { return k.apply(ctx, owner, seen.Object, wanted) }
	}
	return change
}

// Sweep returns the change that deletes the child of owner with the given name that
// was there once and is not in the cache: it may only have lost the label that the
// cache goes by.
func (k *Kind[T, A]) Sweep(owner metav1.Object, name string) Change {
	return Change{Verb: Delete, Kind: k.Name, Name: name, do: func(ctx context.Context) (bool, error) {
		live, err := k.Client(owner.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && !metav1.IsControlledBy(live, owner)) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("get %s %s, which may have lost its label: %w", k.Name, name, err)
		}
		_, err = k.delete(ctx, owner, live)
		return false, err // The cache has nothing to show of it.
	}}
}

// create applies an object that must not exist.
func (k *Kind[T, A]) create(ctx context.Context, owner metav1.Object, name string, wanted A) (bool, error) {
	client := k.Client(owner.GetNamespace())
	created, err := client.Apply(ctx, wanted.WithResourceVersion(neverVersion), applyOptions)
	if err == nil {
		k.Written.Record(cache.MetaObjectToName(owner), "create "+k.Resource, k.Cache, created)
		klog.FromContext(ctx).V(2).Info("Created "+k.Name, "child", klog.KObj(created))
		return true, nil
	}
	if !apierrors.IsConflict(err) {
		return false, fmt.Errorf("create %s %s: %w", k.Name, name, err)
	}
	live, getErr := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(getErr) {
		return false, err // It has just gone: the next sync creates it.
	}
	if getErr != nil {
		return false, fmt.Errorf("get %s %s, which exists: %w", k.Name, name, getErr)
	}
	if !metav1.IsControlledBy(live, owner) {
		return false, k.taken(owner, live)
	}
	// The cache does not show it: it was made just before a restart, or somebody took
	// away the label that the cache goes by.
	return k.apply(ctx, owner, live, wanted)
}

// apply applies to exactly this version of an object. The UID says that there must
// be one: without it, an apply would bring back what is gone.
func (k *Kind[T, A]) apply(ctx context.Context, owner metav1.Object, object T, wanted A) (bool, error) {
	wanted = wanted.WithUID(object.GetUID()).WithResourceVersion(object.GetResourceVersion())
	applied, err := k.Client(owner.GetNamespace()).Apply(ctx, wanted, applyOptions)
	if err != nil {
		return false, fmt.Errorf("apply %s %s: %w", k.Name, object.GetName(), err)
	}
	if applied.GetResourceVersion() == object.GetResourceVersion() {
		return false, nil
	}
	k.Written.Record(cache.MetaObjectToName(owner), "apply "+k.Resource, k.Cache, applied)
	klog.FromContext(ctx).V(2).Info("Applied "+k.Name, "child", klog.KObj(applied))
	return true, nil
}

// delete deletes exactly this version of an object, and what it owns after it: a
// later one may have another controller. That it is gone already is as good.
func (k *Kind[T, A]) delete(ctx context.Context, owner metav1.Object, object T) (bool, error) {
	err := k.Client(owner.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())},
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("delete %s %s: %w", k.Name, object.GetName(), err)
	}
	k.Written.RecordDelete(cache.MetaObjectToName(owner), "delete "+k.Resource, k.Cache, object)
	klog.FromContext(ctx).V(2).Info("Deleted "+k.Name, "child", klog.KObj(object))
	return true, nil
}

// takenError says that a name is taken by an object that the owner does not
// control.
type takenError string

func (e takenError) Error() string { return string(e) }

func (k *Kind[T, A]) taken(owner metav1.Object, object T) error {
	holder := metav1.GetControllerOfNoCopy(object)
	switch {
	case holder == nil:
		return takenError(fmt.Sprintf("%s %s exists already and has no controller: rename or delete one of the two", k.Name, object.GetName()))
	case holder.Kind == k.Owner && holder.Name == owner.GetName():
		return takenError(fmt.Sprintf("%s %s belongs to the %s %s that was deleted before, and has not been garbage-collected yet",
			k.Name, object.GetName(), holder.Kind, holder.Name))
	}
	return takenError(fmt.Sprintf("%s %s exists already and is controlled by %s %s: rename or delete one of the two",
		k.Name, object.GetName(), holder.Kind, holder.Name))
}

var applyOptions = metav1.ApplyOptions{FieldManager: glassback.Name, Force: true}

// ControllerReference returns the owner reference that makes owner the controller
// of a child, which is deleted after it.
func ControllerReference(owner metav1.Object, apiVersion, kind string) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(apiVersion).WithKind(kind).WithName(owner.GetName()).WithUID(owner.GetUID()).
		WithController(true).WithBlockOwnerDeletion(true)
}

// Verb is what a Change does.
type Verb string

const (
	// Nothing is to be done.
	Nothing Verb = ""
	// Create makes an object that is not there.
	Create Verb = "create"
	// Update applies to an object that is there.
	Update Verb = "update"
	// Delete deletes an object.
	Delete Verb = "delete"
)

// Change is what is to be done about one child.
type Change struct {
	Verb       Verb
	Kind, Name string

	do func(context.Context) (wrote bool, err error)
}

// ReasonConflict is the reason of a Problem with an object that the owner does not
// control.
const ReasonConflict = "Conflict"

// Problem is why a child is not as it should be, in the words of a condition.
type Problem struct{ Reason, Message string }

// Outcome is what came of a Change.
type Outcome struct {
	// Wrote is whether an object was changed, which the cache is about to show.
	Wrote bool
	// Problem is what a person should know of; nil if there is nothing.
	Problem *Problem
}

// Do carries the change out. An error may pass, and is retried; what will not is a
// Problem alone.
func (c Change) Do(ctx context.Context) (Outcome, error) {
	if c.do == nil {
		return Outcome{}, nil
	}
	wrote, err := c.do(ctx)
	var taken takenError
	switch {
	case err == nil:
		return Outcome{Wrote: wrote}, nil
	case errors.As(err, &taken):
		return Outcome{Problem: &Problem{ReasonConflict, taken.Error()}}, nil
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return Outcome{Problem: &Problem{c.Kind + "Rejected", short(err.Error())}}, nil
	case apierrors.IsConflict(err):
		return Outcome{}, err // Somebody wrote in between: the next sync sees it.
	}
	out := Outcome{}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		// The text may change with every try, and every change would be written.
		out.Problem = &Problem{c.Kind + "NotApplied", fmt.Sprintf("The API server does not take the %s now, which is tried again: %s", c.Kind, reason)}
		if apierrors.IsForbidden(err) {
			out.Problem.Message = short(fmt.Sprintf("The API server does not take the %s now, which is tried again: %v", c.Kind, err))
		}
	}
	return out, err
}

// maxMessage bounds what is said of an error: it goes into a condition and an event.
const maxMessage = 1000

func short(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return message
}
