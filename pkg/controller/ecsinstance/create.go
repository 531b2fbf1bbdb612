// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// adopting reports whether an instance is to be adopted, and the adoption is not finished. The adoption has three steps: write the ID into
// the status, tag the instance, set status.adopted. So the status names every instance that may have the tag.
func (o *observed) adopting() bool { return o.ecs.Spec.AdoptInstanceID != "" && !o.ecs.Status.Adopted }

// adoptInstance takes the next of the three steps.
func adoptInstance(o *observed) *plan {
	if !o.adopting() {
		return nil
	}
	if p := waitForPoll(o); p != nil {
		return p
	}
	if o.instance == nil {
		return &plan{wait: o.jittered(waitForSpec), problem: &problem{reason: reasonNotFound, stalled: true,
			message: fmt.Sprintf("There is no instance %s in %s: correct adoptInstanceID or regionID", o.id, o.ecs.Spec.RegionID)}}
	}
	owner := o.instance.Tags[v1alpha1.TagUID]
	p := plan{reason: reasonAdopting, message: "Adopting instance " + o.id}
	switch {
	case owner != "" && !o.owned():
		return &plan{wait: o.jittered(waitForSpec), problem: &problem{reason: reasonNotOwned, stalled: true, message: fmt.Sprintf(
			"Instance %s belongs to another object (%s), by its tag %s: delete that object with deletionPolicy: Retain first, or remove the tag",
			o.id, o.instance.Tags[v1alpha1.TagObject], v1alpha1.TagUID)}}
	case owner != "" || o.ecs.Status.InstanceID == "":
		p.step = stepAdopt
		return &p
	}
	p.step, p.tags = stepTag, ownership(o.ecs)
	return o.try(p)
}

func createInstance(o *observed) *plan {
	if o.ecs.Status.InstanceID != "" {
		return nil
	}
	return &plan{step: stepCreate, reason: reasonCreating, message: "Creating an instance in ECS"}
}

// replaceInstance begins another attempt if the instance is gone, and recreatePolicy is Always or the instance never ran.
func replaceInstance(o *observed) *plan {
	missing, surely := o.missing(settleAfter)
	id := o.ecs.Status.InstanceID
	switch {
	case !missing:
		return nil
	case !surely:
		return &plan{keepsConditions: true, poll: pollOften}
	case o.neverRan():
		message := fmt.Sprintf("ECS gave up creating instance %s; creating another one", id)
		return &plan{step: stepRecreate, reason: reasonCreating, message: message}
	case o.ecs.Spec.RecreatePolicy == v1alpha1.RecreateAlways && o.ecs.Spec.AdoptInstanceID == "":
		return &plan{step: stepRecreate, reason: reasonCreating, message: fmt.Sprintf("Instance %s is gone; creating another one", id)}
	}
	remedy := "set recreatePolicy: Always to create another one, or delete this object"
	if o.ecs.Spec.AdoptInstanceID != "" {
		remedy = "delete this object"
	}
	return &plan{gone: true, problem: &problem{reason: reasonInstanceGone, stalled: true,
		message: fmt.Sprintf("Instance %s is gone, and the operator did not delete it: %s", id, remedy)}}
}

// neverRan reports whether the instance was never more than pending.
func (o *observed) neverRan() bool {
	s := &o.ecs.Status
	return !s.Adopted && (s.State == "" || s.State == string(aliyun.StatePending))
}

// createRejected reports whether certainly no instance was created since the object was bound to an account. Either ECS rejected every
// call, or lookups found no instance for settleAfter after calls without an answer. The status then loses the account. Until that write,
// only the memory holds the result, so a crash leaves the object bound.
func (o *observed) createRejected() bool {
	return o.creating() && (o.ecs.Status.AccountID == "" || o.memory.rejectedToken == o.ecs.Status.Create.Token)
}

// attempt is what a lookup decides about the next call to create: the instance that exists, a problem, or
// the create to write into the status.
type attempt struct {
	id      string
	problem *problem
	create  *v1alpha1.Create
	call    bool // call ECS after the write
	// clean reports that no earlier call created an instance: if ECS rejects this call too, there is no instance.
	clean bool
}

// lookupEvery is the time between two lookups of what an attempt created.
const lookupEvery = 15 * time.Second

// clockSlack is how much older than its object an instance may seem: the times come from two clocks. Someone else has given the tag to an
// instance that is older, to have the operator delete it.
const clockSlack = 10 * time.Minute

// nextAttempt returns the attempt that follows a lookup: the lookup began at lookedUp, and found these instances. parameters is the digest
// of the wanted request, "" if no instance is wanted.
//
// The same token with the same parameters is safe at any time. Another token is safe only when it is
// certain that the last one created nothing.
func nextAttempt(o *observed, found []aliyun.Instance, parameters string, lookedUp time.Time) attempt {
	switch len(found) {
	case 0:
	case 1:
		if i := found[0]; !i.CreationTime.IsZero() && i.CreationTime.Before(o.ecs.CreationTimestamp.Add(-clockSlack)) {
			return attempt{problem: &problem{reason: reasonNotOwned, stalled: true, wait: o.jittered(waitForSpec), message: fmt.Sprintf(
				"Instance %s has the tag %s of this object, but is older: remove the tag from it", i.ID, v1alpha1.TagUID)}}
		}
		return attempt{id: found[0].ID}
	default:
		return attempt{problem: surplus(found)}
	}
	last := o.ecs.Status.Create
	next := v1alpha1.Create{Attempt: 1}
	clean := !o.creating() || o.createRejected() || o.settled(lookedUp)
	switch {
	case last == nil:
	case last.Parameters == "" ||
		(last.Parameters == parameters && last.RegionID == o.ecs.Spec.RegionID && o.memory.deadToken != last.Token):
		next.Attempt = last.Attempt
	case clean:
		next.Attempt = last.Attempt + 1
	default:
		return attempt{problem: &problem{reason: reasonSettling, passing: true, wait: lookupEvery, message: fmt.Sprintf(
			"ECS may have created an instance in attempt %d: waiting %s for it to appear", last.Attempt, settleAfter)}}
	}
	next.Token, next.RegionID = token(o.ecs, next.Attempt), o.ecs.Spec.RegionID
	// The lookup was in the region of the last attempt. In another region, a lookup comes first.
	call := o.region() == next.RegionID
	if call {
		next.Parameters = parameters
	}
	return attempt{create: &next, call: call, clean: clean}
}

// settled reports whether lookups, up to the one at lookedUp, found no instance for settleAfter, so that none will appear.
func (o *observed) settled(lookedUp time.Time) bool {
	return !o.memory.nothingFoundSince.IsZero() && lookedUp.Sub(o.memory.nothingFoundSince) >= settleAfter
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
	return &problem{reason: reasonSurplus, stalled: true, wait: waitForDeletion, message: fmt.Sprintf(
		"Several instances have this object's tag %s: %s. The operator creates one at a time; others may be copies with the tag. "+
			"Delete the others, or take the tag off them", v1alpha1.TagUID, strings.Join(ids, ", "))}
}
