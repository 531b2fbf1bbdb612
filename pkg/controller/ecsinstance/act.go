// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// outcome holds the results of act.
type outcome struct {
	ecs    *v1alpha1.ECSInstance // the object as act last wrote it
	memory memory                // for the next sync

	// finalizersChanged reports that the finalizer was added or removed.
	finalizersChanged bool
	// typeRefused reports that ECS refused the type of the spec.
	typeRefused bool
	// problem says why the step failed, nil if it did not. wait is the time until the next step, 0 for none.
	problem *problem
	wait    time.Duration
}

// newOutcome returns the outcome of a plan before act did anything. After a fresh poll, the trial of a change that p does not want is
// forgotten.
func newOutcome(o *observed, p plan) outcome {
	out := outcome{ecs: o.ecs, memory: o.memory}
	if o.fresh() {
		out.memory.keepTrial(p.wants)
	}
	return out
}

// nextStep is the wait until the step that follows an outcome. The next sync decides on it.
const nextStep = time.Millisecond

// act takes the step of a plan. A rejection by ECS is no error: the outcome has a backoff.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (outcome, error) {
	out := newOutcome(o, p)
	var err error
	if p.acts() {
		err = c.take(ctx, o, p, &out)
	}
	s := c.sessions.open(o.ecs)
	if out.memory.backoff != o.memory.backoff {
		s.backoffAccess = s.access
	}
	s.memory = out.memory // Also after an error: ECS may have received the call.
	poll := p.poll
	if p.changesInstance() {
		poll = pollSoon
	}
	if poll > 0 {
		c.fleets.soon(s.access, o.id, poll)
	}
	return out, err
}

// take takes the step of a plan.
func (c *Controller) take(ctx context.Context, o *observed, p plan, out *outcome) error {
	switch p.step {
	case stepFinalize:
		return c.setFinalizer(ctx, out, true)
	case stepVerifyGone:
		return c.verifyGone(ctx, o, p, out)
	case stepRelease:
		return c.setFinalizer(ctx, out, false)
	case stepCreate:
		return c.create(ctx, o, p, out)
	case stepFindAttempt:
		return c.settle(ctx, o, p, out)
	}
	return c.change(ctx, o, p, out)
}

// cloud returns the calls for the credentials and the region that this sync observed.
func (c *Controller) cloud(o *observed) Cloud { return c.fleets.cloud(c.sessions.open(o.ecs).access) }

// changeEvents holds the steps that change an instance, and the reason of the event after each.
var changeEvents = map[step]string{
	stepTag: "Tagged", stepUntag: "Untagged", stepModify: "Modified", stepSetType: "TypeChanged", stepAllocate: "AddressAllocated",
	stepStart: "Started", stepStop: "Stopped", stepDelete: "Deleted",
}

// change requests one change of the instance. From then on, earlier polls of the instance are stale.
func (c *Controller) change(ctx context.Context, o *observed, p plan, out *outcome) error {
	err := callChange(ctx, c.cloud(o), o, p)
	out.memory.changedAt = c.clock.Now()
	if err != nil {
		return c.failed(ctx, o, p, out, err)
	}
	if p.step == stepAllocate {
		out.memory.addressUntil = out.memory.changedAt.Add(addressEvery)
	}
	out.memory.addTrial(p.step, out.memory.changedAt)
	out.memory.deleteAccepted = out.memory.deleteAccepted || p.step == stepDelete
	klog.FromContext(ctx).Info("Changed instance", "step", p.step, "instance", o.id, "reason", p.message)
	c.recorder.Event(o.ecs, corev1.EventTypeNormal, changeEvents[p.step], p.message)
	return nil
}

// callChange makes the call of a step that changes the instance.
func callChange(ctx context.Context, cloud Cloud, o *observed, p plan) error {
	switch p.step {
	case stepTag:
		return cloud.Tag(ctx, o.id, p.tags)
	case stepUntag:
		return cloud.Untag(ctx, o.id, p.keys)
	case stepModify:
		return cloud.Modify(ctx, o.id, p.change)
	case stepSetType:
		return cloud.SetType(ctx, o.id, o.ecs.Spec.InstanceType)
	case stepAllocate:
		return cloud.AllocateAddress(ctx, o.id)
	case stepStart:
		return cloud.Start(ctx, o.id)
	case stepStop:
		return cloud.Stop(ctx, o.id)
	case stepDelete:
		return cloud.Delete(ctx, o.id, o.instance.State == aliyun.StateRunning)
	}
	return fmt.Errorf("there is no step %q", p.step)
}

// failed records that ECS failed or rejected the step of p. It returns an error only if ctx ended.
func (c *Controller) failed(ctx context.Context, o *observed, p plan, out *outcome, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	klog.FromContext(ctx).Info("Call to ECS failed", "step", p.step, "err", err)
	if p.step == stepSetType && refusesType(err) && o.ecs.Spec.PowerState == v1alpha1.PowerRunning {
		// The instance was stopped for this call, and every retry would stop it again.
		out.typeRefused = true
		c.recorder.Eventf(o.ecs, corev1.EventTypeWarning, "TypeChangeRefused", "ECS refused the new type of instance %s: %v", o.id, err)
		return nil
	}
	problem := problemOf(err, o.credentialsFrom())
	if p.step == stepAllocate && !problem.passing { // An instance without a public IP is better than one that never starts.
		out.memory.addressUntil = c.clock.Now().Add(addressEvery)
		c.recorder.Eventf(o.ecs, corev1.EventTypeWarning, "AddressRefused", "ECS gave instance %s no public IP: %v", o.id, err)
		return nil
	}
	c.backOff(o, p.step, problem, out)
	return nil
}

// backOff delays the retry of a step by the wait of its problem.
func (c *Controller) backOff(o *observed, failed step, p *problem, out *outcome) {
	now := c.clock.Now()
	out.problem, out.wait = p, later(p.wait, string(o.ecs.UID), now)
	out.memory.backoff = backoff{problem: p, step: failed, until: now.Add(out.wait), generation: o.ecs.Generation}
}

// create creates the instance, unless one exists. In one sync, it first looks up what earlier attempts created, then writes the token into
// the status, and then calls ECS. The write fails if the object changed since this sync read it. So even after a crash, the next sync knows
// every call that ECS may have received.
func (c *Controller) create(ctx context.Context, o *observed, p plan, out *outcome) error {
	wanted := request(o.ecs, c.sessions.open(o.ecs).userData)
	parameters, err := digest(o.ecs, wanted, o.userData)
	if err != nil {
		return err
	}
	next, err := c.lookUp(ctx, o, p, out, parameters)
	if err != nil || next.create == nil {
		return err
	}
	if err := c.writeAttempt(ctx, o, p, out, next); err != nil {
		return err
	}
	if !next.call {
		out.wait = nextStep
		return nil
	}
	nothingFoundSince := out.memory.nothingFoundSince
	out.memory.lastCall, out.memory.rejectedToken, out.memory.nothingFoundSince = callOf(next.create), "", time.Time{}
	wanted.ClientToken = next.create.Token
	id, err := c.cloud(o).Create(ctx, wanted)
	if err != nil {
		e, ok := errors.AsType[*aliyun.Error](err)
		switch {
		case !ok || e.Ambiguous():
		case e.Class == aliyun.TokenDead:
			out.memory.deadToken = next.create.Token
		case next.clean:
			out.memory.rejectedToken = next.create.Token
		default:
			out.memory.nothingFoundSince = nothingFoundSince // This call created nothing, so the lookups still count.
		}
		return c.failed(ctx, o, p, out, err)
	}
	klog.FromContext(ctx).Info("Created instance", "instance", id, "attempt", next.create.Attempt)
	c.recorder.Eventf(o.ecs, corev1.EventTypeNormal, "Created", "Created instance %s in %s", id, next.create.RegionID)
	return c.record(ctx, o, p, out, id)
}

// writeAttempt writes the next attempt and the account into the status.
func (c *Controller) writeAttempt(ctx context.Context, o *observed, p plan, out *outcome, next attempt) (err error) {
	if next.call {
		next.create.RequestedTime = requestedAt(c.clock.Now(), o.ecs.Status.Create)
	}
	// The conditions keep the last problem until there is an instance.
	p.keepsConditions = len(o.ecs.Status.Conditions) > 0 && o.ecs.Status.ObservedGeneration == o.ecs.Generation
	status := plannedStatus(o.after(*out), p)
	status.Create, status.AccountID = next.create, o.account
	out.ecs, err = c.status.Write(ctx, out.ecs, status)
	return err
}

// settle looks up what the last attempt created, for an object that is being deleted.
func (c *Controller) settle(ctx context.Context, o *observed, p plan, out *outcome) error {
	next, err := c.lookUp(ctx, o, p, out, "")
	if err == nil && next.create != nil {
		out.memory.rejectedToken = o.ecs.Status.Create.Token // The attempt created nothing.
		out.wait = nextStep
	}
	return err
}

// lookUp looks for an instance with the tag of the object, and records it as the instance of the object.
// If there is none, it returns the next attempt, whose create is nil if the outcome has a problem.
func (c *Controller) lookUp(ctx context.Context, o *observed, p plan, out *outcome, parameters string) (attempt, error) {
	lookedUp := c.clock.Now()
	found, err := c.findTagged(ctx, o)
	if err != nil {
		return attempt{}, c.failed(ctx, o, p, out, err)
	}
	setSince(&out.memory.nothingFoundSince, len(found) == 0, lookedUp)
	next := nextAttempt(o.after(*out), found, parameters, lookedUp)
	switch {
	case next.problem != nil:
		c.backOff(o, p.step, next.problem, out)
	case next.id != "":
		klog.FromContext(ctx).Info("Found instance of an earlier attempt", "instance", next.id)
		return attempt{}, c.record(ctx, o, p, out, next.id)
	}
	return next, nil
}

// findTagged returns the instances with the tag of the object.
func (c *Controller) findTagged(ctx context.Context, o *observed) ([]aliyun.Instance, error) {
	return c.cloud(o).Find(ctx, map[string]string{v1alpha1.TagUID: string(o.ecs.UID)})
}

// record writes the ID of the instance into the status.
func (c *Controller) record(ctx context.Context, o *observed, p plan, out *outcome, id string) (err error) {
	status := plannedStatus(o.after(*out), p)
	status.InstanceID, status.AccountID, status.State = id, o.account, ""
	if out.ecs, err = c.status.Write(ctx, out.ecs, status); err == nil {
		out.memory.nothingFoundSince = time.Time{}
	}
	return err
}

// verifyGone removes the finalizer, unless instances still have the tag of the object.
func (c *Controller) verifyGone(ctx context.Context, o *observed, p plan, out *outcome) (err error) {
	found, err := c.findTagged(ctx, o)
	if err != nil {
		return c.failed(ctx, o, p, out, err)
	}
	if len(found) > 0 && o.creating() { // An instance shows after all: the object is bound to its account.
		status := o.ecs.Status
		status.AccountID = o.account
		out.memory.rejectedToken, out.wait = "", nextStep
		out.ecs, err = c.status.Write(ctx, out.ecs, status)
		return err
	}
	if problem := leftovers(o, found); problem != nil {
		c.backOff(o, p.step, problem, out)
		return nil
	}
	return c.setFinalizer(ctx, out, false)
}

// setFinalizer adds or removes the finalizer. It fails if the object changed since it was read.
func (c *Controller) setFinalizer(ctx context.Context, out *outcome, wanted bool) error {
	ecs := out.ecs
	finalizers := slices.DeleteFunc(slices.Clone(ecs.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	if wanted {
		finalizers = append(finalizers, v1alpha1.Finalizer)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": ecs.ResourceVersion, "uid": ecs.UID,
	}})
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	updated, err := c.client.AlibabacloudV1alpha1().ECSInstances(ecs.Namespace).Patch(ctx, ecs.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: glassback.Name})
	if err != nil {
		return fmt.Errorf("patch finalizers of ECSInstance %s: %w", ecs.Name, err)
	}
	out.finalizersChanged = true
	key := cache.MetaObjectToName(ecs)
	if len(updated.Finalizers) > 0 || updated.DeletionTimestamp == nil {
		c.written.Record(key, "patch ecsinstances", c.cache, updated)
	} else {
		c.written.RecordDelete(key, "patch ecsinstances", c.cache, updated)
	}
	return nil
}
