// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/permissions"
)

// Descriptor describes this controller and its kind.
var Descriptor = &descriptor.Descriptor{
	Name:             Name,
	GroupVersionKind: kind,
	New: func(e descriptor.Environment) (descriptor.Controller, error) {
		own := descriptor.Own(e.Informers, &v1.MyCronJob{}, groupResource, e.Glassback.BatchV1().MyCronJobs)
		return New(Config{
			Kube:       e.Kube,
			Client:     e.Glassback,
			MyCronJobs: own.Batch().V1().MyCronJobs(),
			Jobs:       e.Informers.Jobs(v1.LabelMyCronJob),
			Missed:     e.Missed,
			Recorder:   e.Recorder,
			Clock:      clock.RealClock{},
			Observers:  e.Observers,
		})
	},
	Needs: append(permissions.ForOwner(groupResource),
		permissions.Permission{Group: v1.GroupName, Resource: "mycronjobs", Verbs: []string{"get"}}, // a live read before a slot runs
		permissions.Permission{Group: "batch", Resource: "jobs", Verbs: []string{"create", "delete", "get", "list", "watch"}},
	),
	Custom: descriptor.Resource[v1.MyCronJob](
		descriptor.Custom{Plural: groupResource.Resource, Short: "mcj", Webhook: descriptor.Webhook{
			Validates:     true, // refuses a schedule that never comes
			FailurePolicy: admissionregistrationv1.Ignore,
		}},
		func(c versioned.Interface, namespace string) descriptor.Client[*v1.MyCronJobList] {
			return c.BatchV1().MyCronJobs(namespace)
		},
	),
	Decisions: Decisions,
}

var groupResource = v1.Resource("mycronjobs")
