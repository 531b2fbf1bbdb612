// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// GroupName is the API group of ApiExampleA.
const GroupName = "groupa.k8s.zhuang.com"

var (
	// SchemeGroupVersion is the group and version of this package's types.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}
	// AddToScheme registers this package's types with a scheme.
	AddToScheme = glassback.AddToScheme(SchemeGroupVersion, &ApiExampleA{}, &ApiExampleAList{})
)

// Resource qualifies a resource name with this package's group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}
