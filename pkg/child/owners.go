// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/loop"
)

// Owners holds the repairs of the children of all owners of one kind, such as Application. The Kinds of these children share it.
type Owners struct {
	kind, label string
	written     *loop.Written
	repairs     repairs
}

// NewOwners returns the Owners of a kind. The caches of their children hold the objects that have the label. written records each write.
func NewOwners(kind, label string, written *loop.Written, clock clock.PassiveClock) *Owners {
	return &Owners{
		kind: kind, label: label, written: written,
		repairs: repairs{clock: clock, byKey: map[cache.ObjectName][]repair{}},
	}
}

// Forget drops the repairs of an owner. Call it when the owner no longer exists.
func (o *Owners) Forget(key cache.ObjectName) { o.repairs.forget(key) }

// Reference returns the owner reference that makes owner the controller of a child: garbage collection deletes the child after the owner.
func Reference(owner metav1.Object, kind schema.GroupVersionKind) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion(kind.GroupVersion().String()).WithKind(kind.Kind).
		WithName(owner.GetName()).WithUID(owner.GetUID()).WithController(true).WithBlockOwnerDeletion(true)
}

// takenError says that an object that the owner does not control has the child's name.
type takenError string

func (e takenError) Error() string { return string(e) }

func (o *Owners) taken(owner metav1.Object, kind string, object metav1.Object) error {
	holder := metav1.GetControllerOfNoCopy(object)
	switch {
	case holder == nil:
		return takenError(fmt.Sprintf("%s %s exists already and has no controller: rename or delete one of the two", kind, object.GetName()))
	case holder.Kind == o.kind && holder.Name == owner.GetName():
		return takenError(fmt.Sprintf("%s %s belongs to the %s %s that was deleted before, and has not been garbage-collected yet",
			kind, object.GetName(), holder.Kind, holder.Name))
	}
	return takenError(fmt.Sprintf("%s %s exists already and is controlled by %s %s: rename or delete one of the two",
		kind, object.GetName(), holder.Kind, holder.Name))
}

// nameOf returns a name for a child that is unique among the children of its owner.
func nameOf(kind, name string) string { return kind + " " + name }

// contested returns the outcome of an apply that must wait for the next repair; its Wait is 0 if the apply need not wait.
func (o *Owners) contested(owner metav1.Object, kind, name string) Outcome {
	wait := o.repairs.wait(owner, nameOf(kind, name))
	if wait == 0 {
		return Outcome{}
	}
	return Outcome{Wait: wait, Problem: &Problem{kind + "Contested", fmt.Sprintf(
		"Another client keeps changing the %s, and the operator repairs it at longer and longer intervals. "+
			"The managedFields name that client", kind)}}
}
