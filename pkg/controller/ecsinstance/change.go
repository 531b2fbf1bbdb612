// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

func changeTags(o *observed) *plan {
	set, drop := tagChanges(o.ecs, o.instance)
	p := plan{reason: reasonChanging, message: "Setting tags of instance " + o.id}
	for key := range set {
		if !slices.Contains(o.ecs.Status.TagKeys, key) { // The status names a tag before the instance has it.
			return &p
		}
	}
	switch {
	case len(set) > 0:
		p.step, p.tags = stepTag, set
	case len(drop) > 0:
		p.step, p.keys, p.message = stepUntag, drop, "Removing tags from instance "+o.id
	default:
		return nil
	}
	return o.try(p)
}

func changeAttributes(o *observed) *plan {
	c, differs := change(o.ecs, o.instance)
	if !differs {
		return nil
	}
	return o.try(plan{step: stepModify, change: c, reason: reasonChanging, message: "Changing name or security groups of instance " + o.id})
}

// changeType changes the type of a stopped instance, and stops a running one first.
func changeType(o *observed) *plan {
	s, i := &o.ecs.Spec, o.instance
	if s.InstanceType == i.Type || o.typeDrift() != "" {
		return nil
	}
	message := fmt.Sprintf("Changing the type of instance %s from %s to %s", o.id, i.Type, s.InstanceType)
	if i.State == aliyun.StateRunning {
		return o.try(plan{step: stepStop, reason: reasonChanging, message: message + "; it is stopped first"})
	}
	return o.try(plan{step: stepSetType, reason: reasonChanging, message: message})
}

// typeDrift returns why the type of the instance stays different from the spec's. It returns "" if the
// types are the same, or if the type is to be changed now.
func (o *observed) typeDrift() string {
	s, i := &o.ecs.Spec, o.instance
	differs := fmt.Sprintf("instanceType is %q, not %q", i.Type, s.InstanceType)
	switch {
	case s.InstanceType == i.Type:
		return ""
	case o.ecs.Status.RefusedInstanceType == s.InstanceType && s.PowerState == v1alpha1.PowerRunning:
		return differs + ": ECS rejected that type (see the events). Set another type, or powerState: Stopped to try it again"
	case i.ChargeType == string(v1alpha1.PrePaid):
		return differs + ": change the type of a PrePaid instance in the console"
	case s.InstanceTypeChangePolicy == v1alpha1.TypeChangeNever:
		return differs + ", and instanceTypeChangePolicy is Never"
	case s.InstanceTypeChangePolicy == v1alpha1.TypeChangeWhenStopped &&
		(i.State != aliyun.StateStopped || s.PowerState != v1alpha1.PowerStopped):
		return differs + ": it changes when powerState is Stopped, or with instanceTypeChangePolicy: Restart"
	}
	return ""
}

// addressEvery is how long the operator waits until it requests a public IP again.
const addressEvery = 10 * time.Minute

// allocateAddress requests the public IP of a stopped instance, once before it starts. If ECS refuses, or does not show the IP, the
// instance starts without one, and drift says so.
func allocateAddress(o *observed) *plan {
	if !o.lacksAddress() || o.instance.State != aliyun.StateStopped || o.now.Before(o.memory.addressUntil) {
		return nil
	}
	return o.try(plan{step: stepAllocate, reason: reasonChanging, message: "Allocating the public IP of instance " + o.id})
}

// lacksAddress returns whether the instance has no public IP, although the spec wants one and it was created so. ECS has no such IP before
// it is requested.
func (o *observed) lacksAddress() bool {
	return ptr.Deref(o.ecs.Spec.InternetMaxBandwidthOut, 0) > 0 && o.instance.Bandwidth > 0 && len(o.instance.PublicIPs) == 0
}

func changePower(o *observed) *plan {
	switch i := o.instance; {
	case o.ecs.Spec.PowerState == v1alpha1.PowerRunning && i.State == aliyun.StateStopped:
		return o.try(plan{step: stepStart, reason: reasonStarting, message: "Starting instance " + o.id})
	case o.ecs.Spec.PowerState == v1alpha1.PowerStopped && i.State == aliyun.StateRunning:
		return o.try(plan{step: stepStop, reason: reasonStopping, message: "Stopping instance " + o.id})
	}
	return nil
}

// maxTrials is the number of requests after which a change that does not show is a problem.
const maxTrials = 3

// try returns p. It returns a plan to wait if the same change was requested a moment ago and does not show yet, and a problem if the
// instance is locked.
func (o *observed) try(p plan) *plan {
	if locks := o.instance.Locks; len(locks) > 0 && (p.step == stepStart || p.step == stepStop || p.step == stepSetType) {
		return &plan{problem: &problem{reason: reasonInstanceLocked, stalled: true,
			message: fmt.Sprintf("ECS has locked instance %s (%s): the console says what to do", o.id, locks)}}
	}
	p.wants = p.step
	t := o.memory.trial
	if t.step != p.step {
		return &p
	}
	if wait := t.again.Sub(o.now); wait > 0 {
		p.step, p.wait, p.poll = stepNone, wait, wait
		if t.times == 1 {
			p.poll = pollOften
		}
	}
	if t.times >= maxTrials {
		p.problem = &problem{reason: reasonNoEffect, message: fmt.Sprintf(
			"ECS accepted the request to %s instance %s %d times, and does not show the change: look at it in the console", p.wants, o.id, t.times)}
	}
	return &p
}

func reportReady(o *observed) *plan {
	i := o.instance
	p := plan{ready: true, reason: string(i.State), message: fmt.Sprintf("Instance %s is %s", o.id, i.State)}
	p.drift = drift(o.ecs, i, o.region())
	if why := o.typeDrift(); why != "" {
		p.drift = append(p.drift, why)
	}
	if o.lacksAddress() {
		p.drift = append(p.drift, "there is no public IP: the instance gets one when it is stopped and started, by powerState")
	}
	return &p
}
