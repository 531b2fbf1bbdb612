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

	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/loop"
)

// kind is the kind of Applications, as owner references and messages have it.
const kind = "Application"

// children are the kinds that an Application is made of.
type children struct {
	deployments *child.Kind[*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration]
	services    *child.Kind[*corev1.Service, *corev1ac.ServiceApplyConfiguration]
	ingresses   *child.Kind[*networkingv1.Ingress, *networkingv1ac.IngressApplyConfiguration]
	autoscalers *child.Kind[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration]
	budgets     *child.Kind[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration]
}

func newChildren(config Config, written *loop.Written) children {
	kube := config.Kube
	return children{
		deployments: &child.Kind[*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration]{
			Name: "Deployment", Owner: kind, Resource: "deployments.apps", Cache: config.Deployments.Informer().GetStore(), Written: written,
			Client: func(namespace string) child.Client[*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration] {
				return kube.AppsV1().Deployments(namespace)
			},
			Extract: appsv1ac.ExtractDeployment,
		},
		services: &child.Kind[*corev1.Service, *corev1ac.ServiceApplyConfiguration]{
			Name: "Service", Owner: kind, Resource: "services", Cache: config.Services.Informer().GetStore(), Written: written,
			Client: func(namespace string) child.Client[*corev1.Service, *corev1ac.ServiceApplyConfiguration] {
				return kube.CoreV1().Services(namespace)
			},
			Extract: corev1ac.ExtractService,
		},
		ingresses: &child.Kind[*networkingv1.Ingress, *networkingv1ac.IngressApplyConfiguration]{
			Name: "Ingress", Owner: kind, Resource: "ingresses.networking.k8s.io", Cache: config.Ingresses.Informer().GetStore(), Written: written,
			Client: func(namespace string) child.Client[*networkingv1.Ingress, *networkingv1ac.IngressApplyConfiguration] {
				return kube.NetworkingV1().Ingresses(namespace)
			},
			Extract: networkingv1ac.ExtractIngress,
		},
		autoscalers: &child.Kind[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration]{
			Name: "HorizontalPodAutoscaler", Owner: kind, Resource: "horizontalpodautoscalers.autoscaling", Cache: config.Autoscalers.Informer().GetStore(), Written: written,
			Client: func(namespace string) child.Client[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration] {
				return kube.AutoscalingV2().HorizontalPodAutoscalers(namespace)
			},
			Extract: autoscalingv2ac.ExtractHorizontalPodAutoscaler,
		},
		budgets: &child.Kind[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration]{
			Name: "PodDisruptionBudget", Owner: kind, Resource: "poddisruptionbudgets.policy", Cache: config.Budgets.Informer().GetStore(), Written: written,
			Client: func(namespace string) child.Client[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration] {
				return kube.PolicyV1().PodDisruptionBudgets(namespace)
			},
			Extract: policyv1ac.ExtractPodDisruptionBudget,
		},
	}
}
