// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"fmt"
	"slices"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/report"
)

// releaseUncreated removes the finalizer if ECS was never called to create an instance, or rejected every call.
func releaseUncreated(o *Observed) *Plan {
	if o.Object.Status.InstanceID != "" || (o.creating() && !o.createRejected()) {
		return nil
	}
	if o.creating() && o.accessProblem() == nil { // Another operator may have called since.
		return &Plan{Step: stepVerifyGone, KeepsConditions: true}
	}
	return &Plan{Step: stepRelease, KeepsConditions: true}
}

// settleAttempt looks up what the last attempt created, to delete it.
func settleAttempt(o *Observed) *Plan {
	if !o.creating() {
		return nil
	}
	return &Plan{Step: stepFindAttempt, Reason: reasonSettling, Message: "Looking up whether the last attempt created an instance"}
}

// stepFindAttempt looks up the instance that the last call to create may have left.
var stepFindAttempt = &step{name: "find attempt", do: func(a *action, ctx context.Context) error {
	next, err := a.lookUp(ctx, "")
	if err == nil && next.create != nil {
		a.o.Memory.RejectedToken = a.o.Object.Status.Create.Token // The attempt created nothing.
		a.wait = nextStep
	}
	return err
}}

// releaseGone removes the finalizer once the instance is gone. Unless ECS accepted its deletion, the instance may only be hidden for a
// while, and would be left behind.
func releaseGone(o *Observed) *Plan {
	after := settleAfter
	if o.Memory.DeleteAccepted {
		after = goneAfter
	}
	switch missing, surely := o.missing(after); {
	case surely:
		return &Plan{Step: stepVerifyGone, KeepsConditions: true}
	case missing:
		return &Plan{Poll: pollOften, Reason: reasonDeleting, Message: fmt.Sprintf("Instance %s does not show any more", o.ID)}
	}
	return nil
}

// releaseOtherOwner keeps the finalizer if the tag of the instance changed, unless the instance may stay.
func releaseOtherOwner(o *Observed) *Plan {
	switch {
	case o.owned():
		return nil
	case o.adopting() || o.Object.Spec.DeletionPolicy == v1alpha1.DeletionRetain:
		return &Plan{Step: stepVerifyGone, KeepsConditions: true}
	}
	return &Plan{Problem: o.notOwned()}
}

// releaseRetained removes the operator's tags from an instance that stays.
func releaseRetained(o *Observed) *Plan {
	if o.Object.Spec.DeletionPolicy != v1alpha1.DeletionRetain && !o.adopting() {
		return nil
	}
	return o.try(Plan{
		Step: stepUntag, Keys: []string{v1alpha1.TagUID, v1alpha1.TagObject},
		Reason: reasonDeleting, Message: fmt.Sprintf("Releasing instance %s: it stays", o.ID),
	})
}

// stepRelease removes the finalizer.
var stepRelease = &step{name: "release", preview: previewRelease, do: func(a *action, ctx context.Context) error {
	return a.setFinalizer(ctx, false)
}}

func previewRelease(o *Observed, to *report.Plan) {
	addPatch(o, to, fields.Field{Path: "metadata.finalizers", Old: v1alpha1.Finalizer})
}

// stepVerifyGone removes the finalizer, unless instances still have the tag of the object.
var stepVerifyGone = &step{name: "verify gone", preview: previewRelease, do: func(a *action, ctx context.Context) error {
	found, err := a.findTagged(ctx)
	if err != nil {
		return a.failed(ctx, err)
	}
	if len(found) > 0 && a.o.creating() { // An instance shows after all: the object is bound to its account.
		status := a.o.Object.Status
		status.AccountID = a.o.Account
		a.o.Memory.RejectedToken, a.wait = "", nextStep
		return a.write(ctx, status)
	}
	if problem := leftovers(a.o, found); problem != nil {
		a.backOff(problem)
		return nil
	}
	return a.setFinalizer(ctx, false)
}}

func deleteInstance(o *Observed) *Plan {
	return o.try(Plan{Step: stepDelete, Reason: reasonDeleting, Message: "Deleting instance " + o.ID})
}

var stepDelete = &step{
	name: "delete", event: "Deleted", accepted: func(m *memory) { m.DeleteAccepted = true },
	do: func(a *action, ctx context.Context) error {
		return a.cloud().Delete(ctx, a.o.ID, a.o.Instance.State == aliyun.StateRunning)
	},
}

// leftovers returns the problem that instances still have this object's tag, nil if none has.
func leftovers(o *Observed, found []aliyun.Instance) *problem {
	if o.Object.Spec.DeletionPolicy == v1alpha1.DeletionRetain {
		found = slices.DeleteFunc(slices.Clone(found), func(i aliyun.Instance) bool { return i.ID == o.ID })
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) == 1 && found[0].ID == o.ID:
		return &problem{Reason: reasonDeleting, Passing: true, Wait: waitForBusy, Message: fmt.Sprintf("Instance %s still exists", o.ID)}
	}
	return surplus(found)
}
