// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/permissions"
)

// Descriptor describes this controller and its kind.
var Descriptor = &descriptor.Descriptor{
	Name:             Name,
	GroupVersionKind: kind,
	New: func(e descriptor.Environment) (descriptor.Controller, error) {
		own := descriptor.Own(e.Informers, &v1.ApiExampleA{}, groupResource, e.Glassback.GroupaV1().ApiExampleAs)
		return New(Config{
			Kube:         e.Kube,
			Client:       e.Glassback,
			ApiExampleAs: own.Groupa().V1().ApiExampleAs(),
			ConfigMaps:   e.Informers.ConfigMaps(v1.LabelApiExampleA),
			Recorder:     e.Recorder,
			Clock:        clock.RealClock{},
			Observers:    e.Observers,
		})
	},
	Needs: append(permissions.ForOwner(groupResource),
		permissions.Permission{Resource: "configmaps", Verbs: permissions.ChildVerbs},
	),
	Custom: descriptor.Resource[v1.ApiExampleA](
		descriptor.Custom{Plural: groupResource.Resource, Short: "aea", Webhook: descriptor.Webhook{
			FailurePolicy: admissionregistrationv1.Ignore,
		}},
		func(c versioned.Interface, namespace string) descriptor.Client[*v1.ApiExampleAList] {
			return c.GroupaV1().ApiExampleAs(namespace)
		},
	),
	Decisions: Decisions,
}

var groupResource = v1.Resource("apiexampleas")
