// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/child"
)

// observed is the state that one sync decides on. The children belong to the caches: do not change them.
type observed struct {
	app        *v1.Application
	deployment child.Observed[*appsv1.Deployment]
	service    child.Observed[*corev1.Service]
	ingress    child.Observed[*networkingv1.Ingress]
	route      child.Observed[*gatewayv1.HTTPRoute]
	autoscaler child.Observed[*autoscalingv2.HorizontalPodAutoscaler]
	budget     child.Observed[*policyv1.PodDisruptionBudget]
	sources    sources
	now        time.Time
}

// observe reads the children of an Application from the caches, and what the Poller knows of the sources of restartOn.
func (c *Controller) observe(_ context.Context, app *v1.Application) (*observed, error) {
	o := &observed{
		app:        app,
		deployment: c.deployments.Observe(app, app.Name),
		service:    c.services.Observe(app, app.Name),
		ingress:    c.ingresses.Observe(app, app.Name),
		route:      c.routes.Observe(app, app.Name),
		autoscaler: c.autoscalers.Observe(app, app.Name),
		budget:     c.budgets.Observe(app, app.Name),
		now:        c.clock.Now(),
	}
	o.sources = c.pollSources(app, o.deployment.Object)
	return o, nil
}
