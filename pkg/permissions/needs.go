// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Events are the permissions to record events.
var Events = []Permission{{Resource: "events", Verbs: []string{"create", "patch"}}}

// ForObjects returns the permissions that a controller needs for the objects that it reconciles.
func ForObjects(resource schema.GroupResource) []Permission {
	return []Permission{
		{Group: resource.Group, Resource: resource.Resource, Verbs: []string{"list", "watch"}},
		{Group: resource.Group, Resource: resource.Resource, Subresource: "status", Verbs: []string{"update"}},
	}
}

// ForOwner returns ForObjects and the update of finalizers. The admission plugin
// OwnerReferencesPermissionEnforcement requires that update for an owner reference with blockOwnerDeletion.
func ForOwner(resource schema.GroupResource) []Permission {
	return append(ForObjects(resource),
		Permission{Group: resource.Group, Resource: resource.Resource, Subresource: "finalizers", Verbs: []string{"update"}})
}

// ChildVerbs are the verbs that package child needs. An apply needs patch, and also create
// if the object does not exist. OptionalVerbs add delete, for children that the spec can remove.
var (
	ChildVerbs    = []string{"create", "get", "list", "patch", "watch"}
	OptionalVerbs = []string{"create", "delete", "get", "list", "patch", "watch"}
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
