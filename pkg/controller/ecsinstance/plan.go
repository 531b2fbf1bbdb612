// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/report"
)

// Plan returns what Sync would do for one ECSInstance, and does nothing. It returns nil for an object that Sync leaves alone. It must not
// be called on a Controller that runs. With offline, it reads no Secret and does not ask ECS.
func (c *Controller) Plan(ctx context.Context, key cache.ObjectName, offline bool) (result *report.Plan, err error) {
	ecs, err := c.fetch(key)
	if ecs == nil || err != nil {
		return nil, err
	}
	plan := &report.Plan{}
	if err := invalid(ecs); err != nil {
		plan.Note = err.Error()
		return plan, c.status.Preview(ecs, statusOfInvalid(ecs, err, c.clock.Now()), plan)
	}
	if offline {
		plan.Incomplete = "ECS was not asked"
		o := &Observed{Object: ecs}
		if p := addFinalizer(o); p != nil && !o.deleting() {
			addStep(plan, o, *p)
		}
		return plan, nil
	}
	defer c.forget(key)
	o, problem, err := c.observeOnce(ctx, ecs)
	if err != nil {
		return nil, err
	}
	if ready := meta.FindStatusCondition(ecs.Status.Conditions, glassback.ConditionReady); problem != nil &&
		(ready == nil || ready.Reason != problem.Reason) { // The operator reports no such problem: only this process has it.
		plan.Incomplete = problem.Message
		return plan, nil
	}
	p := decide(o)
	plan.Policy, plan.Step = p.Policy, p.Message
	if p.Problem != nil {
		plan.Note = p.Problem.Message
	}
	plan.Waiting = !p.Ready && p.Problem == nil && (!p.acts() || p.Step == stepFindAttempt)
	if p.Ready {
		plan.Policy, plan.Step = "", ""
	}
	if p.acts() {
		addStep(plan, o, p)
		return plan, nil
	}
	return plan, c.status.Preview(ecs, statusOf(p, newOutcome(o, p)), plan)
}

// observeOnce polls the instance, and observes the ECSInstance. The problem says why ECS does not answer, nil if it does.
func (c *Controller) observeOnce(ctx context.Context, ecs *v1alpha1.ECSInstance) (*Observed, *problem, error) {
	o, err := c.observe(ctx, ecs)
	if err != nil {
		return nil, nil, err
	}
	s := c.sessionOf(ecs)
	if s.watched == "" {
		return o, o.accessProblem(), nil
	}
	if err := c.fleets.pollNow(ctx, s.access, s.watched); err != nil {
		return o, problemOf(err, o.credentialsFrom()), ctx.Err()
	}
	o, err = c.observe(ctx, ecs)
	return o, nil, err
}

// addStep adds what a step would write and call to a plan.
func addStep(to *report.Plan, o *Observed, p Plan) {
	switch {
	case p.Step.preview != nil:
		p.Step.preview(o, to)
	case p.changesInstance():
		words := append([]string{p.Step.name, o.ID}, p.Keys...)
		for _, key := range slices.Sorted(maps.Keys(p.Tags)) {
			words = append(words, key+"="+p.Tags[key])
		}
		if p.Change != nil && p.Change.Name != nil {
			words = append(words, "name="+*p.Change.Name)
		}
		if p.Change != nil && p.Change.SecurityGroupIDs != nil {
			words = append(words, "securityGroupIDs="+strings.Join(p.Change.SecurityGroupIDs, ","))
		}
		addCall(o, to, strings.Join(words, " "))
	}
}

// addCall adds a call to ECS to a plan.
func addCall(o *Observed, to *report.Plan, call string) {
	to.Calls = append(to.Calls, report.Call{To: "ECS " + o.region(), Command: call})
}

// addPatch adds a patch of the object to a plan.
func addPatch(o *Observed, to *report.Plan, field fields.Field) {
	to.Writes = append(to.Writes, report.Write{Verb: "patch", Kind: "ECSInstance", Name: o.Object.Name, Fields: []fields.Field{field}})
}
