/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// neverVersion is a resourceVersion that no object has: etcd's revisions begin at
// 1, before anything is written. An apply that carries it creates the object, or
// fails with a conflict if there is one of that name.
const neverVersion = "1"

var applyOptions = metav1.ApplyOptions{FieldManager: glassback.Name, Force: true}

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

	owners   *Owners
	resource string
	cache    cache.Store
	client   func(namespace string) Client[T, A]
	extract  func(object T, fieldManager string) (A, error)
}

// New returns a Kind of children. resource is for traces, such as
// deployments.apps. Of the managedFields of what is in the cache, this operator's
// own entry must be there. extract is the generated function that returns, of an
// object, the fields that a field manager owns.
func New[T Object, A Configuration[A], C Client[T, A]](owners *Owners, name, resource string, cache cache.Store,
	client func(namespace string) C, extract func(object T, fieldManager string) (A, error)) *Kind[T, A] {
	return &Kind[T, A]{
		Name: name, owners: owners, resource: resource, cache: cache, extract: extract,
		client: func(namespace string) Client[T, A] { return client(namespace) },
	}
}

// Seen is what the cache shows of one child.
type Seen[T Object, A Configuration[A]] struct {
	// Object is the cache's own: nobody may change it. It is nil if there is none, or
	// none that the owner controls.
	Object T
	// Owned are the fields of Object that this operator owns, with the values that
	// they have now.
	Owned A

	other T     // an object of that name that the owner does not control
	err   error // why Owned is not known
}

// Observe looks for the child of owner that has the given name.
func (k *Kind[T, A]) Observe(owner metav1.Object, name string) Seen[T, A] {
	var seen Seen[T, A]
	cached, exists, err := k.cache.GetByKey(cache.NewObjectName(owner.GetNamespace(), name).String())
	object, ok := cached.(T)
	switch {
	case err != nil || !exists || !ok:
		seen.err = err
	case !metav1.IsControlledBy(object, owner):
		seen.other = object
	default:
		seen.Object = object
		seen.Owned, seen.err = k.extract(object, glassback.Name)
	}
	return seen
}

// Want returns what is wanted of a child of which this operator owns this now; owned
// is nil if there is none. A nil Want is for a child that is not wanted. Nobody else
// may use what it returns.
type Want[A any] func(owned A) (A, error)

// Exactly is the Want of a child that does not depend on what is there. It is nil if
// configuration is.
func Exactly[A comparable](configuration A) Want[A] {
	var none A
	if configuration == none {
		return nil
	}
	return func(A) (A, error) { return configuration, nil }
}

// Bring returns the change that brings the child of owner with the given name from
// what was seen to what is wanted. listed is whether there was one once: if it is
// not in the cache, it may only have lost the label that the cache goes by.
func (k *Kind[T, A]) Bring(owner metav1.Object, name string, seen Seen[T, A], listed bool, want Want[A]) Change {
	var none T
	change := Change{Kind: k.Name, Name: name}
	switch {
	case want == nil && seen.Object != none && seen.Object.GetDeletionTimestamp() == nil:
		change.Verb = Delete
		change.do = func(ctx context.Context) (Outcome, error) { return k.delete(ctx, owner, seen.Object) }
	case want == nil && seen.Object == none && listed:
		change.Verb = Delete
		change.do = func(ctx context.Context) (Outcome, error) { return k.sweep(ctx, owner, name) }
	case want == nil:
	case seen.err != nil:
		change.do = func(context.Context) (Outcome, error) { return k.unreadable(name, seen.err), nil }
	case seen.other != none:
		change.do = func(context.Context) (Outcome, error) { return Outcome{}, k.owners.taken(owner, k.Name, seen.other) }
	case seen.Object == none:
		change.Verb = Create
		change.do = func(ctx context.Context) (Outcome, error) { return k.create(ctx, owner, name, want) }
	case seen.Object.GetDeletionTimestamp() != nil:
		going := Problem{k.Name + "Terminating", fmt.Sprintf("%s %s is being deleted, and is made anew when it is gone", k.Name, name)}
		change.do = func(context.Context) (Outcome, error) { return Outcome{Problem: &going}, nil }
	default:
		wanted, err := want(seen.Owned)
		if err == nil && equality.Semantic.DeepEqual(seen.Owned, wanted) {
			break
		}
		change.Verb = Update
		change.do = func(ctx context.Context) (Outcome, error) {
			if err != nil {
				return Outcome{}, err
			}
			return k.apply(ctx, owner, seen.Object, seen.Owned, wanted)
		}
	}
	return change
}

// create applies an object that must not exist. If it does, it goes by what that is.
func (k *Kind[T, A]) create(ctx context.Context, owner metav1.Object, name string, want Want[A]) (Outcome, error) {
	if contested := k.owners.contested(owner, k.Name); contested.Wait > 0 {
		return contested, nil
	}
	var nothing A
	wanted, err := want(nothing)
	if err != nil {
		return Outcome{}, err
	}
	client, desired := k.client(owner.GetNamespace()), fingerprint(wanted)
	created, err := client.Apply(ctx, wanted.WithResourceVersion(neverVersion), applyOptions)
	if err == nil {
		k.owners.repairs.applied(owner, k.Name, "", desired)
		k.wrote(ctx, owner, "create", created)
		return Outcome{Wrote: true}, nil
	}
	if !apierrors.IsConflict(err) {
		return Outcome{}, fmt.Errorf("create %s %s: %w", k.Name, name, err)
	}
	live, getErr := client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(getErr):
		return Outcome{}, err // It has just gone: the next sync creates it.
	case getErr != nil:
		return Outcome{}, fmt.Errorf("get %s %s, which exists: %w", k.Name, name, getErr)
	case !metav1.IsControlledBy(live, owner):
		return Outcome{}, k.owners.taken(owner, k.Name, live)
	}
	out, restoreErr := k.restore(ctx, owner, live, want)
	if restoreErr != nil || out != (Outcome{}) {
		return out, restoreErr
	}
	if _, labelled := live.GetLabels()[k.owners.label]; labelled {
		return Outcome{}, err // It is as wanted: the cache is behind, and about to show it.
	}
	return Outcome{Problem: &Problem{k.Name + "Hidden", fmt.Sprintf("%s %s is there, but is not shown to %s: something takes its label %s away",
		k.Name, name, glassback.Name, k.owners.label)}}, nil
}

// restore applies to a child that the cache does not show: it was made just before
// a restart, or somebody took away the label that the cache goes by.
func (k *Kind[T, A]) restore(ctx context.Context, owner metav1.Object, live T, want Want[A]) (Outcome, error) {
	owned, err := k.extract(live, glassback.Name)
	if err != nil {
		return k.unreadable(live.GetName(), err), nil
	}
	wanted, err := want(owned)
	if err != nil {
		return Outcome{}, err
	}
	return k.apply(ctx, owner, live, owned, wanted)
}

func (k *Kind[T, A]) unreadable(name string, err error) Outcome {
	return Outcome{Problem: &Problem{k.Name + "Unreadable", fmt.Sprintf(
		"Which fields of %s %s are %s's cannot be told, so it is left as it is: %v", k.Name, name, glassback.Name, err)}}
}

// apply applies to exactly this version of an object. The UID says that there must
// be one: without it, an apply would bring back what is gone. owned is what the operator
// owned of that version.
func (k *Kind[T, A]) apply(ctx context.Context, owner metav1.Object, object T, owned, wanted A) (Outcome, error) {
	if contested := k.owners.contested(owner, k.Name); contested.Wait > 0 {
		return contested, nil
	}
	desired := fingerprint(wanted) // Without the UID and the version.
	wanted = wanted.WithUID(object.GetUID()).WithResourceVersion(object.GetResourceVersion())
	applied, err := k.client(owner.GetNamespace()).Apply(ctx, wanted, applyOptions)
	if err != nil {
		return Outcome{}, fmt.Errorf("apply %s %s: %w", k.Name, object.GetName(), err)
	}
	if applied.GetResourceVersion() == object.GetResourceVersion() {
		return Outcome{}, nil
	}
	k.owners.repairs.applied(owner, k.Name, fingerprint(owned), desired)
	k.wrote(ctx, owner, "apply", applied)
	return Outcome{Wrote: true}, nil
}

// wrote notes that the child was created or applied.
func (k *Kind[T, A]) wrote(ctx context.Context, owner metav1.Object, verb string, object T) {
	k.owners.written.Record(cache.MetaObjectToName(owner), verb+" "+k.resource, k.cache, object)
	klog.FromContext(ctx).V(2).Info("Wrote "+k.Name, "verb", verb, "child", klog.KObj(object))
}

// sweep deletes a child that the cache does not show, if there is one.
func (k *Kind[T, A]) sweep(ctx context.Context, owner metav1.Object, name string) (Outcome, error) {
	live, err := k.client(owner.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || (err == nil && !metav1.IsControlledBy(live, owner)):
		return Outcome{Gone: true}, nil
	case err != nil:
		return Outcome{}, fmt.Errorf("get %s %s, which may have lost its label: %w", k.Name, name, err)
	}
	_, err = k.delete(ctx, owner, live)
	// The cache has nothing to show of it, nor of what holds it up.
	switch {
	case err != nil:
		return Outcome{}, err
	case len(live.GetFinalizers()) > 0:
		return Outcome{Wait: Recheck}, nil
	}
	return Outcome{Gone: true}, nil
}

// delete deletes exactly this version of an object, and what it owns after it: a
// later one may have another controller. That it is gone already is as good.
func (k *Kind[T, A]) delete(ctx context.Context, owner metav1.Object, object T) (Outcome, error) {
	err := k.client(owner.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())},
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return Outcome{}, fmt.Errorf("delete %s %s: %w", k.Name, object.GetName(), err)
	}
	k.owners.written.RecordDelete(cache.MetaObjectToName(owner), "delete "+k.resource, k.cache, object)
	klog.FromContext(ctx).V(2).Info("Wrote "+k.Name, "verb", "delete", "child", klog.KObj(object))
	return Outcome{Wrote: true}, nil
}
