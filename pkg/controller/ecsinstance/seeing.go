/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"fmt"
	"slices"
	"time"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

func unfinalized(o *observed) (plan, bool) {
	if slices.Contains(o.ecs.Finalizers, v1alpha1.Finalizer) {
		return plan{}, false
	}
	return plan{step: stepFinalize, silent: true}, true
}

// unreachableAfter is for how long nothing is said of a cloud that cannot be reached.
const unreachableAfter = 2 * time.Minute

func blind(o *observed) (plan, bool) {
	if o.problem == nil {
		return plan{}, false
	}
	quiet := o.problem.passing && o.now.Sub(o.mine.blind) < unreachableAfter
	return plan{problem: o.problem, wait: o.jittered(o.problem.wait), silent: quiet && o.wasReady()}, true
}

// elsewhere: what is not found in another account is not gone.
func elsewhere(o *observed) (plan, bool) {
	is := o.home()
	if is == "" || is == o.account {
		return plan{}, false
	}
	where := fmt.Sprintf("the instance is in account %s: nothing is done before there is one of that account", is)
	if o.creating() {
		where = fmt.Sprintf("an instance may have been made in account %s: nothing is done before there is one of that account. "+
			"When ECS has said with it that there is no instance, a key of another account can be used", is)
	}
	return plan{wait: waitForSecret, problem: &problem{
		reason: reasonWrongAccount, stalled: true,
		message: fmt.Sprintf("The access key of %s is of account %s, and %s", o.from, o.account, where),
	}}, true
}

// A look that is to show what was just asked for takes place after lookSoon; one that waits
// for a state to pass after lookOften.
const (
	lookSoon  = 2 * time.Second
	lookOften = 4 * time.Second
)

// unseen: what was seen before the last change is not to be gone by.
func unseen(o *observed) (plan, bool) {
	s := o.sight
	switch {
	case s == nil:
		return plan{silent: true, look: lookSoon}, true
	case s.trouble() != "":
		return plan{problem: problemOf(s.err, o.from)}, true
	case !o.fresh():
		return plan{silent: true, look: lookSoon}, true
	}
	return plan{}, false
}

func passing(err error) bool { return problemOf(err, "").passing }

// What ECS shows is behind what it has done. An instance that is not there is taken for
// deleted if it still is not there goneAfter later; but only after settleAfter can it be
// said that there is none, and another one be made. One that ECS has given an ID, and has
// never shown, is waited for longer still: it tries for ten minutes to make one.
const (
	goneAfter   = 10 * time.Second
	settleAfter = 2 * time.Minute
	unseenAfter = 15 * time.Minute
)

// missing returns whether the instance is not there, and whether it has not been for some time.
func (o *observed) missing(lasting time.Duration) (missing, surely bool) {
	if o.sight.instance != nil {
		return false, false
	}
	s := &o.ecs.Status
	if s.State == "" && s.Create != nil && o.sight.at.Before(s.Create.RequestedTime.Add(unseenAfter)) {
		return true, false // It may only not be seen yet.
	}
	return true, !o.mine.missing.IsZero() && !o.sight.at.Before(o.mine.missing.Add(lasting))
}

func gone(o *observed) (plan, bool) {
	missing, surely := o.missing(settleAfter)
	id := o.ecs.Status.InstanceID
	switch {
	case !missing:
		return plan{}, false
	case !surely:
		return plan{silent: true, look: lookOften}, true
	case o.unborn():
		return plan{step: stepRenew, reason: reasonCreating, message: fmt.Sprintf("ECS gave up making instance %s: another one is made", id)}, true
	case o.ecs.Spec.RecreatePolicy == v1alpha1.RecreateAlways && o.ecs.Spec.AdoptInstanceID == "":
		return plan{step: stepRenew, reason: reasonCreating, message: fmt.Sprintf("Instance %s is gone: another one is made", id)}, true
	}
	remedy := "set recreatePolicy: Always to have another one, or delete this object"
	if o.ecs.Spec.AdoptInstanceID != "" {
		remedy = "delete this object"
	}
	return plan{gone: true, problem: &problem{reason: reasonInstanceGone, stalled: true,
		message: fmt.Sprintf("Instance %s is gone, and was not deleted by the operator: %s", id, remedy)}}, true
}

// unborn returns whether the instance was never more than pending.
func (o *observed) unborn() bool {
	s := &o.ecs.Status
	return !s.Adopted && (s.State == "" || s.State == string(aliyun.StatePending))
}

// discovered: that there is an instance is put down before anything is done with it. One that
// was never seen can go by itself, and be made again.
func discovered(o *observed) (plan, bool) {
	if o.ecs.Status.State != "" || o.sight.instance.State == "" || o.adopts() {
		return plan{}, false
	}
	return plan{silent: true}, true
}

func foreign(o *observed) (plan, bool) {
	if o.owned() {
		return plan{}, false
	}
	return plan{problem: o.notOwned()}, true
}

func (o *observed) notOwned() *problem {
	return &problem{reason: reasonNotOwned, stalled: true, message: fmt.Sprintf(
		"The tag %s of instance %s is %q and not %q: nothing is done to it before that is so, or this object deleted with deletionPolicy: Retain",
		v1alpha1.TagUID, o.id, o.sight.instance.Tags[v1alpha1.TagUID], o.ecs.UID)}
}

func transitional(o *observed) (plan, bool) {
	switch state := o.sight.instance.State; state {
	case aliyun.StateRunning, aliyun.StateStopped:
		return plan{}, false
	default:
		reason := map[aliyun.State]string{
			aliyun.StatePending: reasonCreating, aliyun.StateStarting: reasonStarting, aliyun.StateStopping: reasonStopping,
		}[state]
		if reason == "" {
			reason = reasonWaiting
		}
		return plan{look: lookOften, reason: reason, message: fmt.Sprintf("Instance %s is %s", o.id, state)}, true
	}
}
