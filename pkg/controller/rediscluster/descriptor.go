// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/permissions"
)

// Descriptor describes this controller and its kind.
var Descriptor = &descriptor.Descriptor{
	Name:             Name,
	GroupVersionKind: kind,
	New: func(e descriptor.Environment) (descriptor.Controller, error) {
		own := descriptor.Own(e.Informers, &v1.RedisCluster{}, groupResource, e.Glassback.RedisV1().RedisClusters)
		dial := Dial(e.Redis...)
		if e.ReadOnly {
			dial = DialReadOnly
		}
		return New(Config{
			Kube:          e.Kube,
			Client:        e.Glassback,
			RedisClusters: own.Redis().V1().RedisClusters(),
			Pods:          e.Informers.Pods(v1.LabelRedisCluster),
			Claims:        e.Informers.Claims(v1.LabelRedisCluster),
			Services:      e.Informers.Services(v1.LabelRedisCluster),
			ConfigMaps:    e.Informers.ConfigMaps(v1.LabelRedisCluster),
			Budgets:       e.Informers.Budgets(v1.LabelRedisCluster),
			Policies:      e.Informers.NetworkPolicies(v1.LabelRedisCluster),
			Jobs:          e.Informers.Jobs(v1.LabelRedisCluster),
			Dial:          dial,
			Nodes:         e.Nodes,
			Recorder:      e.Recorder,
			Clock:         clock.RealClock{},
			Observers:     e.Observers,

			OperatorNamespace: e.OperatorNamespace,
			BackupImage:       e.BackupImage,
		})
	},
	Needs: append(permissions.ForOwner(groupResource),
		permissions.Permission{Resource: "pods", Verbs: []string{"create", "delete", "get", "list", "patch", "watch"}},
		permissions.Permission{Resource: "pods", Subresource: "eviction", Verbs: []string{"create"}}, // replaces a ready Pod
		permissions.Permission{Resource: "persistentvolumeclaims", Verbs: []string{"create", "delete", "list", "patch", "watch"}},
		permissions.Permission{Resource: "secrets", Verbs: []string{"create", "get"}},    // passwords; the operator's own, with spec.users
		permissions.Permission{Resource: "services", Verbs: permissions.OptionalVerbs},   // deletes those of spec.access
		permissions.Permission{Resource: "configmaps", Verbs: permissions.OptionalVerbs}, // deletes those of old revisions
		permissions.Permission{Group: "networking.k8s.io", Resource: "networkpolicies", Verbs: permissions.OptionalVerbs},
		permissions.Permission{Group: "policy", Resource: "poddisruptionbudgets", Verbs: permissions.ChildVerbs},
		permissions.Permission{Group: "batch", Resource: "jobs", Verbs: []string{"create", "delete", "get", "list", "watch"}}, // backups
	),
	Custom: descriptor.Resource[v1.RedisCluster](
		descriptor.Custom{Plural: groupResource.Resource, Short: "rdc", Webhook: descriptor.Webhook{
			Defaults:      true, // raises size
			Validates:     true, // refuses a missing addr
			FailurePolicy: admissionregistrationv1.Fail,
			Replicas:      func(o descriptor.Object) **int32 { return &o.(*v1.RedisCluster).Spec.Size },
			Get: func(ctx context.Context, c versioned.Interface, namespace, name string) (descriptor.Object, error) {
				return c.RedisV1().RedisClusters(namespace).Get(ctx, name, metav1.GetOptions{})
			},
		}},
		func(c versioned.Interface, namespace string) descriptor.Client[*v1.RedisClusterList] {
			return c.RedisV1().RedisClusters(namespace)
		},
	),
	Decisions: Decisions,
}

var groupResource = v1.Resource("redisclusters")
