// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	gatewayv1ac "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"

	"github.com/glassback/glassback/pkg/child"
)

// plan is the decision of one sync, also in a record: the desired fields of each child; nil for a child that must not exist.
type plan struct {
	// Invalid says why the spec is invalid; nil if the spec is valid. If it is invalid, all children stay as they are.
	Invalid *child.Problem `json:"invalid,omitempty"`

	Service    *corev1ac.ServiceApplyConfiguration                        `json:"service,omitempty"`
	Deployment *appsv1ac.DeploymentApplyConfiguration                     `json:"deployment,omitempty"`
	Ingress    *networkingv1ac.IngressApplyConfiguration                  `json:"ingress,omitempty"`
	Route      *gatewayv1ac.HTTPRouteApplyConfiguration                   `json:"route,omitempty"`
	Autoscaler *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration `json:"autoscaler,omitempty"`
	Budget     *policyv1ac.PodDisruptionBudgetApplyConfiguration          `json:"budget,omitempty"`
}

// Record implements recording.Plan.
func (p plan) Record(*observed) any { return p }

// decide returns the plan for the observed state.
func decide(o *observed) plan {
	app := o.app
	if errs := app.Validate(nil); len(errs) > 0 {
		return plan{Invalid: &child.Problem{Reason: reasonInvalidSpec, Message: errs.ToAggregate().Error()}}
	}
	return plan{
		Service:    service(app),
		Deployment: deployment(app, o.deployment.Object, o.autoscaler.Object, o.sources.Sum),
		Ingress:    ingress(app),
		Route:      route(app),
		Autoscaler: autoscaler(app),
		Budget:     budget(app),
	}
}
