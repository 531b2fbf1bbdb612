// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/loop"
)

// outcome is the result of act.
type outcome struct {
	wrote    bool
	gone     []string // the kinds of which the Application has no child
	problems []child.Problem
	wait     time.Duration // until the next attempt; 0 for none
}

// act writes the children that differ from their desired state. An error at one child does not stop the others.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (outcome, error) {
	return carryOut(c.changes(o, p), func(change child.Change) (child.Outcome, error) { return change.Do(ctx) })
}

// changes returns the change of each child; none if the spec is invalid.
func (c *Controller) changes(o *observed, p plan) []child.Change {
	if p.invalid != nil {
		return nil
	}
	app := o.app
	listed := func(kind string) bool {
		return slices.ContainsFunc(app.Status.Resources, func(r v1.ResourceReference) bool { return r.Kind == kind })
	}
	return []child.Change{
		c.services.Reconcile(app, app.Name, o.service, listed("Service"), p.service),
		c.deployments.Reconcile(app, app.Name, o.deployment, listed("Deployment"), p.deployment),
		c.ingresses.Reconcile(app, app.Name, o.ingress, listed("Ingress"), p.ingress),
		c.autoscalers.Reconcile(app, app.Name, o.autoscaler, listed("HorizontalPodAutoscaler"), p.autoscaler),
		c.budgets.Reconcile(app, app.Name, o.budget, listed("PodDisruptionBudget"), p.budget),
	}
}

// carryOut calls do with each change, and returns the outcome of all.
func carryOut(changes []child.Change, do func(child.Change) (child.Outcome, error)) (outcome, error) {
	var out outcome
	var errs []error
	for _, change := range changes {
		done, err := do(change)
		out.wrote = out.wrote || done.Wrote
		out.wait = loop.Soonest(out.wait, done.Wait)
		if done.Gone {
			out.gone = append(out.gone, change.Kind)
		}
		if done.Problem != nil {
			out.problems = append(out.problems, *done.Problem)
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}
