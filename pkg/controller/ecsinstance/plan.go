// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/preview"
)

// Plan returns what Sync would do for one ECSInstance, and does nothing. It returns nil for an object that Sync leaves alone. It must not
// be called on a Controller that runs. With offline, it reads no Secret and does not ask ECS.
func (c *Controller) Plan(ctx context.Context, key cache.ObjectName, offline bool) (result *preview.Plan, err error) {
	ecs, err := c.fetch(key)
	if ecs == nil || err != nil {
		return nil, err
	}
	plan := &preview.Plan{}
	if errs := ecs.Validate(nil); len(errs) > 0 && ecs.DeletionTimestamp == nil {
		plan.Note = errs.ToAggregate().Error()
		return plan, c.status.Preview(ecs, statusOfInvalid(ecs, errs, c.clock.Now()), plan)
	}
	if offline {
		plan.Incomplete = "ECS was not asked"
		if p := addFinalizer(&observed{ecs: ecs}); p != nil && ecs.DeletionTimestamp == nil {
			addStep(plan, &observed{ecs: ecs}, *p)
		}
		return plan, nil
	}
	c.fleets.begin(ctx)
	defer c.forget(key)
	o, problem, err := c.observeOnce(ctx, ecs)
	if err != nil {
		return nil, err
	}
	if ready := meta.FindStatusCondition(ecs.Status.Conditions, glassback.ConditionReady); problem != nil &&
		(ready == nil || ready.Reason != problem.reason) { // The operator reports no such problem: only this process has it.
		plan.Incomplete = problem.message
		return plan, nil
	}
	p := decide(o)
	plan.Policy, plan.Step = p.policy, p.message
	if p.problem != nil {
		plan.Note = p.problem.message
	}
	plan.Waiting = !p.ready && p.problem == nil && (!p.acts() || p.step == stepFindAttempt)
	if p.ready {
		plan.Policy, plan.Step = "", ""
	}
	if p.acts() {
		addStep(plan, o, p)
		return plan, nil
	}
	return plan, c.status.Preview(ecs, statusOf(o, p, newOutcome(o, p)), plan)
}

// firstPollCheck is the interval at which observeOnce checks whether the first poll has ended. Each poll ends within a minute: see aliyun.
const firstPollCheck = 10 * time.Millisecond

// observeOnce observes an ECSInstance after the first poll of its instance. The problem says why ECS does not answer, nil if it does.
func (c *Controller) observeOnce(ctx context.Context, ecs *v1alpha1.ECSInstance) (*observed, *problem, error) {
	o, err := c.observe(ctx, ecs)
	if err != nil {
		return nil, nil, err
	}
	s := c.sessions.open(ecs)
	if s.watched == "" {
		return o, o.accessProblem(), nil
	}
	var seen *snapshot
	for seen = c.fleets.subscribe(s.access, s.watched, o.key()); seen == nil; seen = c.fleets.subscribe(s.access, s.watched, o.key()) {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(firstPollCheck):
		}
	}
	if problem := o.problemOfPoll(seen); problem != nil {
		return o, problem, nil
	}
	o, err = c.observe(ctx, ecs)
	return o, nil, err
}

// problemOfPoll returns why a poll of the instances failed; nil if it did not.
func (o *observed) problemOfPoll(s *snapshot) *problem {
	if s.err == nil {
		return nil
	}
	return problemOf(s.err, o.credentialsFrom())
}

// addStep adds the writes and the calls of a step to a plan.
func addStep(to *preview.Plan, o *observed, p plan) {
	patch := preview.Write{Verb: "patch", Kind: "ECSInstance", Name: o.ecs.Name, Fields: []preview.Field{{Path: "metadata.finalizers"}}}
	call := string(p.step) + " " + o.id
	switch p.step {
	case stepFinalize:
		patch.Fields[0].New = v1alpha1.Finalizer
		to.Writes = append(to.Writes, patch)
		return
	case stepRelease, stepVerifyGone:
		patch.Fields[0].Old = v1alpha1.Finalizer
		to.Writes = append(to.Writes, patch)
		return
	case stepFindAttempt: // It looks up instances, and changes none.
		return
	case stepCreate:
		to.Writes = append(to.Writes, preview.Write{Verb: "update", Kind: "ECSInstance", Name: o.ecs.Name,
			Fields: []preview.Field{{Path: "status.create", New: "the token of the next call"}}})
		call = fmt.Sprintf("create an instance of the type %s, unless one has the tag of this object", o.ecs.Spec.InstanceType)
	case stepTag:
		for _, key := range slices.Sorted(maps.Keys(p.tags)) {
			call += " " + key + "=" + p.tags[key]
		}
	case stepUntag:
		call += " " + strings.Join(p.keys, " ")
	case stepSetType:
		call += " " + o.ecs.Spec.InstanceType
	case stepModify:
		if p.change.Name != nil {
			call += " name=" + *p.change.Name
		}
		if groups := p.change.SecurityGroupIDs; groups != nil {
			call += " securityGroupIDs=" + strings.Join(groups, ",")
		}
	}
	to.Calls = append(to.Calls, preview.Call{To: "ECS " + o.region(), Command: call})
}
