// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/report"
)

// adopting reports whether an instance is to be adopted, and the adoption is not finished. The adoption has three steps: write the ID into
// the status, tag the instance, set status.adopted. So the status names every instance that may have the tag.
func (o *Observed) adopting() bool {
	return o.Object.Spec.AdoptInstanceID != "" && !o.Object.Status.Adopted
}

// adoptInstance takes the next of the three steps.
func adoptInstance(o *Observed) *Plan {
	if !o.adopting() {
		return nil
	}
	if p := waitForPoll(o); p != nil {
		return p
	}
	if o.Instance == nil {
		return &Plan{Wait: o.jittered(waitForSpec), Problem: &problem{Reason: reasonNotFound, Stalled: true,
			Message: fmt.Sprintf("There is no instance %s in %s: correct adoptInstanceID or regionID", o.ID, o.Object.Spec.RegionID)}}
	}
	owner := o.Instance.Tags[v1alpha1.TagUID]
	p := Plan{Reason: reasonAdopting, Message: "Adopting instance " + o.ID}
	switch {
	case owner != "" && !o.owned():
		return &Plan{Wait: o.jittered(waitForSpec), Problem: &problem{Reason: reasonNotOwned, Stalled: true, Message: fmt.Sprintf(
			"Instance %s belongs to another object (%s), by its tag %s: delete that object with deletionPolicy: Retain first, or remove the tag",
			o.ID, o.Instance.Tags[v1alpha1.TagObject], v1alpha1.TagUID)}}
	case owner != "" || o.Object.Status.InstanceID == "":
		p.Step = stepAdopt
		return &p
	}
	p.Step, p.Tags = stepTag, ownership(o.Object)
	return o.try(p)
}

// stepAdopt writes the adopted instance into the status.
var stepAdopt = &step{name: "adopt", status: func(o *Observed, status *v1alpha1.ECSInstanceStatus) {
	status.InstanceID, status.AccountID, status.Adopted = o.ID, o.Account, o.owned()
}}

func createInstance(o *Observed) *Plan {
	if o.Object.Status.InstanceID != "" {
		return nil
	}
	return &Plan{Step: stepCreate, Reason: reasonCreating, Message: "Creating an instance in ECS"}
}

// replaceInstance begins another attempt if the instance is gone, and recreatePolicy is Always or the instance never ran.
func replaceInstance(o *Observed) *Plan {
	missing, surely := o.missing(settleAfter)
	id := o.Object.Status.InstanceID
	switch {
	case !missing:
		return nil
	case !surely:
		return &Plan{KeepsConditions: true, Poll: pollOften}
	case o.neverRan():
		message := fmt.Sprintf("ECS gave up creating instance %s; creating another one", id)
		return &Plan{Step: stepRecreate, Reason: reasonCreating, Message: message}
	case o.Object.Spec.RecreatePolicy == v1alpha1.RecreateAlways && o.Object.Spec.AdoptInstanceID == "":
		return &Plan{Step: stepRecreate, Reason: reasonCreating, Message: fmt.Sprintf("Instance %s is gone; creating another one", id)}
	}
	remedy := "set recreatePolicy: Always to create another one, or delete this object"
	if o.Object.Spec.AdoptInstanceID != "" {
		remedy = "delete this object"
	}
	return &Plan{Gone: true, Problem: &problem{Reason: reasonInstanceGone, Stalled: true,
		Message: fmt.Sprintf("Instance %s is gone, and the operator did not delete it: %s", id, remedy)}}
}

// stepRecreate begins to create another instance, as the last one is gone.
var stepRecreate = &step{name: "recreate", status: func(o *Observed, status *v1alpha1.ECSInstanceStatus) {
	attempt := int64(1)
	if status.Create != nil {
		attempt += status.Create.Attempt
	}
	*status = v1alpha1.ECSInstanceStatus{Conditions: status.Conditions, Create: &v1alpha1.Create{
		Attempt: attempt, Token: token(o.Object, attempt), RegionID: o.Object.Spec.RegionID,
	}}
}}

// neverRan reports whether the instance was never more than pending.
func (o *Observed) neverRan() bool {
	s := &o.Object.Status
	return !s.Adopted && (s.State == "" || s.State == string(aliyun.StatePending))
}

// createRejected reports whether certainly no instance was created since the object was bound to an account. Either ECS rejected every
// call, or lookups found no instance for settleAfter after calls without an answer. The status then loses the account. Until that write,
// only the memory holds the result, so a crash leaves the object bound.
func (o *Observed) createRejected() bool {
	return o.creating() && (o.Object.Status.AccountID == "" || o.Memory.RejectedToken == o.Object.Status.Create.Token)
}

// attempt is what a lookup decides about the next call to create: the instance that exists, a problem, or
// the create to write into the status.
type attempt struct {
	id      string
	problem *problem
	create  *v1alpha1.Create // without Parameters, it is written, and ECS is not called
	// clean reports that no earlier call created an instance: if ECS rejects this call too, there is no instance.
	clean bool
}

// stepCreate looks up the instance, and creates it if there is none.
var stepCreate = &step{name: "create", do: (*action).create, preview: func(o *Observed, to *report.Plan) {
	to.Writes = append(to.Writes, report.Write{Verb: "update", Kind: "ECSInstance", Name: o.Object.Name,
		Fields: []fields.Field{{Path: "status.create", New: "the token of the next call"}}})
	addCall(o, to, fmt.Sprintf("create an instance of the type %s, unless one has the tag of this object", o.Object.Spec.InstanceType))
}}

// create creates the instance, unless one exists. In one sync, it first looks up what earlier attempts created, then writes the token into
// the status, and then calls ECS. The write fails if the object changed since this sync read it. So even after a crash, the next sync knows
// every call that ECS may have received.
func (a *action) create(ctx context.Context) error {
	wanted := request(a.o.Object, a.session.userData)
	parameters, err := digest(a.o.Object, wanted, a.o.UserData)
	if err != nil {
		return err
	}
	next, err := a.lookUp(ctx, parameters)
	if err != nil || next.create == nil {
		return err
	}
	if err := a.writeAttempt(ctx, next); err != nil {
		return err
	}
	if next.create.Parameters == "" {
		a.wait = nextStep
		return nil
	}
	m := &a.o.Memory
	nothingFoundSince := m.NothingFoundSince
	m.LastCall, m.RejectedToken, m.NothingFoundSince = callOf(next.create), "", time.Time{}
	wanted.ClientToken = next.create.Token
	id, err := a.cloud().Create(ctx, wanted)
	if err != nil {
		e, ok := errors.AsType[*aliyun.Error](err)
		switch {
		case !ok || e.Ambiguous():
		case e.Class == aliyun.TokenDead:
			m.DeadToken = next.create.Token
		case next.clean:
			m.RejectedToken = next.create.Token
		default:
			m.NothingFoundSince = nothingFoundSince // This call created nothing, so the lookups still count.
		}
		return a.failed(ctx, err)
	}
	klog.FromContext(ctx).Info("Created instance", "instance", id, "attempt", next.create.Attempt)
	a.recorder.Eventf(a.o.Object, corev1.EventTypeNormal, "Created", "Created instance %s in %s", id, next.create.RegionID)
	return a.record(ctx, id)
}

// writeAttempt writes the next attempt and the account into the status.
func (a *action) writeAttempt(ctx context.Context, next attempt) error {
	was := &a.o.Object.Status
	if next.create.Parameters != "" {
		next.create.RequestedTime = requestedAt(a.clock.Now(), was.Create)
	}
	p := a.p
	// The conditions keep the last problem until there is an instance.
	p.KeepsConditions = len(was.Conditions) > 0 && was.ObservedGeneration == a.o.Object.Generation
	status := plannedStatus(a.o, p)
	status.Create, status.AccountID = next.create, a.o.Account
	return a.write(ctx, status)
}

// lookUp looks for an instance with the tag of the object, and records it as the instance of the object.
// If there is none, it returns the next attempt, whose create is nil if the outcome has a problem.
func (a *action) lookUp(ctx context.Context, parameters string) (attempt, error) {
	lookedUp := a.clock.Now()
	found, err := a.findTagged(ctx)
	if err != nil {
		return attempt{}, a.failed(ctx, err)
	}
	setSince(&a.o.Memory.NothingFoundSince, len(found) == 0, lookedUp)
	next := nextAttempt(a.o, found, parameters, lookedUp)
	switch {
	case next.problem != nil:
		a.backOff(next.problem)
	case next.id != "":
		klog.FromContext(ctx).Info("Found instance of an earlier attempt", "instance", next.id)
		return attempt{}, a.record(ctx, next.id)
	}
	return next, nil
}

// record writes the ID of the instance into the status.
func (a *action) record(ctx context.Context, id string) error {
	status := plannedStatus(a.o, a.p)
	status.InstanceID, status.AccountID, status.State = id, a.o.Account, ""
	err := a.write(ctx, status)
	if err == nil {
		a.o.Memory.NothingFoundSince = time.Time{}
	}
	return err
}

// lookupEvery is the time between two lookups of what an attempt created.
var lookupEvery = in(15 * time.Second)

// clockSlack is how much older than its object an instance may seem: the times come from two clocks. Someone else has given the tag to an
// instance that is older, to have the operator delete it.
const clockSlack = 10 * time.Minute

// nextAttempt returns the attempt that follows a lookup: the lookup began at lookedUp, and found these instances. parameters is the digest
// of the wanted request, "" if no instance is wanted.
//
// The same token with the same parameters is safe at any time. Another token is safe only when it is
// certain that the last one created nothing.
func nextAttempt(o *Observed, found []aliyun.Instance, parameters string, lookedUp time.Time) attempt {
	switch len(found) {
	case 0:
	case 1:
		if i := found[0]; !i.CreationTime.IsZero() && i.CreationTime.Before(o.Object.CreationTimestamp.Add(-clockSlack)) {
			return attempt{problem: &problem{Reason: reasonNotOwned, Stalled: true, Wait: o.jittered(waitForSpec), Message: fmt.Sprintf(
				"Instance %s has the tag %s of this object, but is older: remove the tag from it", i.ID, v1alpha1.TagUID)}}
		}
		return attempt{id: found[0].ID}
	default:
		return attempt{problem: surplus(found)}
	}
	last := o.Object.Status.Create
	next := v1alpha1.Create{Attempt: 1}
	clean := !o.creating() || o.createRejected() || o.settled(lookedUp)
	switch {
	case last == nil:
	case last.Parameters == "" ||
		(last.Parameters == parameters && last.RegionID == o.Object.Spec.RegionID && o.Memory.DeadToken != last.Token):
		next.Attempt = last.Attempt
	case clean:
		next.Attempt = last.Attempt + 1
	default:
		return attempt{problem: &problem{Reason: reasonSettling, Passing: true, Wait: lookupEvery, Message: fmt.Sprintf(
			"ECS may have created an instance in attempt %d: waiting %s for it to appear", last.Attempt, settleAfter)}}
	}
	next.Token, next.RegionID = token(o.Object, next.Attempt), o.Object.Spec.RegionID
	// The lookup was in the region of the last attempt. In another region, a lookup comes first.
	if o.region() == next.RegionID {
		next.Parameters = parameters
	}
	return attempt{create: &next, clean: clean}
}

// settled reports whether lookups, up to the one at lookedUp, found no instance for settleAfter, so that none will appear.
func (o *Observed) settled(lookedUp time.Time) bool {
	return !o.Memory.NothingFoundSince.IsZero() && lookedUp.Sub(o.Memory.NothingFoundSince) >= settleAfter
}

// requestedAt returns the time of a call for the status: now in whole seconds, the precision of a metav1.Time. The result is at least a
// second after the last call, because callOf distinguishes calls by the second.
func requestedAt(now time.Time, last *v1alpha1.Create) metav1.Time {
	if now = now.Truncate(time.Second); last != nil && now.Unix() <= last.RequestedTime.Unix() {
		now = last.RequestedTime.Add(time.Second)
	}
	return metav1.NewTime(now)
}

// surplus returns the problem that several instances have the tag of this object.
func surplus(found []aliyun.Instance) *problem {
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return &problem{Reason: reasonSurplus, Stalled: true, Wait: waitForDeletion, Message: fmt.Sprintf(
		"Several instances have this object's tag %s: %s. The operator creates one at a time; others may be copies with the tag. "+
			"Delete the others, or take the tag off them", v1alpha1.TagUID, strings.Join(ids, ", "))}
}
