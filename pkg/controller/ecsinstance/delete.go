// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"slices"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// releaseUncreated removes the finalizer if ECS was never called to create an instance, or rejected every call.
func releaseUncreated(o *observed) *plan {
	if o.ecs.Status.InstanceID != "" || (o.creating() && !o.createRejected()) {
		return nil
	}
	if o.creating() && o.accessProblem() == nil { // Another operator may have called since.
		return &plan{step: stepVerifyGone, keepsConditions: true}
	}
	return &plan{step: stepRelease, keepsConditions: true}
}

// settleAttempt looks up what the last attempt created, to delete it.
func settleAttempt(o *observed) *plan {
	if !o.creating() {
		return nil
	}
	return &plan{step: stepFindAttempt, reason: reasonSettling, message: "Looking up whether the last attempt created an instance"}
}

// releaseGone removes the finalizer once the instance is gone. Unless ECS accepted its deletion, the instance may only be hidden for a
// while, and would be left behind.
func releaseGone(o *observed) *plan {
	after := settleAfter
	if o.memory.deleteAccepted {
		after = goneAfter
	}
	switch missing, surely := o.missing(after); {
	case surely:
		return &plan{step: stepVerifyGone, keepsConditions: true}
	case missing:
		return &plan{poll: pollOften, reason: reasonDeleting, message: fmt.Sprintf("Instance %s does not show any more", o.id)}
	}
	return nil
}

// releaseOtherOwner keeps the finalizer if the tag of the instance changed, unless the instance may stay.
func releaseOtherOwner(o *observed) *plan {
	switch {
	case o.owned():
		return nil
	case o.adopting() || o.ecs.Spec.DeletionPolicy == v1alpha1.DeletionRetain:
		return &plan{step: stepVerifyGone, keepsConditions: true}
	}
	return &plan{problem: o.notOwned()}
}

// releaseRetained removes the operator's tags from an instance that stays.
func releaseRetained(o *observed) *plan {
	if o.ecs.Spec.DeletionPolicy != v1alpha1.DeletionRetain && !o.adopting() {
		return nil
	}
	return o.try(plan{
		step: stepUntag, keys: []string{v1alpha1.TagUID, v1alpha1.TagObject},
		reason: reasonDeleting, message: fmt.Sprintf("Releasing instance %s: it stays", o.id),
	})
}

func deleteInstance(o *observed) *plan {
	return o.try(plan{step: stepDelete, reason: reasonDeleting, message: "Deleting instance " + o.id})
}

// leftovers returns the problem that instances still have this object's tag, nil if none has.
func leftovers(o *observed, found []aliyun.Instance) *problem {
	if o.ecs.Spec.DeletionPolicy == v1alpha1.DeletionRetain {
		found = slices.DeleteFunc(slices.Clone(found), func(i aliyun.Instance) bool { return i.ID == o.id })
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) == 1 && found[0].ID == o.id:
		return &problem{reason: reasonDeleting, passing: true, wait: waitForBusy, message: fmt.Sprintf("Instance %s still exists", o.id)}
	}
	return surplus(found)
}
