// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/clock"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/permissions"
)

// Descriptor describes this controller and its kind.
var Descriptor = &descriptor.Descriptor{
	Name:             Name,
	GroupVersionKind: kind,
	New: func(e descriptor.Environment) (descriptor.Controller, error) {
		own := descriptor.Own(e.Informers, &v1.Application{}, groupResource, e.Glassback.AppV1().Applications)
		return New(Config{
			Kube:         e.Kube,
			Client:       e.Glassback,
			Applications: own.App().V1().Applications(),
			Deployments:  e.Informers.Deployments(v1.LabelApplication),
			Services:     e.Informers.Services(v1.LabelApplication),
			Ingresses:    e.Informers.Ingresses(v1.LabelApplication),
			Gateway:      e.Gateway,
			Routes:       e.Informers.Routes(v1.LabelApplication),
			Autoscalers:  e.Informers.Autoscalers(v1.LabelApplication),
			Budgets:      e.Informers.Budgets(v1.LabelApplication),
			Recorder:     e.Recorder,
			Version:      e.Version,
			Clock:        clock.RealClock{},
			Observers:    e.Observers,
		})
	},
	Needs: append(permissions.ForOwner(groupResource),
		permissions.Permission{Group: "apps", Resource: "deployments", Verbs: permissions.ChildVerbs},
		permissions.Permission{Resource: "configmaps", Verbs: []string{"get"}}, // restartOn
		permissions.Permission{Resource: "secrets", Verbs: []string{"get"}},    // restartOn
		permissions.Permission{Resource: "services", Verbs: permissions.OptionalVerbs},
		permissions.Permission{Group: "networking.k8s.io", Resource: "ingresses", Verbs: permissions.OptionalVerbs},
		permissions.Permission{Group: gatewayv1.GroupName, Resource: "httproutes", Verbs: permissions.OptionalVerbs},
		permissions.Permission{Group: "autoscaling", Resource: "horizontalpodautoscalers", Verbs: permissions.OptionalVerbs},
		permissions.Permission{Group: "policy", Resource: "poddisruptionbudgets", Verbs: permissions.OptionalVerbs},
	),
	Custom: descriptor.Resource[v1.Application](
		descriptor.Custom{Plural: groupResource.Resource, Short: "app", Webhook: descriptor.Webhook{
			Validates:     true, // warns
			FailurePolicy: admissionregistrationv1.Ignore,
		}},
		func(c versioned.Interface, namespace string) descriptor.Client[*v1.ApplicationList] {
			return c.AppV1().Applications(namespace)
		},
	),
	Decisions: Decisions,
}

var groupResource = v1.Resource("applications")
