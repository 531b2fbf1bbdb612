// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/report"
)

// The guards are the policies that keep a sync from touching an instance on missing, stale or wrong
// information. The lists of decide.go say which policies come before them.

// addFinalizer comes before every call: from then on, a deletion waits for the operator.
func addFinalizer(o *Observed) *Plan {
	if slices.Contains(o.Object.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	return &Plan{Step: stepFinalize, KeepsConditions: true}
}

// stepFinalize adds the finalizer.
var stepFinalize = &step{
	name: "finalize",
	preview: func(o *Observed, to *report.Plan) {
		addPatch(o, to, fields.Field{Path: "metadata.finalizers", New: v1alpha1.Finalizer})
	},
	do: func(a *action, ctx context.Context) error { return a.setFinalizer(ctx, true) },
}

// unreachableAfter is how long ECS may fail to answer before the status reports it.
const unreachableAfter = 2 * time.Minute

// waitForAccess waits until there are credentials that ECS accepts. Ready stays True for unreachableAfter after a passing problem began.
func waitForAccess(o *Observed) *Plan {
	p := o.accessProblem()
	if p == nil {
		return nil
	}
	quiet := p.Passing && o.Now.Sub(o.Memory.UnreachableSince) < unreachableAfter
	return &Plan{Problem: p, Wait: o.jittered(p.Wait), KeepsConditions: quiet && o.wasReady()}
}

// accessProblem returns why the operator cannot call ECS for this object, nil if it can.
func (o *Observed) accessProblem() *problem {
	if s := o.Credentials; s != nil && !s.usable() {
		return s.problem(v1alpha1.KeyAccessKeyID+" and "+v1alpha1.KeyAccessKeySecret,
			"correct credentialsSecretRef")
	}
	if s := o.UserData; s != nil && !s.usable() {
		return s.problem(o.Object.Spec.UserDataSecretRef.Key, "correct userDataSecretRef")
	}
	return o.AccountProblem
}

// problem returns why the Secret, which needs keys, is not usable. remedy says what a user can do instead of correcting the Secret.
func (s *secretState) problem(keys, remedy string) *problem {
	if s.Unreadable != "" {
		return &problem{Reason: reasonSecretUnreadable, Passing: true, Wait: waitForBusy, Message: fmt.Sprintf(
			"The operator cannot read Secret %s and tries again: %s. It needs the right to get secrets", s.Name, s.Unreadable)}
	}
	message := fmt.Sprintf("There is no Secret %s: create it with %s, or %s", s.Name, keys, remedy)
	if s.Exists {
		message = fmt.Sprintf("Secret %s has no %s: add it, or %s", s.Name, s.MissingKey, remedy)
	}
	return &problem{Reason: reasonSecretMissing, Stalled: true, Wait: waitForSecret, Message: message}
}

// refuseOtherAccount waits for credentials of the account of the instance. Another account does not show the instance, even if it exists.
func refuseOtherAccount(o *Observed) *Plan {
	account := o.boundTo()
	if account == "" || account == o.Account {
		return nil
	}
	where := "the instance is in account "
	exception := ""
	if o.creating() {
		where = "an instance may have been made in account "
		exception = ". Once ECS confirms that there is no instance, a key of another account can be used"
	}
	return &Plan{Wait: waitForSecret, Problem: &problem{Reason: reasonWrongAccount, Stalled: true, Message: fmt.Sprintf(
		"The access key of %s belongs to account %s, but %s%s. Use a key of that account: with another key, nothing is done%s",
		o.credentialsFrom(), o.Account, where, account, exception)}}
}

// pollSoon is the time from a change to the next poll, and pollOften the interval while an instance is neither Running nor Stopped.
var (
	pollSoon  = in(2 * time.Second)
	pollOften = in(4 * time.Second)
)

// waitForPoll waits for a poll of the instance that began after the last change.
func waitForPoll(o *Observed) *Plan {
	switch {
	case o.PollProblem != nil:
		return &Plan{Problem: o.PollProblem}
	case !o.fresh():
		return &Plan{KeepsConditions: true, Poll: pollSoon}
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
func (o *Observed) missing(d time.Duration) (missing, surely bool) {
	if o.Instance != nil {
		return false, false
	}
	s := &o.Object.Status
	if s.State == "" && s.Create != nil && o.PolledAt.Before(s.Create.RequestedTime.Add(unseenAfter)) {
		return true, false // It may still appear.
	}
	return true, !o.Memory.MissingSince.IsZero() && !o.PolledAt.Before(o.Memory.MissingSince.Add(d))
}

// recordFirstState writes the first state into the status before anything is done with the instance. An
// instance that never showed may vanish by itself, and is then created again.
func recordFirstState(o *Observed) *Plan {
	if o.Object.Status.State != "" || o.Instance.State == "" || o.adopting() {
		return nil
	}
	return &Plan{KeepsConditions: true}
}

// refuseOtherOwner leaves an instance alone whose tag does not name this object.
func refuseOtherOwner(o *Observed) *Plan {
	if o.owned() {
		return nil
	}
	return &Plan{Problem: o.notOwned()}
}

func (o *Observed) notOwned() *problem {
	return &problem{Reason: reasonNotOwned, Stalled: true, Message: fmt.Sprintf(
		"The tag %s of instance %s is %q, not %q. The operator does not touch the instance: "+
			"correct the tag, or delete this object with deletionPolicy: Retain",
		v1alpha1.TagUID, o.ID, o.Instance.Tags[v1alpha1.TagUID], o.Object.UID)}
}

// stateReasons holds the condition reasons for the states in which the operator cannot change an instance.
var stateReasons = map[aliyun.State]string{
	aliyun.StatePending: reasonCreating, aliyun.StateStarting: reasonStarting, aliyun.StateStopping: reasonStopping,
}

// waitForState waits while ECS creates, starts or stops the instance.
func waitForState(o *Observed) *Plan {
	state := o.Instance.State
	if state == aliyun.StateRunning || state == aliyun.StateStopped {
		return nil
	}
	return &Plan{Poll: pollOften, Reason: cmp.Or(stateReasons[state], reasonWaiting), Message: fmt.Sprintf("Instance %s is %s", o.ID, state)}
}
