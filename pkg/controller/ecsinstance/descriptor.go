// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/permissions"
)

// Descriptor describes this controller and its kind.
var Descriptor = &descriptor.Descriptor{
	Name:             Name,
	GroupVersionKind: kind,
	New: func(e descriptor.Environment) (descriptor.Controller, error) {
		own := descriptor.Own(e.Informers, &v1alpha1.ECSInstance{}, groupResource, e.Glassback.AlibabacloudV1alpha1().ECSInstances)
		return New(Config{
			Client:       e.Glassback,
			ECSInstances: own.Alibabacloud().V1alpha1().ECSInstances(),
			Secrets:      e.Kube.CoreV1(),
			Version:      e.Version,
			Open:         func(key *aliyun.AccessKey, region string) Cloud { return e.Cloud.Open(key, region) },
			Refuse:       e.RefuseCredentials,
			Recorder:     e.Recorder,
			Clock:        clock.RealClock{},
			Observers:    e.Observers,
		})
	},
	Needs: append(permissions.ForObjects(groupResource),
		permissions.Permission{Group: v1alpha1.GroupName, Resource: "ecsinstances", Verbs: []string{"patch"}}, // finalizers
		permissions.Permission{Resource: "secrets", Verbs: []string{"get"}},                                   // access keys and user data
	),
	Custom: descriptor.Resource[v1alpha1.ECSInstance](
		descriptor.Custom{Plural: groupResource.Resource, Short: "ecs", Webhook: descriptor.Webhook{
			// Not Defaults, although Default does more than the schema: a stored default that depends
			// on another field would stay when that field changes.
			Validates:     true, // warns
			FailurePolicy: admissionregistrationv1.Ignore,
		}},
		func(c versioned.Interface, namespace string) descriptor.Client[*v1alpha1.ECSInstanceList] {
			return c.AlibabacloudV1alpha1().ECSInstances(namespace)
		},
	),
	Decisions: Decisions,
}

var (
	kind          = v1alpha1.SchemeGroupVersion.WithKind("ECSInstance")
	groupResource = v1alpha1.Resource("ecsinstances")
)
