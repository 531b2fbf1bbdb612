/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"fmt"
	"slices"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

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
