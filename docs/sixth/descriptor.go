// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/permissions"
)

// Descriptor describes this controller. It is all that the operator knows of it.
var Descriptor = &descriptor.Descriptor{
	Name:             Name,
	GroupVersionKind: kind,
	New: func(e descriptor.Environment) (descriptor.Controller, error) {
		return New(Config{
			Kube:       e.Kube,
			Services:   e.Informers.Services(""), // all: see requested
			ConfigMaps: e.Informers.ConfigMaps(LabelService),
			Recorder:   e.Recorder,
			Clock:      clock.RealClock{},
			Observers:  e.Observers,
		})
	},
	Needs: []permissions.Permission{
		{Resource: "services", Verbs: []string{"list", "watch"}},
		{Resource: "services", Subresource: "finalizers", Verbs: []string{"update"}}, // blockOwnerDeletion
		{Resource: "configmaps", Verbs: permissions.OptionalVerbs},
	},
}
