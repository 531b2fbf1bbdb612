// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// GroupName is the API group of RedisCluster.
const GroupName = "bytewang123-redis.wzj.kubebuilder.io"

var (
	// SchemeGroupVersion is the group and version of this package's types.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}
	// AddToScheme registers this package's types with a scheme.
	AddToScheme = glassback.AddToScheme(SchemeGroupVersion, &RedisCluster{}, &RedisClusterList{})
)

// Resource qualifies a resource name with this package's group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}
