/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"fmt"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// unmade: no call was ever made, or every one was answered with a no.
func unmade(o *observed) (plan, bool) {
	s := &o.ecs.Status
	if s.InstanceID != "" || (o.creating() && !o.rejected()) {
		return plan{}, false
	}
	if o.creating() && o.problem == nil { // Another operator may have called since.
		return plan{step: stepBury, silent: true}, true
	}
	return plan{step: stepRelease, silent: true}, true
}

func unsettled(o *observed) (plan, bool) {
	if !o.creating() {
		return plan{}, false
	}
	return plan{step: stepSettle, reason: reasonSettling, message: "It is being made sure what came of the last attempt to make an instance"}, true
}

func buried(o *observed) (plan, bool) {
	switch missing, surely := o.missing(goneAfter); {
	case surely:
		return plan{step: stepBury, silent: true}, true
	case missing:
		return plan{look: lookOften, reason: reasonDeleting, message: fmt.Sprintf("Instance %s is gone, or about to be", o.id)}, true
	}
	return plan{}, false
}

func disowned(o *observed) (plan, bool) {
	switch {
	case o.owned():
		return plan{}, false
	case o.adopts() || o.ecs.Spec.DeletionPolicy == v1alpha1.DeletionRetain:
		return plan{step: stepBury, silent: true}, true
	}
	return plan{problem: o.notOwned()}, true
}

func retained(o *observed) (plan, bool) {
	if o.ecs.Spec.DeletionPolicy != v1alpha1.DeletionRetain && !o.adopts() {
		return plan{}, false
	}
	return o.try(plan{step: stepUntag, keys: []string{v1alpha1.TagUID, v1alpha1.TagObject}, reason: reasonDeleting, message: fmt.Sprintf("Instance %s is released: it stays", o.id)})
}

func condemned(o *observed) (plan, bool) {
	return o.try(plan{step: stepDelete, reason: reasonDeleting, message: fmt.Sprintf("Instance %s is deleted", o.id)})
}
