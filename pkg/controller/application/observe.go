/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package application

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/child"
)

// observed is what one sync sees of an Application's children. The objects are the
// caches' own: nobody may change them.
type observed struct {
	deployment child.Seen[*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration]
	service    child.Seen[*corev1.Service, *corev1ac.ServiceApplyConfiguration]
	ingress    child.Seen[*networkingv1.Ingress, *networkingv1ac.IngressApplyConfiguration]
	autoscaler child.Seen[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration]
	budget     child.Seen[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration]
}

func (c *Controller) observe(app *v1.Application) (observed, error) {
	var seen observed
	var errs [5]error
	seen.deployment, errs[0] = c.deployments.Observe(app, app.Name)
	seen.service, errs[1] = c.services.Observe(app, app.Name)
	seen.ingress, errs[2] = c.ingresses.Observe(app, app.Name)
	seen.autoscaler, errs[3] = c.autoscalers.Observe(app, app.Name)
	seen.budget, errs[4] = c.budgets.Observe(app, app.Name)
	return seen, errors.Join(errs[:]...)
}
