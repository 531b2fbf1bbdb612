/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
	"github.com/glassback/glassback/pkg/report"
)

// Reasons of the conditions, beside those of problems. One that is ready has its state for a
// reason.
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

// stateGone is the state of an instance that is not there any more. It is none of ECS.
const stateGone = "Gone"

// calm are the reasons that are on the way, and not worth a warning.
var calm = []string{
	reasonAdopting, reasonCreating, reasonStarting, reasonStopping, reasonChanging, reasonDeleting, reasonWaiting,
	reasonThrottled, reasonBusy, reasonSettling,
}

// statusOfInvalid is the status of an object whose spec has errs. The instance is left as it is.
func statusOfInvalid(ecs *v1alpha1.ECSInstance, errs field.ErrorList, now time.Time) v1alpha1.ECSInstanceStatus {
	status := *ecs.Status.DeepCopy()
	status.ObservedGeneration = ecs.Generation
	conditions(ecs, plan{problem: &problem{reason: reasonInvalidSpec, message: errs.ToAggregate().Error(), stalled: true}}, now, &status)
	return status
}

// statusAfter is the status after a sync that saw this, and planned next.
func statusAfter(o *observed, next plan) v1alpha1.ECSInstanceStatus {
	status := *o.ecs.Status.DeepCopy()
	if o.rejected() && (next.problem == nil || !next.problem.passing) { // One that passes is not worth a write for each retry.
		status.AccountID = "" // From now on, credentials of another account can be used.
	}
	switch {
	case next.step == stepAdopt:
		status.InstanceID, status.AccountID, status.Adopted = o.id, o.account, o.owned()
	case next.step == stepRenew:
		attempt := int64(1)
		if status.Create != nil {
			attempt += status.Create.Attempt
		}
		status = v1alpha1.ECSInstanceStatus{Conditions: status.Conditions, Create: &v1alpha1.Create{
			Attempt: attempt, Token: token(o.ecs, attempt), RegionID: o.ecs.Spec.RegionID,
		}}
	case next.gone:
		status.State, status.IP, status.PrivateIPs, status.PublicIPs = stateGone, "", nil, nil
	case status.InstanceID != "" && o.fresh() && o.sight.instance != nil:
		show(o, &status)
	}
	switch {
	case o.refused:
		status.RefusedInstanceType = o.ecs.Spec.InstanceType
	case status.RefusedInstanceType != o.ecs.Spec.InstanceType || status.InstanceType == o.ecs.Spec.InstanceType:
		status.RefusedInstanceType = ""
	}
	if next.step != stepRenew {
		status.TagKeys = tagKeys(o, &status)
	}
	if !next.silent {
		status.ObservedGeneration = o.ecs.Generation
		conditions(o.ecs, next, o.now, &status)
	}
	return status
}

// show puts down what was seen of the instance.
func show(o *observed, status *v1alpha1.ECSInstanceStatus) {
	i := o.sight.instance
	status.State, status.InstanceType, status.ZoneID = string(i.State), i.Type, i.ZoneID
	status.PrivateIPs, status.PublicIPs = addresses(i.PrivateIPs), addresses(i.PublicIPs)
	status.IP = ""
	for _, ip := range slices.Concat(status.PublicIPs, status.PrivateIPs) {
		status.IP = ip
		break
	}
	status.CreationTime = nil
	if !i.CreationTime.IsZero() {
		created := metav1.NewTime(i.CreationTime)
		status.CreationTime = &created
	}
}

// addresses are these in their own order.
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

// tagKeys are the keys of tags that the instance has, or may come to have, from the spec as it
// is or was. One that has left the spec is kept until the instance was seen without it for
// settleAfter: a call to set it may still be on its way, from an operator that led before.
func tagKeys(o *observed, status *v1alpha1.ECSInstanceStatus) []string {
	keys := slices.Collect(maps.Keys(o.ecs.Spec.Tags))
	if !o.settledTags() {
		keys = append(keys, leftTags(o.ecs, status.TagKeys)...)
	}
	slices.Sort(keys)
	return keys
}

// leftTags are those of some keys of tags that are not in the spec any more.
func leftTags(ecs *v1alpha1.ECSInstance, keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, wanted := ecs.Spec.Tags[key]
		return wanted
	})
}

// bare returns whether tags have left the spec, and the instance is seen without them.
func (o *observed) bare() bool {
	left := leftTags(o.ecs, o.ecs.Status.TagKeys)
	return len(left) > 0 && o.fresh() && o.sight.instance != nil && !slices.ContainsFunc(left, func(key string) bool {
		_, has := o.sight.instance.Tags[key]
		return has
	})
}

// settledTags returns whether what has left the spec can be forgotten.
func (o *observed) settledTags() bool {
	return !o.mine.bare.IsZero() && o.fresh() && o.sight.at.Sub(o.mine.bare) >= settleAfter
}

// untilTagsSettle is how long it takes until they have, 0 if there is nothing to wait for.
func (o *observed) untilTagsSettle() time.Duration {
	if o.mine.bare.IsZero() || o.settledTags() {
		return 0
	}
	return max(o.mine.bare.Add(settleAfter).Sub(o.now), 0) + pollEvery
}

// wasReady returns whether the object is Ready by its status.
func (o *observed) wasReady() bool {
	return meta.IsStatusConditionTrue(o.ecs.Status.Conditions, glassback.ConditionReady)
}

// conditions sets the conditions of status.
func conditions(ecs *v1alpha1.ECSInstance, next plan, now time.Time, status *v1alpha1.ECSInstanceStatus) {
	c := report.Conditions{List: &status.Conditions, Generation: ecs.Generation, Now: now}
	const fine = "Nothing is wrong"
	stalled := false
	switch p := next.problem; {
	case p != nil:
		// What ECS says is another text each time, but for its code.
		set := c.Keep
		if was := meta.FindStatusCondition(status.Conditions, glassback.ConditionReady); was != nil && !strings.Contains(was.Message, p.code) {
			set = c.Set
		}
		set(glassback.ConditionReady, false, p.reason, p.message)
		set(glassback.ConditionProgressing, p.passing, p.reason, p.message)
		if p.passing {
			c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, fine)
		} else {
			set(glassback.ConditionDegraded, true, p.reason, p.message)
		}
		if stalled = p.stalled; stalled {
			c.Keep(v1alpha1.ConditionStalled, true, p.reason, "It goes on when that is mended")
		}
	case next.ready:
		c.Set(glassback.ConditionReady, true, next.reason, next.message)
		c.Set(glassback.ConditionProgressing, false, reasonSettled, "All is done")
		if len(next.drift) > 0 {
			c.Set(glassback.ConditionDegraded, true, reasonDrifted, strings.Join(next.drift, "; "))
		} else {
			c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, fine)
		}
	default:
		c.Set(glassback.ConditionReady, false, next.reason, next.message)
		c.Set(glassback.ConditionProgressing, true, next.reason, next.message)
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, fine)
	}
	if !stalled {
		c.Set(v1alpha1.ConditionStalled, false, report.ReasonAsExpected, "It goes on by itself")
	}
}
