// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/glassback/glassback/pkg/child"
)

// plan is the decision of one sync: the desired state of each child; nil for a child that must not exist.
type plan struct {
	// invalid says why the spec is invalid; nil if the spec is valid. If it is invalid, all children stay as they are.
	invalid *child.Problem

	service    child.Desired[*corev1ac.ServiceApplyConfiguration]
	deployment child.Desired[*appsv1ac.DeploymentApplyConfiguration]
	ingress    child.Desired[*networkingv1ac.IngressApplyConfiguration]
	autoscaler child.Desired[*autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration]
	budget     child.Desired[*policyv1ac.PodDisruptionBudgetApplyConfiguration]
}

// decide returns the plan for the observed state.
func decide(o *observed) plan {
	app := o.app
	if errs := app.Validate(nil); len(errs) > 0 {
		return plan{invalid: &child.Problem{Reason: reasonInvalidSpec, Message: errs.ToAggregate().Error()}}
	}
	return plan{
		service: child.Exactly(service(app)),
		deployment: func(owned *appsv1ac.DeploymentApplyConfiguration) (*appsv1ac.DeploymentApplyConfiguration, error) {
			return deployment(app, owned, o.autoscaler.Object)
		},
		ingress:    child.Exactly(ingress(app)),
		autoscaler: child.Exactly(autoscaler(app)),
		budget:     child.Exactly(budget(app)),
	}
}
