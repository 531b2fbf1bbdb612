// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import "k8s.io/apimachinery/pkg/types"

// State is the part of an observed child that a controller's record contains.
type State struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	Deleting        bool      `json:"deleting,omitempty"`
	// Other says that the owner does not control the object: see Observed.Other.
	Other bool `json:"other,omitempty"`
}

// State returns the State of o. It returns nil if the cache has no object of that name.
func (o *Observed[T]) State() *State {
	var none T
	object := o.Object
	if object == none {
		object = o.Other
	}
	if object == none {
		return nil
	}
	return &State{object.GetUID(), object.GetResourceVersion(), object.GetDeletionTimestamp() != nil, o.Other != none}
}
