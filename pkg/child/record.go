// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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
