// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/report"
)

func changeTags(o *Observed) *Plan {
	set, drop := tagChanges(o.Object, o.Instance)
	p := Plan{Reason: reasonChanging, Message: "Setting tags of instance " + o.ID}
	for key := range set {
		if !slices.Contains(o.Object.Status.TagKeys, key) { // The status names a tag before the instance has it.
			return &p
		}
	}
	switch {
	case len(set) > 0:
		p.Step, p.Tags = stepTag, set
	case len(drop) > 0:
		p.Step, p.Keys, p.Message = stepUntag, drop, "Removing tags from instance "+o.ID
	default:
		return nil
	}
	return o.try(p)
}

var stepTag = &step{name: "tag", event: "Tagged", do: func(a *action, ctx context.Context) error {
	return a.cloud().Tag(ctx, a.o.ID, a.p.Tags)
}}

var stepUntag = &step{name: "untag", event: "Untagged", do: func(a *action, ctx context.Context) error {
	return a.cloud().Untag(ctx, a.o.ID, a.p.Keys)
}}

func changeAttributes(o *Observed) *Plan {
	c := attributeChange(o.Object, o.Instance)
	if c == nil {
		return nil
	}
	return o.try(Plan{Step: stepModify, Change: c, Reason: reasonChanging, Message: "Changing name or security groups of instance " + o.ID})
}

var stepModify = &step{name: "modify", event: "Modified", do: func(a *action, ctx context.Context) error {
	return a.cloud().Modify(ctx, a.o.ID, *a.p.Change)
}}

// changeType changes the type of a stopped instance, and stops a running one first.
func changeType(o *Observed) *Plan {
	s, i := &o.Object.Spec, o.Instance
	if s.InstanceType == i.Type || o.typeDrift() != "" {
		return nil
	}
	message := fmt.Sprintf("Changing the type of instance %s from %s to %s", o.ID, i.Type, s.InstanceType)
	if i.State == aliyun.StateRunning {
		return o.try(Plan{Step: stepStop, Reason: reasonChanging, Message: message + "; it is stopped first"})
	}
	return o.try(Plan{Step: stepSetType, Reason: reasonChanging, Message: message})
}

var stepSetType = &step{
	name: "set type", event: "TypeChanged",
	do: func(a *action, ctx context.Context) error {
		return a.cloud().SetType(ctx, a.o.ID, a.o.Object.Spec.InstanceType)
	},
	preview: func(o *Observed, to *report.Plan) { addCall(o, to, "set type "+o.ID+" "+o.Object.Spec.InstanceType) },
	rejected: func(a *action, _ *problem, err error) bool {
		// The instance was stopped for this call, and every retry would stop it again.
		a.typeRefused = refusesType(err) && a.o.Object.Spec.PowerState == v1alpha1.PowerRunning
		if a.typeRefused {
			a.warn("TypeChangeRefused", "ECS refused the new type of instance %s: %v", err)
		}
		return a.typeRefused
	},
}

// typeDrift returns why the type of the instance stays different from the spec's. It returns "" if the
// types are the same, or if the type is to be changed now.
func (o *Observed) typeDrift() string {
	s, i := &o.Object.Spec, o.Instance
	differs := fmt.Sprintf("instanceType is %q, not %q", i.Type, s.InstanceType)
	switch {
	case s.InstanceType == i.Type:
		return ""
	case o.Object.Status.RefusedInstanceType == s.InstanceType && s.PowerState == v1alpha1.PowerRunning:
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
func allocateAddress(o *Observed) *Plan {
	if !o.lacksAddress() || o.Instance.State != aliyun.StateStopped || o.Now.Before(o.Memory.AddressUntil) {
		return nil
	}
	return o.try(Plan{Step: stepAllocate, Reason: reasonChanging, Message: "Allocating the public IP of instance " + o.ID})
}

var stepAllocate = &step{
	name: "allocate address", event: "AddressAllocated", do: ofInstance(Cloud.AllocateAddress), accepted: (*memory).delayAddress,
	rejected: func(a *action, problem *problem, err error) bool {
		if !problem.Passing { // An instance without a public IP is better than one that never starts.
			a.o.Memory.delayAddress()
			a.warn("AddressRefused", "ECS gave instance %s no public IP: %v", err)
		}
		return !problem.Passing
	},
}

func (m *memory) delayAddress() { m.AddressUntil = m.ChangedAt.Add(addressEvery) }

// lacksAddress returns whether the instance has no public IP, although the spec wants one and it was created so. ECS has no such IP before
// it is requested.
func (o *Observed) lacksAddress() bool {
	return ptr.Deref(o.Object.Spec.InternetMaxBandwidthOut, 0) > 0 && o.Instance.Bandwidth > 0 && len(o.Instance.PublicIPs) == 0
}

func changePower(o *Observed) *Plan {
	switch i := o.Instance; {
	case o.Object.Spec.PowerState == v1alpha1.PowerRunning && i.State == aliyun.StateStopped:
		return o.try(Plan{Step: stepStart, Reason: reasonStarting, Message: "Starting instance " + o.ID})
	case o.Object.Spec.PowerState == v1alpha1.PowerStopped && i.State == aliyun.StateRunning:
		return o.try(Plan{Step: stepStop, Reason: reasonStopping, Message: "Stopping instance " + o.ID})
	}
	return nil
}

var (
	stepStart = &step{name: "start", event: "Started", do: ofInstance(Cloud.Start)}
	stepStop  = &step{name: "stop", event: "Stopped", do: ofInstance(Cloud.Stop)}
)

// maxTrials is the number of requests after which a change that does not show is a problem.
const maxTrials = 3

// try returns p. It returns a plan to wait if the same change was requested a moment ago and does not show yet, and a problem if the
// instance is locked.
func (o *Observed) try(p Plan) *Plan {
	if locks := o.Instance.Locks; len(locks) > 0 && (p.Step == stepStart || p.Step == stepStop || p.Step == stepSetType) {
		return &Plan{Problem: &problem{Reason: reasonInstanceLocked, Stalled: true,
			Message: fmt.Sprintf("ECS has locked instance %s (%s): the console says what to do", o.ID, locks)}}
	}
	p.Wants = p.Step.name
	t := o.Memory.Trial
	if t.Step != p.Wants {
		return &p
	}
	if wait := t.Again.Sub(o.Now); wait > 0 {
		p.Step, p.Wait, p.Poll = nil, in(wait), in(wait)
		if t.Times == 1 {
			p.Poll = pollOften
		}
	}
	if t.Times >= maxTrials {
		p.Problem = &problem{Reason: reasonNoEffect, Message: fmt.Sprintf(
			"ECS accepted the request to %s instance %s %d times, and does not show the change: look at it in the console", p.Wants, o.ID, t.Times)}
	}
	return &p
}

func reportReady(o *Observed) *Plan {
	i := o.Instance
	p := Plan{Ready: true, Reason: string(i.State), Message: fmt.Sprintf("Instance %s is %s", o.ID, i.State)}
	p.Drift = drift(o.Object, i, o.region())
	if why := o.typeDrift(); why != "" {
		p.Drift = append(p.Drift, why)
	}
	if o.lacksAddress() {
		p.Drift = append(p.Drift, "there is no public IP: the instance gets one when it is stopped and started, by powerState")
	}
	return &p
}
