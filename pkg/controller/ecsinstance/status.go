// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/report"
)

// Reasons of conditions that are no problem. The reason of a Ready instance is its state.
const (
	reasonAdopting = "Adopting"
	reasonCreating = "Creating"
	reasonStarting = "Starting"
	reasonStopping = "Stopping"
	reasonChanging = "Changing"
	reasonDeleting = "Deleting"
	reasonWaiting  = "Waiting"
	reasonSettled  = "Settled"
)

// stateGone is the state of an instance that is gone. ECS has no such state.
const stateGone = "Gone"

// calm holds the reasons of progress, which are not worth a warning.
var calm = []string{
	reasonAdopting, reasonCreating, reasonStarting, reasonStopping, reasonChanging, reasonDeleting, reasonWaiting,
	reasonThrottled, reasonBusy, reasonSettling,
}

// statusOfInvalid returns the status of an object whose spec has errs. The operator does not touch the instance.
func statusOfInvalid(ecs *v1alpha1.ECSInstance, errs field.ErrorList, now time.Time) v1alpha1.ECSInstanceStatus {
	status := *ecs.Status.DeepCopy()
	status.ObservedGeneration = ecs.Generation
	conditions(ecs, plan{problem: &problem{reason: reasonInvalidSpec, message: errs.ToAggregate().Error(), stalled: true}}, now, &status)
	return status
}

// statusOf returns the status at the end of a sync.
func statusOf(o *observed, p plan, out outcome) v1alpha1.ECSInstanceStatus {
	status := plannedStatus(o.after(out), p.after(out))
	if out.typeRefused {
		status.RefusedInstanceType = o.ecs.Spec.InstanceType
	}
	return status
}

// plannedStatus returns the status for an observation and a plan. create and record use it for writes during a step.
func plannedStatus(o *observed, p plan) v1alpha1.ECSInstanceStatus {
	status := *o.ecs.Status.DeepCopy()
	if o.createRejected() && (p.problem == nil || !p.problem.passing) { // A passing problem is not worth a write for each retry.
		status.AccountID = "" // From now on, credentials of another account can be used.
	}
	switch {
	case p.step == stepAdopt:
		status.InstanceID, status.AccountID, status.Adopted = o.id, o.account, o.owned()
	case p.step == stepRecreate:
		attempt := int64(1)
		if status.Create != nil {
			attempt += status.Create.Attempt
		}
		status = v1alpha1.ECSInstanceStatus{Conditions: status.Conditions, Create: &v1alpha1.Create{
			Attempt: attempt, Token: token(o.ecs, attempt), RegionID: o.ecs.Spec.RegionID,
		}}
	case p.gone:
		status.State, status.IP, status.PrivateIPs, status.PublicIPs = stateGone, "", nil, nil
	case status.InstanceID != "" && o.fresh() && o.instance != nil:
		showInstance(o.instance, &status)
	}
	if status.RefusedInstanceType != o.ecs.Spec.InstanceType || status.InstanceType == o.ecs.Spec.InstanceType {
		status.RefusedInstanceType = ""
	}
	if p.step != stepRecreate {
		status.TagKeys = tagKeys(o, &status)
	}
	if !p.keepsConditions {
		status.ObservedGeneration = o.ecs.Generation
		conditions(o.ecs, p, o.now, &status)
	}
	return status
}

// showInstance writes the instance, as the last poll returned it, into the status.
func showInstance(i *aliyun.Instance, status *v1alpha1.ECSInstanceStatus) {
	status.State, status.InstanceType, status.ZoneID = string(i.State), i.Type, i.ZoneID
	status.PrivateIPs, status.PublicIPs = addresses(i.PrivateIPs), addresses(i.PublicIPs)
	status.IP = ""
	if ips := slices.Concat(status.PublicIPs, status.PrivateIPs); len(ips) > 0 {
		status.IP = ips[0]
	}
	status.CreationTime = nil
	if !i.CreationTime.IsZero() {
		created := metav1.NewTime(i.CreationTime)
		status.CreationTime = &created
	}
}

// addresses returns ips, sorted as IP addresses.
func addresses(ips []string) []string {
	return slices.SortedFunc(slices.Values(ips), func(a, b string) int {
		x, err1 := netip.ParseAddr(a)
		y, err2 := netip.ParseAddr(b)
		if err1 != nil || err2 != nil {
			return strings.Compare(a, b)
		}
		return x.Compare(y)
	})
}

// tagKeys returns the keys of the tags that the instance has or may get, from the current spec or an earlier one. The key of a tag that
// left the spec stays until polls show the instance without the tag for settleAfter: a call of an earlier leader may still set it.
func tagKeys(o *observed, status *v1alpha1.ECSInstanceStatus) []string {
	keys := slices.Collect(maps.Keys(o.ecs.Spec.Tags))
	if !o.tagsSettled() {
		keys = append(keys, leftTags(o.ecs, status.TagKeys)...)
	}
	slices.Sort(keys)
	return keys
}

// leftTags returns those of keys that are not in the spec any more.
func leftTags(ecs *v1alpha1.ECSInstance, keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, wanted := ecs.Spec.Tags[key]
		return wanted
	})
}

// untagged reports whether tags left the spec, and the last poll shows the instance without them.
func (o *observed) untagged() bool {
	left := leftTags(o.ecs, o.ecs.Status.TagKeys)
	return len(left) > 0 && o.fresh() && o.instance != nil && !slices.ContainsFunc(left, func(key string) bool {
		_, has := o.instance.Tags[key]
		return has
	})
}

// tagsSettled reports whether the tags that left the spec can be forgotten.
func (o *observed) tagsSettled() bool {
	since := o.memory.untaggedSince
	return !since.IsZero() && o.fresh() && o.polledAt.Sub(since) >= settleAfter
}

// untilTagsSettle returns the time until tagsSettled can return true; 0 if it does now, or if the instance still has such a tag or none
// left the spec.
func (o *observed) untilTagsSettle() time.Duration {
	since := o.memory.untaggedSince
	if since.IsZero() || o.tagsSettled() {
		return 0
	}
	return max(since.Add(settleAfter).Sub(o.now), 0) + pollEvery
}

// wasReady reports whether the object is Ready by its status.
func (o *observed) wasReady() bool {
	return meta.IsStatusConditionTrue(o.ecs.Status.Conditions, glassback.ConditionReady)
}

// fine is the message of a Degraded that is False.
const fine = "Nothing is wrong"

// conditions sets the conditions of status.
func conditions(ecs *v1alpha1.ECSInstance, p plan, now time.Time, status *v1alpha1.ECSInstanceStatus) {
	c := report.Conditions{List: &status.Conditions, Generation: ecs.Generation, Now: now}
	if p.problem != nil {
		problemConditions(c, p.problem)
	} else {
		progressConditions(c, p)
	}
	if p.problem != nil && p.problem.stalled {
		c.Keep(v1alpha1.ConditionStalled, true, p.problem.reason, "Waiting for a correction: see Ready")
	} else {
		// Keep and not Set: an operator version with another text then writes nothing for a settled object.
		c.Keep(v1alpha1.ConditionStalled, false, report.ReasonAsExpected, "No correction is needed")
	}
}

// progressConditions sets Ready, Progressing and Degraded for a plan without a problem.
func progressConditions(c report.Conditions, p plan) {
	c.Set(glassback.ConditionReady, p.ready, p.reason, p.message)
	if p.ready {
		p.reason, p.message = reasonSettled, "All is done"
	}
	c.Set(glassback.ConditionProgressing, !p.ready, p.reason, p.message)
	if len(p.drift) > 0 {
		c.Set(glassback.ConditionDegraded, true, reasonDrifted, strings.Join(p.drift, "; "))
	} else {
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, fine)
	}
}

// problemConditions sets Ready, Progressing and Degraded.
func problemConditions(c report.Conditions, p *problem) {
	set := c.Keep // The text of an error of ECS differs each time, except for its code.
	if was := meta.FindStatusCondition(*c.List, glassback.ConditionReady); was != nil && !strings.Contains(was.Message, p.code) {
		set = c.Set
	}
	set(glassback.ConditionReady, false, p.reason, p.message)
	set(glassback.ConditionProgressing, p.passing, p.reason, p.message)
	if p.passing {
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, fine)
	} else {
		set(glassback.ConditionDegraded, true, p.reason, p.message)
	}
}
