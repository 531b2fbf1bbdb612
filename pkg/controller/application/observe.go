/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package application

import (
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

func (c *Controller) observe(app *v1.Application) observed {
	return observed{
		deployment: c.deployments.Observe(app, app.Name),
		service:    c.services.Observe(app, app.Name),
		ingress:    c.ingresses.Observe(app, app.Name),
		autoscaler: c.autoscalers.Observe(app, app.Name),
		budget:     c.budgets.Observe(app, app.Name),
	}
}
