/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
	"k8s.io/klog/v2"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// act takes the step of a plan. What ECS answers with a no is held against it, and is not an
// error: see session.hold.
func (c *Controller) act(ctx context.Context, o *observed, next plan) error {
	switch next.step {
	case stepFinalize:
		return c.finalize(ctx, o)
	case stepBury:
		return c.bury(ctx, o)
	case stepRelease:
		return c.release(ctx, o)
	case stepCreate:
		return c.create(ctx, o, next)
	case stepSettle:
		return c.settle(ctx, o, next)
	}
	err := c.change(ctx, o, next)
	o.mine.acted = c.clock.Now()
	c.fleets.soon(o.fleet, o.id, lookSoon)
	if err != nil {
		return c.failed(ctx, o, next.step, err)
	}
	o.mine.try(next.step, o.mine.acted)
	klog.FromContext(ctx).V(2).Info("Changed instance", "step", next.step, "instance", o.id)
	c.recorder.Event(o.ecs, corev1.EventTypeNormal, events[next.step], next.message)
	return nil
}

// events are what is told of a change that ECS has agreed to.
var events = map[step]string{
	stepTag: "Tagged", stepUntag: "Untagged", stepModify: "Modified", stepSetType: "TypeChanged",
	stepStart: "Started", stepStop: "Stopped", stepDelete: "Deleted",
}

// change asks ECS for one change of the instance.
func (c *Controller) change(ctx context.Context, o *observed, next plan) error {
	switch next.step {
	case stepTag:
		return o.cloud.Tag(ctx, o.id, next.tags)
	case stepUntag:
		return o.cloud.Untag(ctx, o.id, next.keys)
	case stepModify:
		return o.cloud.Modify(ctx, o.id, next.change)
	case stepSetType:
		return o.cloud.SetType(ctx, o.id, o.ecs.Spec.InstanceType)
	case stepStart:
		return o.cloud.Start(ctx, o.id)
	case stepStop:
		return o.cloud.Stop(ctx, o.id)
	case stepDelete:
		return o.cloud.Delete(ctx, o.id, o.sight.instance.State == aliyun.StateRunning)
	}
	return fmt.Errorf("there is no step %q", next.step)
}

// failed holds what ECS has said against asking it again soon.
func (c *Controller) failed(ctx context.Context, o *observed, what step, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	klog.FromContext(ctx).Info("ECS has not done it", "err", err)
	if what == stepSetType && refusesType(err) && o.ecs.Spec.PowerState == v1alpha1.PowerRunning {
		// The instance was stopped for this call, and every retry would stop it again.
		o.refused = true
		c.recorder.Eventf(o.ecs, corev1.EventTypeWarning, "TypeChangeRefused", "Instance %s stays as it was: %v", o.id, err)
		return nil
	}
	c.hold(o, what, problemOf(err, o.from))
	return nil
}

// hold is session.hold, and has this sync know of it.
func (c *Controller) hold(o *observed, what step, p *problem) {
	now := c.clock.Now()
	o.mine.hold(p, what, o.ecs, o.fleet, now)
	o.held, o.heldFor = o.mine.holding(o.ecs, o.fleet, now)
}

// create makes the instance, unless there is one. What came of earlier attempts is found out
// first, always; and every call is preceded by a write of its token into the status, in the
// same sync, which fails if anybody has written since what this sync goes by. So whoever
// comes later, after a crash too, knows which calls there may have been.
func (c *Controller) create(ctx context.Context, o *observed, next plan) error {
	wanted := request(o.ecs, o.script)
	parameters, err := digest(o.ecs, wanted, o.script)
	if err != nil {
		return err
	}
	v, err := c.lookUp(ctx, o, next, parameters)
	if err != nil || v.create == nil {
		return err
	}
	if v.call {
		v.create.RequestedTime = requestedAt(c.clock.Now(), o.ecs.Status.Create)
	}
	before := next
	// What has kept it from being made is told of until it is.
	before.silent = len(o.ecs.Status.Conditions) > 0 && o.ecs.Status.ObservedGeneration == o.ecs.Generation
	status := statusAfter(o, before)
	status.Create, status.AccountID = v.create, o.account
	if err := c.write(ctx, o, status); err != nil || !v.call {
		return err
	}
	empty := o.mine.empty
	o.mine.asked, o.mine.clean, o.mine.empty = callOf(v.create), "", time.Time{}
	wanted.ClientToken = v.create.Token
	id, err := o.cloud.Create(ctx, wanted)
	if err != nil {
		e, ok := errors.AsType[*aliyun.Error](err)
		switch {
		case !ok || e.Ambiguous():
		case e.Class == aliyun.TokenDead:
			o.mine.dead = v.create.Token
		case v.clean:
			o.mine.clean = v.create.Token
		default:
			o.mine.empty = empty // What the lookups have shown still holds: this call made nothing.
		}
		return c.failed(ctx, o, next.step, err)
	}
	klog.FromContext(ctx).V(2).Info("Made instance", "instance", id, "attempt", v.create.Attempt)
	c.recorder.Eventf(o.ecs, corev1.EventTypeNormal, "Created", "Made instance %s in %s", id, o.fleet.region)
	return c.record(ctx, o, next, id)
}

// settle finds out what came of the last attempt to make an instance, for one that is not to
// be any more.
func (c *Controller) settle(ctx context.Context, o *observed, next plan) error {
	v, err := c.lookUp(ctx, o, next, "")
	if err == nil && v.create != nil {
		o.mine.clean = o.ecs.Status.Create.Token // Nothing came of it.
	}
	return err
}

// lookUp looks for an instance by its tag, and takes it for the one that was asked for. Else
// the verdict says how to go on, if it has an attempt.
func (c *Controller) lookUp(ctx context.Context, o *observed, next plan, parameters string) (verdict, error) {
	asked := c.clock.Now()
	found, err := o.cloud.Find(ctx, map[string]string{v1alpha1.TagUID: string(o.ecs.UID)})
	if err != nil {
		return verdict{}, c.failed(ctx, o, next.step, err)
	}
	since(&o.mine.empty, len(found) == 0, asked)
	v := judge(o, found, parameters, asked)
	switch {
	case v.problem != nil:
		c.hold(o, next.step, v.problem)
	case v.id != "":
		klog.FromContext(ctx).V(2).Info("Found instance of an earlier attempt", "instance", v.id)
		return verdict{}, c.record(ctx, o, next, v.id)
	}
	return v, nil
}

// record puts down which instance it is.
func (c *Controller) record(ctx context.Context, o *observed, next plan, id string) error {
	status := statusAfter(o, next)
	status.InstanceID, status.AccountID, status.State = id, o.account, ""
	if err := c.write(ctx, o, status); err != nil {
		return err
	}
	o.id, o.mine.empty = id, time.Time{}
	return nil
}

// finalize puts the finalizer on: from then on there may be something to clean up.
func (c *Controller) finalize(ctx context.Context, o *observed) error {
	return c.setFinalizers(ctx, o, append(slices.Clone(o.ecs.Finalizers), v1alpha1.Finalizer))
}

// bury releases the object, unless there still are instances with its tag.
func (c *Controller) bury(ctx context.Context, o *observed) error {
	found, err := o.cloud.Find(ctx, map[string]string{v1alpha1.TagUID: string(o.ecs.UID)})
	if err != nil {
		return c.failed(ctx, o, stepBury, err)
	}
	if len(found) > 0 && o.creating() { // An instance shows after all: the object is bound to its account.
		o.mine.clean = ""
		status := o.ecs.Status
		status.AccountID = o.account
		return c.write(ctx, o, status)
	}
	if p := leftovers(o, found); p != nil {
		c.hold(o, stepBury, p)
		return nil
	}
	return c.release(ctx, o)
}

// release takes the finalizer off.
func (c *Controller) release(ctx context.Context, o *observed) error {
	rest := slices.DeleteFunc(slices.Clone(o.ecs.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	return c.setFinalizers(ctx, o, rest)
}

// setFinalizers changes the finalizers, unless anybody has written since.
func (c *Controller) setFinalizers(ctx context.Context, o *observed, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": o.ecs.ResourceVersion, "uid": o.ecs.UID,
	}})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	updated, err := c.client.AlibabacloudV1alpha1().ECSInstances(o.ecs.Namespace).Patch(ctx, o.ecs.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: glassback.Name})
	if err != nil {
		return fmt.Errorf("patch finalizers of ECSInstance %s: %w", o.ecs.Name, err)
	}
	o.finalized = true
	if len(updated.Finalizers) > 0 || updated.DeletionTimestamp == nil {
		c.written.Record(o.key(), "patch ecsinstances", c.cache, updated)
	} else {
		c.written.RecordDelete(o.key(), "patch ecsinstances", c.cache, updated)
	}
	return nil
}
