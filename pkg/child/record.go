/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import "k8s.io/apimachinery/pkg/types"

// State is what a record has of an observed child.
type State struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	Deleting        bool      `json:"deleting,omitempty"`
	// Other says that the owner does not control the object.
	Other bool `json:"other,omitempty"`
	// Unreadable is as in Observed.
	Unreadable string `json:"unreadable,omitempty"`
}

// State returns the state for a record; nil if there is no object.
func (o *Observed[T, A]) State() *State {
	var none T
	object := o.Object
	if object == none {
		object = o.Other
	}
	if object == none {
		return nil
	}
	return &State{object.GetUID(), object.GetResourceVersion(), object.GetDeletionTimestamp() != nil, o.Other != none, o.Unreadable}
}

// Owned returns the fields of the child that the operator owns; nil if there is no child, or if they cannot be read.
func (o *Observed[T, A]) Owned() A {
	var none A
	switch {
	case o.owned != none:
		return o.owned
	case o.last != nil && o.last.owned != nil:
		return o.last.owned.(A)
	case o.kind == nil:
		return none
	}
	owned, err := o.kind.extractOwned(o.Object)
	if err != nil {
		return none
	}
	return owned
}

// Restore returns an observed child that is known by a record: the object, and the fields of it that the operator owns.
func Restore[T Object, A Configuration[A]](object T, owned A) Observed[T, A] {
	return Observed[T, A]{Object: object, owned: owned}
}
