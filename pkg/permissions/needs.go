/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package permissions

import (
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/controller/application"
	"github.com/glassback/glassback/pkg/controller/ecsinstance"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// byController holds what each controller asks the API server for, by the name of the controller.
var byController = map[string][]Permission{
	apiexamplea.Name: append(ownerPermissions(groupav1.GroupName, "apiexampleas"),
		Permission{Resource: "configmaps", Verbs: childVerbs},
	),
	application.Name: append(ownerPermissions(appv1.GroupName, "applications"),
		Permission{Group: "apps", Resource: "deployments", Verbs: childVerbs},
		Permission{Resource: "services", Verbs: optionalVerbs},
		Permission{Group: "networking.k8s.io", Resource: "ingresses", Verbs: optionalVerbs},
		Permission{Group: "autoscaling", Resource: "horizontalpodautoscalers", Verbs: optionalVerbs},
		Permission{Group: "policy", Resource: "poddisruptionbudgets", Verbs: optionalVerbs},
	),
	ecsinstance.Name: append(ownPermissions(ecsv1alpha1.GroupName, "ecsinstances"),
		Permission{Group: ecsv1alpha1.GroupName, Resource: "ecsinstances", Verbs: []string{"patch"}}, // finalizers
		Permission{Resource: "secrets", Verbs: []string{"list", "watch"}},                            // access keys and user data
	),
	mycronjob.Name: append(ownerPermissions(mcjv1.GroupName, "mycronjobs"),
		Permission{Group: mcjv1.GroupName, Resource: "mycronjobs", Verbs: []string{"get"}}, // before a slot runs
		Permission{Group: "batch", Resource: "jobs", Verbs: []string{"create", "delete", "get", "list", "watch"}},
	),
	rediscluster.Name: append(ownerPermissions(redisv1.GroupName, "redisclusters"),
		Permission{Resource: "pods", Verbs: []string{"create", "delete", "get", "list", "watch"}},
		Permission{Resource: "pods", Subresource: "eviction", Verbs: []string{"create"}}, // of those that are replaced
		Permission{Resource: "persistentvolumeclaims", Verbs: []string{"create", "delete", "list", "patch", "watch"}},
		Permission{Resource: "secrets", Verbs: []string{"get"}}, // passwords
		Permission{Resource: "services", Verbs: childVerbs},
		Permission{Resource: "configmaps", Verbs: optionalVerbs}, // of revisions that are past
		Permission{Group: "policy", Resource: "poddisruptionbudgets", Verbs: childVerbs},
	),
}

// ControllerNames returns the names of all controllers, in alphabetical order.
func ControllerNames() []string { return slices.Sorted(maps.Keys(byController)) }

// Events are what every part of the operator needs that records events.
var Events = []Permission{{Resource: "events", Verbs: []string{"create", "patch"}}}

// OfController returns what one controller needs, but for Events.
func OfController(name string) []Permission { return byController[name] }

// OfControllers returns what the named controllers need, with Events.
func OfControllers(names []string) []Permission {
	needed := slices.Clone(Events)
	for _, name := range names {
		needed = append(needed, byController[name]...)
	}
	return needed
}

// ownPermissions are what a controller needs for the resource that it is there for.
func ownPermissions(group, resource string) []Permission {
	return []Permission{
		{Group: group, Resource: resource, Verbs: []string{"list", "watch"}},
		{Group: group, Resource: resource, Subresource: "status", Verbs: []string{"update"}},
	}
}

// ownerPermissions are ownPermissions for a resource that owns others with
// blockOwnerDeletion. The admission plugin OwnerReferencesPermissionEnforcement asks for it.
func ownerPermissions(group, resource string) []Permission {
	return append(ownPermissions(group, resource),
		Permission{Group: group, Resource: resource, Subresource: "finalizers", Verbs: []string{"update"}})
}

// childVerbs are what package child needs: an apply is a patch, and also a create
// where there is nothing yet. optionalVerbs are for children that may be unwanted.
var (
	childVerbs    = []string{"create", "get", "list", "patch", "watch"}
	optionalVerbs = []string{"create", "delete", "get", "list", "patch", "watch"}
)

// What the webhooks need: Handler in the namespaces of the objects; with a CA in a Secret also CASecret in their own namespace,
// and Injection in the cluster; with a URL also Registration in the cluster.
var (
	Handler  = []Permission{{Group: redisv1.GroupName, Resource: "redisclusters", Verbs: []string{"get"}}}
	CASecret = []Permission{
		{Resource: "secrets", Verbs: []string{"create"}},
		{Resource: "secrets", Name: certificate.SecretName, Verbs: []string{"delete", "get", "list", "update", "watch"}},
	}
	Injection = []Permission{
		{
			Group: admissionregistrationv1.GroupName, Resource: "mutatingwebhookconfigurations",
			Name: webhook.ConfigurationName, Verbs: injectionVerbs,
		},
		{
			Group: admissionregistrationv1.GroupName, Resource: "validatingwebhookconfigurations",
			Name: webhook.ConfigurationName, Verbs: injectionVerbs,
		},
	}
	injectionVerbs = []string{"list", "patch", "watch"}
	Registration   = []Permission{
		{Group: admissionregistrationv1.GroupName, Resource: "mutatingwebhookconfigurations", Verbs: registrationVerbs},
		{Group: admissionregistrationv1.GroupName, Resource: "validatingwebhookconfigurations", Verbs: registrationVerbs},
	}
	registrationVerbs = []string{"create", "delete", "get", "list", "update", "watch"}
)

// Metrics are what it takes to ask the API server which callers may see the metrics, or the page.
var Metrics = []Permission{
	{Group: authenticationv1.GroupName, Resource: "tokenreviews", Verbs: []string{"create"}},
	{Group: authorizationv1.GroupName, Resource: "subjectaccessreviews", Verbs: []string{"create"}},
}

// Lease returns what leader election needs in the namespace of its Lease.
func Lease(name string) []Permission {
	return append([]Permission{
		{Group: coordinationv1.GroupName, Resource: "leases", Verbs: []string{"create"}},
		{Group: coordinationv1.GroupName, Resource: "leases", Name: name, Verbs: []string{"get", "list", "update", "watch"}},
	}, Events...)
}

// Definitions is what the start uses, if it is granted, to compare the revisions of the CustomResourceDefinitions.
var Definitions = Permission{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions", Verbs: []string{"get"}}
