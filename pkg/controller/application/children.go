// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1ac "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/loop"
)

// kind is the kind of the owner.
var kind = v1.SchemeGroupVersion.WithKind("Application")

// children holds the kinds of the children of Applications.
type children struct {
	owners      *child.Owners
	deployments *child.Kind[*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration]
	services    *child.Kind[*corev1.Service, *corev1ac.ServiceApplyConfiguration]
	ingresses   *child.Kind[*networkingv1.Ingress, *networkingv1ac.IngressApplyConfiguration]
	routes      *child.Kind[*gatewayv1.HTTPRoute, *gatewayv1ac.HTTPRouteApplyConfiguration]
	autoscalers *child.Kind[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration]
	budgets     *child.Kind[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration]
}

func newChildren(c Config, written *loop.Written) children {
	owners := child.NewOwners(kind.Kind, v1.LabelApplication, written, c.Clock)
	return children{
		owners: owners,
		deployments: child.New(owners, "Deployment", "deployments.apps", c.Deployments.Informer().GetStore(),
			c.Kube.AppsV1().Deployments, appsv1ac.ExtractDeployment),
		services: child.New(owners, "Service", "services", c.Services.Informer().GetStore(),
			c.Kube.CoreV1().Services, corev1ac.ExtractService),
		ingresses: child.New(owners, "Ingress", "ingresses.networking.k8s.io", c.Ingresses.Informer().GetStore(),
			c.Kube.NetworkingV1().Ingresses, networkingv1ac.ExtractIngress),
		routes: child.New(owners, "HTTPRoute", "httproutes.gateway.networking.k8s.io", c.Routes.Informer().GetStore(),
			c.Gateway.GatewayV1().HTTPRoutes, gatewayv1ac.ExtractHTTPRoute),
		autoscalers: child.New(owners, "HorizontalPodAutoscaler", "horizontalpodautoscalers.autoscaling", c.Autoscalers.Informer().GetStore(),
			c.Kube.AutoscalingV2().HorizontalPodAutoscalers, autoscalingv2ac.ExtractHorizontalPodAutoscaler),
		budgets: child.New(owners, "PodDisruptionBudget", "poddisruptionbudgets.policy", c.Budgets.Informer().GetStore(),
			c.Kube.PolicyV1().PodDisruptionBudgets, policyv1ac.ExtractPodDisruptionBudget),
	}
}

// adapt adapts the desired Deployment to one that the cache did not show: see child.Kind.
func (c *Controller) adapt(owner metav1.Object, desired *appsv1ac.DeploymentApplyConfiguration, live *appsv1.Deployment) {
	app := owner.(*v1.Application)
	desired.Spec.Replicas = replicas(app, live, c.autoscalers.Observe(app, app.Name).Object)
	desired.Spec.WithTemplate(template(app, c.pollSources(app, live).Sum))
}
