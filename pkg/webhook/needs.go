// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/permissions"
)

// The webhooks need NeedsHandler in the namespaces of the objects. With a CA of the operator's own, they also need NeedsInjection in the
// cluster, and with a URL NeedsRegistration.
var (
	NeedsHandler   = []permissions.Permission{{Group: redisv1.GroupName, Resource: "redisclusters", Verbs: []string{"get"}}}
	NeedsInjection = []permissions.Permission{
		{
			Group: admissionregistrationv1.GroupName, Resource: "mutatingwebhookconfigurations",
			Name: ConfigurationName, Verbs: []string{"list", "patch", "watch"},
		},
		{
			Group: admissionregistrationv1.GroupName, Resource: "validatingwebhookconfigurations",
			Name: ConfigurationName, Verbs: []string{"list", "patch", "watch"},
		},
	}
	NeedsRegistration = []permissions.Permission{
		{Group: admissionregistrationv1.GroupName, Resource: "mutatingwebhookconfigurations", Verbs: registrationVerbs},
		{Group: admissionregistrationv1.GroupName, Resource: "validatingwebhookconfigurations", Verbs: registrationVerbs},
	}
	registrationVerbs = []string{"create", "delete", "get", "list", "update", "watch"}
)
