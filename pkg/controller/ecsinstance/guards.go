// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// The guards are the policies that keep a sync from touching an instance on missing, stale or wrong
// information. The lists of decide.go say which policies come before them.

// addFinalizer comes before every call: from then on, a deletion waits for the operator.
func addFinalizer(o *observed) *plan {
	if slices.Contains(o.ecs.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	return &plan{step: stepFinalize, keepsConditions: true}
}

// unreachableAfter is how long ECS may fail to answer before the status reports it.
const unreachableAfter = 2 * time.Minute

// waitForAccess waits until there are credentials that ECS accepts. Ready stays True for unreachableAfter after a passing problem began.
func waitForAccess(o *observed) *plan {
	p := o.accessProblem()
	if p == nil {
		return nil
	}
	quiet := p.passing && o.now.Sub(o.memory.unreachableSince) < unreachableAfter
	return &plan{problem: p, wait: o.jittered(p.wait), keepsConditions: quiet && o.wasReady()}
}

// accessProblem returns why the operator cannot call ECS for this object, nil if it can.
func (o *observed) accessProblem() *problem {
	if s := o.credentials; s != nil && !s.usable() {
		return s.problem(v1alpha1.KeyAccessKeyID+" and "+v1alpha1.KeyAccessKeySecret,
			"correct credentialsSecretRef")
	}
	if s := o.userData; s != nil && !s.usable() {
		return s.problem(o.ecs.Spec.UserDataSecretRef.Key, "correct userDataSecretRef")
	}
	return o.accountProblem
}

// problem returns why the Secret, which needs keys, is not usable. remedy says what a user can do instead of correcting the Secret.
func (s *secretState) problem(keys, remedy string) *problem {
	if s.Unreadable != "" {
		return &problem{reason: reasonSecretUnreadable, passing: true, wait: waitForBusy, message: fmt.Sprintf(
			"The operator cannot read Secret %s and tries again: %s. It needs the right to get secrets", s.Name, s.Unreadable)}
	}
	message := fmt.Sprintf("There is no Secret %s: create it with %s, or %s", s.Name, keys, remedy)
	if s.Exists {
		message = fmt.Sprintf("Secret %s has no %s: add it, or %s", s.Name, s.MissingKey, remedy)
	}
	return &problem{reason: reasonSecretMissing, stalled: true, wait: waitForSecret, message: message}
}

// refuseOtherAccount waits for credentials of the account of the instance. Another account does not show the instance, even if it exists.
func refuseOtherAccount(o *observed) *plan {
	account := o.boundTo()
	if account == "" || account == o.account {
		return nil
	}
	where := "the instance is in account "
	exception := ""
	if o.creating() {
		where = "an instance may have been made in account "
		exception = ". Once ECS confirms that there is no instance, a key of another account can be used"
	}
	return &plan{wait: waitForSecret, problem: &problem{reason: reasonWrongAccount, stalled: true, message: fmt.Sprintf(
		"The access key of %s belongs to account %s, but %s%s. Use a key of that account: with another key, nothing is done%s",
		o.credentialsFrom(), o.account, where, account, exception)}}
}

// pollSoon is the time from a change to the next poll, and pollOften the interval while an instance is neither Running nor Stopped.
const (
	pollSoon  = 2 * time.Second
	pollOften = 4 * time.Second
)

// waitForPoll waits for a poll of the instance that began after the last change.
func waitForPoll(o *observed) *plan {
	switch {
	case o.pollProblem != nil:
		return &plan{problem: o.pollProblem}
	case !o.fresh():
		return &plan{keepsConditions: true, poll: pollSoon}
	}
	return nil
}

// DescribeInstances lags behind changes, and can hide an instance for a while. An instance whose deletion ECS accepted counts as deleted
// if polls do not show it for goneAfter. Any other instance is certainly gone only after settleAfter. An instance that has an ID but
// never appeared may take up to unseenAfter: ECS tries for ten minutes to create it.
const (
	goneAfter   = 10 * time.Second
	settleAfter = 2 * time.Minute
	unseenAfter = 15 * time.Minute
)

// missing reports whether the last poll did not show the instance, and whether polls have not shown it for at least d.
func (o *observed) missing(d time.Duration) (missing, surely bool) {
	if o.instance != nil {
		return false, false
	}
	s := &o.ecs.Status
	if s.State == "" && s.Create != nil && o.polledAt.Before(s.Create.RequestedTime.Add(unseenAfter)) {
		return true, false // It may still appear.
	}
	return true, !o.memory.missingSince.IsZero() && !o.polledAt.Before(o.memory.missingSince.Add(d))
}

// recordFirstState writes the first state into the status before anything is done with the instance. An
// instance that never showed may vanish by itself, and is then created again.
func recordFirstState(o *observed) *plan {
	if o.ecs.Status.State != "" || o.instance.State == "" || o.adopting() {
		return nil
	}
	return &plan{keepsConditions: true}
}

// refuseOtherOwner leaves an instance alone whose tag does not name this object.
func refuseOtherOwner(o *observed) *plan {
	if o.owned() {
		return nil
	}
	return &plan{problem: o.notOwned()}
}

func (o *observed) notOwned() *problem {
	return &problem{reason: reasonNotOwned, stalled: true, message: fmt.Sprintf(
		"The tag %s of instance %s is %q, not %q. The operator does not touch the instance: "+
			"correct the tag, or delete this object with deletionPolicy: Retain",
		v1alpha1.TagUID, o.id, o.instance.Tags[v1alpha1.TagUID], o.ecs.UID)}
}

// stateReasons holds the condition reasons for the states in which the operator cannot change an instance.
var stateReasons = map[aliyun.State]string{
	aliyun.StatePending: reasonCreating, aliyun.StateStarting: reasonStarting, aliyun.StateStopping: reasonStopping,
}

// waitForState waits while ECS creates, starts or stops the instance.
func waitForState(o *observed) *plan {
	state := o.instance.State
	if state == aliyun.StateRunning || state == aliyun.StateStopped {
		return nil
	}
	return &plan{poll: pollOften, reason: cmp.Or(stateReasons[state], reasonWaiting), message: fmt.Sprintf("Instance %s is %s", o.id, state)}
}
