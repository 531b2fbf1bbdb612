// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/child"
)

// act writes the children that differ from their desired state. An error at one child does not stop the others.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (child.Outcomes, error) {
	changes := c.changes(o, p)
	if err := c.confirm(ctx, o, changes); err != nil {
		return child.Outcomes{}, err
	}
	return child.DoAll(ctx, changes)
}

// confirm returns a conflict if the cache is behind. It reads the live Application before this process first writes a child of it: while
// this process was on standby, its watch of Applications may have failed, and not those of the children. It would then undo changes of the
// leader before it. Once an Application has been read, or its status was written, which needs the live version, the cache shows no older
// one. A new Application is not read.
func (c *Controller) confirm(ctx context.Context, o *observed, changes []child.Change) error {
	app, key := o.app, cache.MetaObjectToName(o.app)
	isNew := app.Status.ObservedGeneration == 0 && o.deployment.Object == nil
	writes := slices.ContainsFunc(changes, func(change child.Change) bool { return change.Verb != child.Nothing })
	if uid, _ := c.confirmed.Load(key); isNew || !writes || uid == app.UID {
		return nil
	}
	// A list of one name needs no other permission than the informer.
	live, err := c.client.AppV1().Applications(app.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, app.Name).String(),
	})
	if err != nil {
		return fmt.Errorf("read Application %s before its children change: %w", key, err)
	}
	if !slices.ContainsFunc(live.Items, func(a v1.Application) bool {
		return a.Name == app.Name && a.UID == app.UID && a.ResourceVersion == app.ResourceVersion
	}) {
		return apierrors.NewConflict(v1.Resource("applications"), app.Name, errors.New("the cache is behind"))
	}
	c.confirmed.Store(key, app.UID)
	return nil
}

// changes returns the change of each child; nil if the spec is invalid.
func (c *Controller) changes(o *observed, p plan) []child.Change {
	if p.Invalid != nil {
		return nil
	}
	app := o.app
	listed := func(kind string) bool {
		return slices.ContainsFunc(app.Status.Resources, func(r v1.ResourceReference) bool { return r.Kind == kind })
	}
	return []child.Change{
		c.services.Reconcile(app, app.Name, o.service, listed("Service"), p.Service),
		c.deployments.Reconcile(app, app.Name, o.deployment, listed("Deployment"), p.Deployment),
		c.ingresses.Reconcile(app, app.Name, o.ingress, listed("Ingress"), p.Ingress),
		c.routes.Reconcile(app, app.Name, o.route, listed("HTTPRoute"), p.Route),
		c.autoscalers.Reconcile(app, app.Name, o.autoscaler, listed("HorizontalPodAutoscaler"), p.Autoscaler),
		c.budgets.Reconcile(app, app.Name, o.budget, listed("PodDisruptionBudget"), p.Budget),
	}
}
