// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// neverVersion is a resourceVersion that no object has: etcd's revisions begin at 1, before the first write. An apply
// that carries it creates the object, or fails with a conflict if an object has that name.
const neverVersion = "1"

var applyOptions = metav1.ApplyOptions{FieldManager: glassback.Name, Force: true}

// Object is a child as the cache holds it, such as *appsv1.Deployment.
type Object interface {
	comparable
	metav1.Object
	metav1.ObjectMetaAccessor
	runtime.Object
}

// Configuration is an apply configuration, such as *appsv1ac.DeploymentApplyConfiguration.
type Configuration[A any] interface {
	comparable
	WithUID(types.UID) A
	WithResourceVersion(string) A
}

// Client is the part of a generated typed client that a Kind uses.
type Client[T, A any] interface {
	Apply(ctx context.Context, configuration A, options metav1.ApplyOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// Kind reads and writes the children of one kind.
type Kind[T Object, A Configuration[A]] struct {
	// Name is the name of the kind, such as Deployment.
	Name string

	owners   *Owners
	resource string
	cache    cache.Store
	client   func(namespace string) Client[T, A]
	extract  func(object T, fieldManager string) (A, error)
	checks   *checks

	// Adapt adapts the desired fields to a child that the cache did not show, before they are applied to it; nil if they do not depend on it.
	Adapt func(owner metav1.Object, desired A, live T)
}

// New returns a Kind of children. resource is for traces, such as deployments.apps. The objects in the cache need
// this operator's entry of their managedFields; the other entries may be missing. extract is the generated function
// that returns the fields of an object that a field manager owns.
func New[T Object, A Configuration[A], C Client[T, A]](owners *Owners, name, resource string, cache cache.Store,
	client func(namespace string) C, extract func(object T, fieldManager string) (A, error)) *Kind[T, A] {
	return &Kind[T, A]{
		Name: name, owners: owners, resource: resource, cache: cache, extract: extract,
		client: func(namespace string) Client[T, A] { return client(namespace) }, checks: &checks{},
	}
}

// Observed is one child as the cache shows it. Its objects belong to the cache: do not change them.
type Observed[T Object] struct {
	// Object is nil if the owner controls no object of that name.
	Object T
	// Other is an object of that name that the owner does not control.
	Other T
}

// Observe reads the child of owner that has the given name from the cache.
func (k *Kind[T, A]) Observe(owner metav1.Object, name string) Observed[T] {
	var observed Observed[T]
	cached, exists, err := k.cache.GetByKey(cache.NewObjectName(owner.GetNamespace(), name).String())
	object, ok := cached.(T)
	switch {
	case err != nil || !exists || !ok:
	case !metav1.IsControlledBy(object, owner):
		observed.Other = object
	default:
		observed.Object = object
	}
	return observed
}

// Reconcile returns the change from the observed child of owner to the desired fields, which are nil for a child that must not exist. It
// writes nothing. listed says that the status of owner lists this child: if the cache does not have it, the child may have lost the label
// by which the cache selects.
func (k *Kind[T, A]) Reconcile(owner metav1.Object, name string, observed Observed[T], listed bool, desired A) Change {
	var (
		none    T
		nothing A
	)
	change := Change{Kind: k.Name, Name: name}
	object := observed.Object
	switch {
	case desired == nothing && object != none && object.GetDeletionTimestamp() == nil:
		change.Verb = Delete
		change.do = func(ctx context.Context) (Outcome, error) { return k.delete(ctx, owner, object) }
	case desired == nothing && object == none && listed:
		change.Verb = Delete
		change.do = func(ctx context.Context) (Outcome, error) { return k.deleteHidden(ctx, owner, name) }
	case desired == nothing:
	case observed.Other != none:
		change.do = func(context.Context) (Outcome, error) {
			return Outcome{}, k.owners.taken(owner, k.Name, observed.Other)
		}
	case object == none:
		change.Verb = Create
		change.do = func(ctx context.Context) (Outcome, error) { return k.create(ctx, owner, name, desired) }
		change.fields = func() (owned, configuration, live any, err error) { return nil, desired, nil, nil }
	case object.GetDeletionTimestamp() != nil:
		terminating := Problem{k.Name + "Terminating",
			fmt.Sprintf("%s %s is being deleted; the operator creates it again when it is gone", k.Name, name)}
		change.do = func(context.Context) (Outcome, error) { return Outcome{Problem: &terminating}, nil }
	default:
		return k.update(owner, change, object, desired)
	}
	return change
}

// update returns change without a verb if object is as desired. Otherwise it returns change with an apply of the desired fields.
func (k *Kind[T, A]) update(owner metav1.Object, change Change, object T, desired A) Change {
	sum, was := checksumOf(desired), k.checks.of(object)
	switch {
	case sum == was && sum != (checksum{}):
		return change
	case was == (checksum{}) && isExactly(object, desired): // With a check, object is as was desired then, and so not as is desired now.
		k.checks.remember(object, sum)
		return change
	}
	change.Verb = Update
	change.do = func(ctx context.Context) (Outcome, error) { return k.apply(ctx, owner, object, desired, sum) }
	change.fields = func() (owned, configuration, live any, err error) {
		owned, err = k.extract(object, glassback.Name)
		return owned, desired, object, err
	}
	return change
}

// create creates the child, by an apply that fails if an object has its name. If the owner controls that object, create applies the desired
// fields to it.
func (k *Kind[T, A]) create(ctx context.Context, owner metav1.Object, name string, desired A) (Outcome, error) {
	if contested := k.owners.contested(owner, k.Name, name); contested.Wait > 0 {
		return contested, nil
	}
	client := k.client(owner.GetNamespace())
	sum := checksumOf(desired) // before WithResourceVersion changes it
	created, err := client.Apply(ctx, desired.WithResourceVersion(neverVersion), applyOptions)
	if err == nil {
		k.owners.repairs.applied(owner, nameOf(k.Name, name), sum, nil)
		k.wrote(ctx, owner, "create", created)
		return Outcome{Wrote: true}, nil
	}
	if !apierrors.IsConflict(err) {
		return Outcome{}, fmt.Errorf("create %s %s: %w", k.Name, name, err)
	}
	live, getErr := client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(getErr):
		return Outcome{}, err // The object was just deleted: the next sync creates the child.
	case getErr != nil:
		return Outcome{}, fmt.Errorf("get %s %s after a conflict with it: %w", k.Name, name, getErr)
	case !metav1.IsControlledBy(live, owner):
		return Outcome{}, k.owners.taken(owner, k.Name, live)
	}
	// The cache does not have the child: it was created just before a restart, or another client removed the label by which the cache selects.
	if k.Adapt != nil {
		k.Adapt(owner, desired, live)
		sum = checksum{} // desired also has a resourceVersion now, so this apply is compared with no later one.
	}
	out, applyErr := k.apply(ctx, owner, live, desired, sum)
	if applyErr != nil || out != (Outcome{}) {
		return out, applyErr
	}
	if _, labelled := live.GetLabels()[k.owners.label]; labelled {
		return Outcome{}, err // The object is as desired, but the cache is stale: its watch event leads to the next sync.
	}
	return Outcome{Problem: &Problem{k.Name + "Hidden", fmt.Sprintf("%s %s exists, but something removes its label %s, by which %s watches",
		k.Name, name, k.owners.label, glassback.Name)}}, nil
}

// apply applies the desired fields, which have the checksum sum, to object, unless object was changed meanwhile. The UID makes sure that
// the object exists: without it, an apply would create a deleted object again.
func (k *Kind[T, A]) apply(ctx context.Context, owner metav1.Object, object T, desired A, sum checksum) (Outcome, error) {
	if contested := k.owners.contested(owner, k.Name, object.GetName()); contested.Wait > 0 {
		return contested, nil
	}
	versioned := desired.WithUID(object.GetUID()).WithResourceVersion(object.GetResourceVersion())
	applied, err := k.client(owner.GetNamespace()).Apply(ctx, versioned, applyOptions)
	if err != nil {
		return Outcome{}, fmt.Errorf("apply %s %s: %w", k.Name, object.GetName(), err)
	}
	if applied.GetResourceVersion() == object.GetResourceVersion() {
		k.checks.forget(object) // The desired fields have another checksum, and are the same.
		return Outcome{}, nil
	}
	k.owners.repairs.applied(owner, nameOf(k.Name, object.GetName()), sum, func() checksum {
		owned, err := k.extract(object, glassback.Name)
		if err != nil {
			return checksum{}
		}
		return checksumOf(owned)
	})
	k.wrote(ctx, owner, "apply", applied)
	return Outcome{Wrote: true}, nil
}

// wrote records that the child was created or applied.
func (k *Kind[T, A]) wrote(ctx context.Context, owner metav1.Object, verb string, object T) {
	k.owners.written.Record(ctx, cache.MetaObjectToName(owner), verb+" "+k.resource, k.cache, object)
	klog.FromContext(ctx).V(2).Info("Wrote "+k.Name, "verb", verb, "child", klog.KObj(object))
}

// deleteHidden deletes a child that the cache does not show, if it exists.
func (k *Kind[T, A]) deleteHidden(ctx context.Context, owner metav1.Object, name string) (Outcome, error) {
	live, err := k.client(owner.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || (err == nil && !metav1.IsControlledBy(live, owner)):
		return Outcome{Gone: true}, nil
	case err != nil:
		return Outcome{}, fmt.Errorf("get %s %s, which may have lost its label: %w", k.Name, name, err)
	}
	_, err = k.delete(ctx, owner, live)
	// The cache will show neither the deletion nor a finalizer that delays it.
	switch {
	case err != nil:
		return Outcome{}, err
	case len(live.GetFinalizers()) > 0:
		return Outcome{Wait: Recheck}, nil
	}
	return Outcome{Gone: true}, nil
}

// delete deletes object, unless object was changed meanwhile: a later version may have another controller. The garbage collector
// then deletes the objects that object owns. delete returns no error if object is already gone.
func (k *Kind[T, A]) delete(ctx context.Context, owner metav1.Object, object T) (Outcome, error) {
	err := k.client(owner.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())},
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return Outcome{}, fmt.Errorf("delete %s %s: %w", k.Name, object.GetName(), err)
	}
	k.owners.written.RecordDelete(ctx, cache.MetaObjectToName(owner), "delete "+k.resource, k.cache, object)
	klog.FromContext(ctx).V(2).Info("Deleted "+k.Name, "child", klog.KObj(object))
	return Outcome{Wrote: true}, nil
}
