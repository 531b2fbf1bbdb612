// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/recording"
)

// Decisions holds decide and the types of its records, so that glassback replay can decide again.
var Decisions = recording.NewKind(kind.Kind, recordedPlan{}, restore, decide)

// recordedObserved is the form of observed in a record. decide reads the Application and, with an autoscaler, the two numbers of replicas.
type recordedObserved struct {
	Now      time.Time       `json:"now"`
	Object   *v1.Application `json:"object"`
	Children recordedStates  `json:"children"`
	// Owned says that the Deployment exists, and that its fields which the operator owns are known. OwnedReplicas is the number of replicas
	// among these fields; nil if another client owns it. Without an autoscaler, decide reads neither Owned nor OwnedReplicas.
	Owned         bool   `json:"owned,omitempty"`
	OwnedReplicas *int32 `json:"ownedReplicas,omitempty"`
	// DesiredReplicas is the number that the autoscaler asks for; nil without an autoscaler.
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`
}

type recordedStates struct {
	Deployment *child.State `json:"deployment,omitempty"`
	Service    *child.State `json:"service,omitempty"`
	Ingress    *child.State `json:"ingress,omitempty"`
	Autoscaler *child.State `json:"autoscaler,omitempty"`
	Budget     *child.State `json:"budget,omitempty"`
}

// recordedPlan is the form of a plan in a record: the desired fields of each child; nil for a child that must not exist.
type recordedPlan struct {
	Invalid    *child.Problem                                             `json:"invalid,omitempty"`
	Service    *corev1ac.ServiceApplyConfiguration                        `json:"service,omitempty"`
	Deployment *appsv1ac.DeploymentApplyConfiguration                     `json:"deployment,omitempty"`
	Ingress    *networkingv1ac.IngressApplyConfiguration                  `json:"ingress,omitempty"`
	Autoscaler *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration `json:"autoscaler,omitempty"`
	Budget     *policyv1ac.PodDisruptionBudgetApplyConfiguration          `json:"budget,omitempty"`
	// Failure says why the fields of a child cannot be computed.
	Failure string `json:"failure,omitempty"`
}

// Record implements recording.Observed.
func (o *observed) Record() any {
	r := recordedObserved{Now: o.now.UTC(), Object: o.app, Children: recordedStates{
		o.deployment.State(), o.service.State(), o.ingress.State(), o.autoscaler.State(), o.budget.State(),
	}}
	if hpa := o.autoscaler.Object; hpa != nil {
		r.DesiredReplicas = ptr.To(hpa.Status.DesiredReplicas)
	}
	if owned := o.deployment.Owned; owned != nil {
		r.Owned = true
		if owned.Spec != nil {
			r.OwnedReplicas = owned.Spec.Replicas
		}
	}
	return r
}

// Record implements recording.Plan.
func (p plan) Record(o *observed) any {
	r := recordedPlan{Invalid: p.invalid}
	resolve(&r, &r.Service, p.service, o.service.Owned)
	resolve(&r, &r.Deployment, p.deployment, o.deployment.Owned)
	resolve(&r, &r.Ingress, p.ingress, o.ingress.Owned)
	resolve(&r, &r.Autoscaler, p.autoscaler, o.autoscaler.Owned)
	resolve(&r, &r.Budget, p.budget, o.budget.Owned)
	return r
}

// resolve stores the desired fields of a child in *to, or the error in r.Failure.
func resolve[A any](r *recordedPlan, to *A, desired child.Desired[A], owned A) {
	if desired == nil {
		return
	}
	var err error
	if *to, err = desired(owned); err != nil {
		r.Failure = err.Error()
	}
}

func restore(r *recordedObserved) *observed {
	o := &observed{app: r.Object, now: r.Now}
	if r.Owned {
		o.deployment.Owned = appsv1ac.Deployment(r.Object.Name, r.Object.Namespace).WithSpec(appsv1ac.DeploymentSpec())
		o.deployment.Owned.Spec.Replicas = r.OwnedReplicas
	}
	if r.DesiredReplicas != nil {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		hpa.Status.DesiredReplicas = *r.DesiredReplicas
		o.autoscaler.Object = hpa
	}
	return o
}
