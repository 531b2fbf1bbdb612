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

// invalid returns why the operator cannot work with the spec of an object, nil if it can, or if the object is being deleted.
func invalid(ecs *v1alpha1.ECSInstance) error {
	if ecs.DeletionTimestamp != nil {
		return nil
	}
	return ecs.Validate(nil).ToAggregate()
}

// statusOfInvalid returns the status of an object with an invalid spec. The operator does not touch the instance.
func statusOfInvalid(ecs *v1alpha1.ECSInstance, why error, now time.Time) v1alpha1.ECSInstanceStatus {
	status := *ecs.Status.DeepCopy()
	status.ObservedGeneration = ecs.Generation
	conditions(ecs, Plan{Problem: &problem{Reason: reasonInvalidSpec, Message: why.Error(), Stalled: true}}, now, &status)
	return status
}

// statusOf returns the status at the end of a sync.
func statusOf(p Plan, out outcome) v1alpha1.ECSInstanceStatus {
	status := plannedStatus(out.o, p.after(out))
	if out.typeRefused {
		status.RefusedInstanceType = out.o.Object.Spec.InstanceType
	}
	return status
}

// plannedStatus returns the status for an observation and a plan. a create also uses it for its writes.
func plannedStatus(o *Observed, p Plan) v1alpha1.ECSInstanceStatus {
	status := *o.Object.Status.DeepCopy()
	status.TagKeys = tagKeys(o)
	if o.createRejected() && (p.Problem == nil || !p.Problem.Passing) { // A passing problem is not worth a write for each retry.
		status.AccountID = "" // From now on, credentials of another account can be used.
	}
	switch {
	case p.Step != nil && p.Step.status != nil:
		p.Step.status(o, &status)
	case p.Gone:
		status.State, status.IP, status.PrivateIPs, status.PublicIPs = stateGone, "", nil, nil
	case status.InstanceID != "" && o.fresh() && o.Instance != nil:
		showInstance(o.Instance, &status)
	}
	if status.RefusedInstanceType != o.Object.Spec.InstanceType || status.InstanceType == o.Object.Spec.InstanceType {
		status.RefusedInstanceType = ""
	}
	if !p.KeepsConditions {
		status.ObservedGeneration = o.Object.Generation
		conditions(o.Object, p, o.Now, &status)
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
func tagKeys(o *Observed) []string {
	keys := slices.Collect(maps.Keys(o.Object.Spec.Tags))
	if !o.tagsSettled() {
		keys = append(keys, o.leftTags()...)
	}
	slices.Sort(keys)
	return keys
}

// leftTags returns the keys of the tags that left the spec.
func (o *Observed) leftTags() []string {
	return slices.DeleteFunc(slices.Clone(o.Object.Status.TagKeys), func(key string) bool {
		_, wanted := o.Object.Spec.Tags[key]
		return wanted
	})
}

// untagged reports whether tags left the spec, and the last poll shows the instance without them.
func (o *Observed) untagged() bool {
	left := o.leftTags()
	return len(left) > 0 && o.fresh() && o.Instance != nil && !slices.ContainsFunc(left, func(key string) bool {
		_, has := o.Instance.Tags[key]
		return has
	})
}

// tagsSettled reports whether the tags that left the spec can be forgotten.
func (o *Observed) tagsSettled() bool {
	since := o.Memory.UntaggedSince
	return !since.IsZero() && o.fresh() && o.PolledAt.Sub(since) >= settleAfter
}

// untilTagsSettle returns the time until tagsSettled can return true; 0 if it does now, or if the instance still has such a tag or none
// left the spec.
func (o *Observed) untilTagsSettle() time.Duration {
	since := o.Memory.UntaggedSince
	if since.IsZero() || o.tagsSettled() {
		return 0
	}
	return max(since.Add(settleAfter).Sub(o.Now), 0) + pollEvery
}

// wasReady reports whether the object is Ready by its status.
func (o *Observed) wasReady() bool {
	return meta.IsStatusConditionTrue(o.Object.Status.Conditions, glassback.ConditionReady)
}

// fine is the message of a Degraded that is False.
const fine = "Nothing is wrong"

// conditions sets the conditions of status.
func conditions(ecs *v1alpha1.ECSInstance, p Plan, now time.Time, status *v1alpha1.ECSInstanceStatus) {
	c := report.Conditions{List: &status.Conditions, Generation: ecs.Generation, Now: now}
	if p.Problem != nil {
		problemConditions(c, p.Problem)
	} else {
		progressConditions(c, p)
	}
	if p.Problem != nil && p.Problem.Stalled {
		c.Keep(v1alpha1.ConditionStalled, true, p.Problem.Reason, "Waiting for a correction: see Ready")
	} else {
		// Keep and not Set: an operator version with another text then writes nothing for a settled object.
		c.Keep(v1alpha1.ConditionStalled, false, report.ReasonAsExpected, "No correction is needed")
	}
}

// progressConditions sets Ready, Progressing and Degraded for a plan without a problem.
func progressConditions(c report.Conditions, p Plan) {
	c.Set(glassback.ConditionReady, p.Ready, p.Reason, p.Message)
	if p.Ready {
		p.Reason, p.Message = reasonSettled, "All is done"
	}
	c.Set(glassback.ConditionProgressing, !p.Ready, p.Reason, p.Message)
	if len(p.Drift) > 0 {
		c.Set(glassback.ConditionDegraded, true, reasonDrifted, strings.Join(p.Drift, "; "))
	} else {
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, fine)
	}
}

// problemConditions sets Ready, Progressing and Degraded.
func problemConditions(c report.Conditions, p *problem) {
	set := c.Keep // The text of an error of ECS differs each time, except for its code.
	if was := meta.FindStatusCondition(*c.List, glassback.ConditionReady); was != nil && !strings.Contains(was.Message, p.Code) {
		set = c.Set
	}
	set(glassback.ConditionReady, false, p.Reason, p.Message)
	set(glassback.ConditionProgressing, p.Passing, p.Reason, p.Message)
	if p.Passing {
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, fine)
	} else {
		set(glassback.ConditionDegraded, true, p.Reason, p.Message)
	}
}
