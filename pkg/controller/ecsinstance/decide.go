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

// step is what a sync does: at most one thing that changes anything in the cloud.
type step string

const (
	stepNone     step = ""
	stepFinalize step = "finalize" // put the finalizer on
	stepCreate   step = "create"   // look whether there is an instance already, and else make one
	stepSettle   step = "settle"   // look what came of an attempt
	stepRenew    step = "renew"    // give up the instance that is gone, for another attempt
	stepAdopt    step = "adopt"    // put down the instance that was taken over
	stepTag      step = "tag"
	stepUntag    step = "untag"
	stepModify   step = "modify"
	stepSetType  step = "set type"
	stepStart    step = "start"
	stepStop     step = "stop"
	stepDelete   step = "delete"
	stepBury     step = "bury"    // look that no instance is left, and release
	stepRelease  step = "release" // take the finalizer off
)

// plan is what one sync makes of what it has seen.
type plan struct {
	step   step
	tags   map[string]string // of stepTag
	keys   []string          // of stepUntag
	change aliyun.Change     // of stepModify

	// problem is why it does not go on, and reason and message how far it has come, if
	// there is none.
	problem         *problem
	reason, message string
	// ready is whether all is as the spec says, but for what drift names.
	ready bool
	drift []string
	// silent leaves the conditions as they are.
	silent bool

	// wants is what it would do if that had not been asked for just now.
	wants step
	// gone is whether to put down that the instance is not there.
	gone bool

	wait time.Duration // until the next sync, 0 for none
	look time.Duration // until the next look at the instance, 0 for as usual
}

// acts returns whether there is more to do than to write the status.
func (p plan) acts() bool {
	switch p.step {
	case stepNone, stepAdopt, stepRenew:
		return false
	}
	return true
}

// policy is one thing to look at. It returns false if it has nothing to say.
type policy struct {
	name   string
	decide func(*observed) (plan, bool)
}

// life is what is done about an ECSInstance that is to be: the first policy that has
// something to say decides.
var life = []policy{
	{"no finalizer yet", unfinalized},
	{"no credentials, or no answer", blind},
	{"credentials of another account", elsewhere},
	{"no instance, and one is to be adopted", adopting},
	{"no instance", absent},
	{"instance not seen since", unseen},
	{"instance gone", gone},
	{"instance seen for the first time", discovered},
	{"instance is somebody else's", foreign},
	{"ECS is at work on it", transitional},
	{"tags differ", untagged},
	{"name or security groups differ", altered},
	{"type differs", resized},
	{"power state differs", powered},
	{"nothing differs", settled},
}

// death is the same for one that is being deleted.
var death = []policy{
	{"nothing was ever made", unmade},
	{"no credentials, or no answer", blind},
	{"credentials of another account", elsewhere},
	{"it is not known what came of an attempt", unsettled},
	{"instance not seen since", unseen},
	{"instance gone", buried},
	{"instance seen for the first time", discovered},
	{"instance is somebody else's", disowned},
	{"instance is to be kept", retained},
	{"ECS is at work on it", transitional},
	{"instance is still there", condemned},
}

// decide says what to do next.
func decide(o *observed) plan {
	policies := life
	if o.deleting() {
		policies = death
	}
	for _, p := range policies {
		if next, ok := p.decide(o); ok {
			return next.held(o)
		}
	}
	return plan{silent: true}
}

// held makes of a plan to ask ECS for something one to wait, if that was asked for in vain.
func (p plan) held(o *observed) plan {
	switch p.step {
	case stepFinalize, stepRelease:
		return p
	}
	if o.held == nil || !p.acts() || (p.step != o.mine.heldStep && o.mine.heldStep != stepNone) {
		return p
	}
	return plan{problem: o.held, wait: o.heldFor, wants: p.wants}
}

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
	return plan{problem: o.problem, wait: jittered(o.problem.wait), silent: quiet && o.wasReady()}, true
}

// elsewhere: what is not found in another account is not gone.
func elsewhere(o *observed) (plan, bool) {
	is := o.home()
	if is == "" || is == o.account {
		return plan{}, false
	}
	whereabouts := "the instance is"
	if o.creating() {
		whereabouts = "an instance may have been made"
	}
	return plan{wait: waitForSecret, problem: &problem{
		reason: reasonWrongAccount, stalled: true,
		message: fmt.Sprintf("The access key of %s is of account %s, and %s in account %s: nothing is done before there is one of that account",
			o.from, o.account, whereabouts, is),
	}}, true
}

// rejected returns whether ECS is known to have made nothing with the token of the last
// attempt.
func (o *observed) rejected() bool { return o.mine.clean == o.ecs.Status.Create.Token }

func adopting(o *observed) (plan, bool) {
	if !o.adopts() {
		return plan{}, false
	}
	if next, not := unseen(o); not {
		return next, true
	}
	i := o.sight.instance
	if i == nil {
		return plan{wait: jittered(waitForMending), problem: &problem{reason: reasonNotFound, stalled: true,
			message: fmt.Sprintf("There is no instance %s in %s: correct adoptInstanceID or regionID", o.id, o.ecs.Spec.RegionID)}}, true
	}
	owner := i.Tags[v1alpha1.TagUID]
	next := plan{reason: reasonAdopting, message: "Instance " + o.id + " is taken over"}
	switch {
	case owner != "" && !o.owned():
		return plan{wait: jittered(waitForMending), problem: &problem{reason: reasonNotOwned, stalled: true,
			message: fmt.Sprintf("Instance %s is another object's (%s), by its tag %s: delete that object with deletionPolicy: Retain first, or take the tag off",
				o.id, i.Tags[v1alpha1.TagObject], v1alpha1.TagUID)}}, true
	case owner != "" || o.ecs.Status.InstanceID == "":
		next.step = stepAdopt
		return next, true
	}
	next.step, next.tags = stepTag, ownership(o.ecs)
	return o.try(next)
}

// adopts returns whether there is an instance to be taken over. It is put down first as the one
// that this is about, then tagged, and then put down as adopted: so it is known at any time
// where there may be a tag.
func (o *observed) adopts() bool { return o.ecs.Spec.AdoptInstanceID != "" && !o.ecs.Status.Adopted }

func absent(o *observed) (plan, bool) {
	if o.ecs.Status.InstanceID != "" {
		return plan{}, false
	}
	return plan{step: stepCreate, reason: reasonCreating, message: "ECS is asked for an instance"}, true
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
	return plan{problem: o.foreign()}, true
}

func (o *observed) foreign() *problem {
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

func untagged(o *observed) (plan, bool) {
	set, drop := tagChanges(o.ecs, o.sight.instance)
	for key := range set {
		if !slices.Contains(o.ecs.Status.TagKeys, key) { // It is put down before it is set.
			return plan{reason: reasonChanging, message: fmt.Sprintf("Tags of instance %s are set", o.id)}, true
		}
	}
	switch {
	case len(set) > 0:
		return o.try(plan{step: stepTag, tags: set, reason: reasonChanging, message: fmt.Sprintf("Tags of instance %s are set", o.id)})
	case len(drop) > 0:
		return o.try(plan{step: stepUntag, keys: drop, reason: reasonChanging, message: fmt.Sprintf("Tags are taken off instance %s", o.id)})
	}
	return plan{}, false
}

func altered(o *observed) (plan, bool) {
	c, differs := change(o.ecs, o.sight.instance)
	if !differs {
		return plan{}, false
	}
	return o.try(plan{step: stepModify, change: c, reason: reasonChanging, message: fmt.Sprintf("Name or security groups of instance %s are changed", o.id)})
}

func resized(o *observed) (plan, bool) {
	s, i := &o.ecs.Spec, o.sight.instance
	if s.InstanceType == i.Type || o.lasting() != "" {
		return plan{}, false
	}
	message := fmt.Sprintf("The type of instance %s is changed from %s to %s", o.id, i.Type, s.InstanceType)
	if i.State == aliyun.StateRunning {
		return o.try(plan{step: stepStop, reason: reasonChanging, message: message + ", for which it is stopped"})
	}
	return o.try(plan{step: stepSetType, reason: reasonChanging, message: message})
}

// lasting returns why the type of the instance stays another one than that of the spec, "" if
// it is the same, or is to be changed now.
func (o *observed) lasting() string {
	s, i := &o.ecs.Spec, o.sight.instance
	differs := fmt.Sprintf("instanceType is %q and not %q", i.Type, s.InstanceType)
	switch {
	case s.InstanceType == i.Type:
		return ""
	case o.refuses() && s.PowerState == v1alpha1.PowerRunning:
		return differs + ", which ECS has refused (see the events): set another one; or powerState: Stopped, for it to be tried again"
	case i.ChargeType == string(v1alpha1.PrePaid):
		return differs + ", which of a PrePaid instance is changed in the console"
	case s.InstanceTypeChangePolicy == v1alpha1.TypeChangeNever:
		return differs + ", and instanceTypeChangePolicy is Never"
	case s.InstanceTypeChangePolicy == v1alpha1.TypeChangeWhenStopped && (i.State != aliyun.StateStopped || s.PowerState != v1alpha1.PowerStopped):
		return differs + ", which is changed when powerState is Stopped, or with instanceTypeChangePolicy: Restart"
	}
	return ""
}

func powered(o *observed) (plan, bool) {
	switch i := o.sight.instance; {
	case o.ecs.Spec.PowerState == v1alpha1.PowerRunning && i.State == aliyun.StateStopped:
		return o.try(plan{step: stepStart, reason: reasonStarting, message: fmt.Sprintf("Instance %s is started", o.id)})
	case o.ecs.Spec.PowerState == v1alpha1.PowerStopped && i.State == aliyun.StateRunning:
		return o.try(plan{step: stepStop, reason: reasonStopping, message: fmt.Sprintf("Instance %s is stopped", o.id)})
	}
	return plan{}, false
}

// insistent is after how many times a change that never shows is a problem.
const insistent = 3

// try makes of a plan one to wait, if the same was asked for only just now, and what was asked
// for is not to be seen; or if the instance is locked.
func (o *observed) try(next plan) (plan, bool) {
	if locks := o.sight.instance.Locks; len(locks) > 0 && (next.step == stepStart || next.step == stepStop || next.step == stepSetType) {
		return plan{problem: &problem{reason: reasonInstanceLocked, stalled: true,
			message: fmt.Sprintf("ECS has locked instance %s (%s): see the console for what to do about it", o.id, locks)}}, true
	}
	next.wants = next.step
	t := o.mine.tried[next.step]
	if wait := t.again.Sub(o.now); wait > 0 {
		next.step, next.wait, next.look = stepNone, wait, wait
		if t.times == 1 {
			next.look = lookOften
		}
	}
	if t.times >= insistent {
		next.problem = &problem{reason: reasonNoEffect, message: fmt.Sprintf(
			"ECS was asked %d times to %s instance %s, agreed, and does not show it", t.times, next.wants, o.id)}
	}
	return next, true
}

func settled(o *observed) (plan, bool) {
	i := o.sight.instance
	next := plan{ready: true, reason: string(i.State), message: fmt.Sprintf("Instance %s is %s", o.id, i.State), drift: drift(o.ecs, i, o.region())}
	if why := o.lasting(); why != "" {
		next.drift = append(next.drift, why)
	}
	return next, true
}

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
	return plan{problem: o.foreign()}, true
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
