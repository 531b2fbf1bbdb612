// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/recording"
)

// Decisions holds decide and the types of its records, so that glassback replay can decide again.
var Decisions = recording.NewKind(kind.Kind, plan{}, restore, decide)

// recordedObserved is the form of observed in a record. decide reads the Application and, with an autoscaler, the two numbers of replicas.
type recordedObserved struct {
	Now      time.Time       `json:"now"`
	Object   *v1.Application `json:"object"`
	Children recordedStates  `json:"children"`
	// Owned says that the Deployment exists. OwnedReplicas is its number of replicas; nil if another client owns that field. Without an
	// autoscaler, decide reads neither, and they are not recorded.
	Owned         bool    `json:"owned,omitempty"`
	OwnedReplicas *int32  `json:"ownedReplicas,omitempty"`
	Sources       sources `json:"sources,omitzero"`
	// DesiredReplicas is the number that the autoscaler asks for; nil without an autoscaler.
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`
}

type recordedStates struct {
	Deployment *child.State `json:"deployment,omitempty"`
	Service    *child.State `json:"service,omitempty"`
	Ingress    *child.State `json:"ingress,omitempty"`
	Route      *child.State `json:"route,omitempty"`
	Autoscaler *child.State `json:"autoscaler,omitempty"`
	Budget     *child.State `json:"budget,omitempty"`
}

// Record implements recording.Observed.
func (o *observed) Record() any {
	r := recordedObserved{Now: o.now.UTC(), Object: o.app, Sources: o.sources, Children: recordedStates{
		o.deployment.State(), o.service.State(), o.ingress.State(), o.route.State(), o.autoscaler.State(), o.budget.State(),
	}}
	if hpa := o.autoscaler.Object; hpa != nil {
		r.DesiredReplicas = ptr.To(hpa.Status.DesiredReplicas)
	}
	if d := o.deployment.Object; d != nil && (o.app.Spec.Autoscaling != nil || o.autoscaler.Object != nil) {
		r.Owned = true
		if ownsReplicas(d) {
			r.OwnedReplicas = d.Spec.Replicas
		}
	}
	return r
}

func restore(r *recordedObserved) *observed {
	o := &observed{app: r.Object, now: r.Now, sources: r.Sources}
	if r.Owned {
		o.deployment.Object = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: r.OwnedReplicas}}
		if r.OwnedReplicas != nil {
			o.deployment.Object.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: glassback.Name, Operation: metav1.ManagedFieldsOperationApply,
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
			}}
		}
	}
	if r.DesiredReplicas != nil {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		hpa.Status.DesiredReplicas = *r.DesiredReplicas
		o.autoscaler.Object = hpa
	}
	return o
}
