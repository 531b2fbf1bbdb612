// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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

// byController holds the permissions that each controller needs, except Events. The key is the name of the controller.
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
		Permission{Resource: "secrets", Verbs: []string{"get"}},                                      // access keys and user data
	),
	mycronjob.Name: append(ownerPermissions(mcjv1.GroupName, "mycronjobs"),
		Permission{Group: mcjv1.GroupName, Resource: "mycronjobs", Verbs: []string{"get"}}, // a live read before a slot runs
		Permission{Group: "batch", Resource: "jobs", Verbs: []string{"create", "delete", "get", "list", "watch"}},
	),
	rediscluster.Name: append(ownerPermissions(redisv1.GroupName, "redisclusters"),
		Permission{Resource: "pods", Verbs: []string{"create", "delete", "get", "list", "patch", "watch"}},
		Permission{Resource: "pods", Subresource: "eviction", Verbs: []string{"create"}}, // replaces a ready Pod
		Permission{Resource: "persistentvolumeclaims", Verbs: []string{"create", "delete", "list", "patch", "watch"}},
		Permission{Resource: "secrets", Verbs: []string{"create", "get"}}, // passwords; the operator's own, with spec.users
		Permission{Resource: "services", Verbs: optionalVerbs},            // deletes those of spec.access
		Permission{Resource: "configmaps", Verbs: optionalVerbs},          // deletes those of old revisions
		Permission{Group: "networking.k8s.io", Resource: "networkpolicies", Verbs: optionalVerbs},
		Permission{Group: "policy", Resource: "poddisruptionbudgets", Verbs: childVerbs},
		Permission{Group: "batch", Resource: "jobs", Verbs: []string{"create", "delete", "get", "list", "watch"}}, // backups
	),
}

// ControllerNames returns the names of all controllers, in alphabetical order.
func ControllerNames() []string { return slices.Sorted(maps.Keys(byController)) }

// Events are the permissions to record events.
var Events = []Permission{{Resource: "events", Verbs: []string{"create", "patch"}}}

// OfController returns the permissions that one controller needs, except Events.
func OfController(name string) []Permission { return byController[name] }

// OfControllers returns the permissions that the named controllers need, with Events.
func OfControllers(names []string) []Permission {
	needed := slices.Clone(Events)
	for _, name := range names {
		needed = append(needed, byController[name]...)
	}
	return needed
}

// ownPermissions returns the permissions that a controller needs for its own resource.
func ownPermissions(group, resource string) []Permission {
	return []Permission{
		{Group: group, Resource: resource, Verbs: []string{"list", "watch"}},
		{Group: group, Resource: resource, Subresource: "status", Verbs: []string{"update"}},
	}
}

// ownerPermissions returns ownPermissions and the update of finalizers. The admission plugin
// OwnerReferencesPermissionEnforcement requires that update for an owner reference with blockOwnerDeletion.
func ownerPermissions(group, resource string) []Permission {
	return append(ownPermissions(group, resource),
		Permission{Group: group, Resource: resource, Subresource: "finalizers", Verbs: []string{"update"}})
}

// childVerbs are the verbs that package child needs. An apply needs patch, and also create
// if the object does not exist. optionalVerbs add delete, for children that the spec can remove.
var (
	childVerbs    = []string{"create", "get", "list", "patch", "watch"}
	optionalVerbs = []string{"create", "delete", "get", "list", "patch", "watch"}
)

// The webhooks need Handler in the namespaces of the objects. With a CA of the operator's own, they also need Injection in the cluster.
// With a URL, they also need Registration in the cluster. To keep a CA, for its webhooks or its metrics, the operator needs CASecret in
// its own namespace, and to publish it CAConfigMap: without that, only clients of the metrics miss it.
var (
	Handler  = []Permission{{Group: redisv1.GroupName, Resource: "redisclusters", Verbs: []string{"get"}}}
	CASecret = []Permission{
		{Resource: "secrets", Verbs: []string{"create"}},
		{Resource: "secrets", Name: certificate.SecretName, Verbs: []string{"delete", "get", "list", "update", "watch"}},
	}
	CAConfigMap = []Permission{
		{Resource: "configmaps", Verbs: []string{"create"}},
		{Resource: "configmaps", Name: certificate.ConfigMapName, Verbs: []string{"delete", "list", "update", "watch"}},
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

// Metrics are the permissions to ask the API server whether a caller may read the metrics, or the page.
var Metrics = []Permission{
	{Group: authenticationv1.GroupName, Resource: "tokenreviews", Verbs: []string{"create"}},
	{Group: authorizationv1.GroupName, Resource: "subjectaccessreviews", Verbs: []string{"create"}},
}

// Lease returns the permissions that leader election needs in the namespace of its Lease.
func Lease(name string) []Permission {
	return append([]Permission{
		{Group: coordinationv1.GroupName, Resource: "leases", Verbs: []string{"create"}},
		{Group: coordinationv1.GroupName, Resource: "leases", Name: name, Verbs: []string{"get", "list", "update", "watch"}},
	}, Events...)
}

// Definitions is optional, unless --install-crds is set. With it, the operator compares the revisions of the
// CustomResourceDefinitions when it starts. Without it, the operator only checks that the API server serves them.
var Definitions = Permission{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions", Verbs: []string{"get"}}
