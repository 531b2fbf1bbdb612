// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

// kind is a custom resource, and the requests that the API server sends to the webhooks about it. The operator serves all paths for all
// kinds. It registers only the paths whose answers can differ from the schema.
type kind struct {
	schema.GroupVersionKind
	resource string
	reviewer func(schema.GroupVersionKind, versioned.Interface) reviewer

	defaults  bool // Default changes objects in a way that the schema cannot, and that is stored
	validates bool // Validate or Warnings report more than the schema
	scales    bool // Default can change the number of replicas

	// failurePolicy is what the API server does if no webhook answers: Ignore if the controller reports the same problem a moment later.
	failurePolicy admissionregistrationv1.FailurePolicyType
}

// kinds are all custom resources, in the order of their resources.
var kinds = []kind{
	{
		GroupVersionKind: groupav1.SchemeGroupVersion.WithKind("ApiExampleA"),
		resource:         "apiexampleas",
		reviewer:         plain[groupav1.ApiExampleA],
		failurePolicy:    admissionregistrationv1.Ignore,
	},
	{
		GroupVersionKind: appv1.SchemeGroupVersion.WithKind("Application"),
		resource:         "applications",
		reviewer:         plain[appv1.Application],
		validates:        true, // warns
		failurePolicy:    admissionregistrationv1.Ignore,
	},
	{
		GroupVersionKind: ecsv1alpha1.SchemeGroupVersion.WithKind("ECSInstance"),
		resource:         "ecsinstances",
		reviewer:         plain[ecsv1alpha1.ECSInstance],
		// Not defaults, although Default does more than the schema: a stored default that depends
		// on another field would stay when that field changes.
		validates:     true, // warns
		failurePolicy: admissionregistrationv1.Ignore,
	},
	{
		GroupVersionKind: mcjv1.SchemeGroupVersion.WithKind("MyCronJob"),
		resource:         "mycronjobs",
		reviewer:         plain[mcjv1.MyCronJob],
		validates:        true, // refuses a schedule that never comes
		failurePolicy:    admissionregistrationv1.Ignore,
	},
	{
		GroupVersionKind: redisv1.SchemeGroupVersion.WithKind("RedisCluster"),
		resource:         "redisclusters",
		reviewer:         redisClusters,
		defaults:         true, // raises size
		validates:        true, // refuses a missing addr
		scales:           true,
		failurePolicy:    admissionregistrationv1.Fail,
	},
}

// plain reviews a kind whose scale, if it has one, is stored unchanged.
func plain[T any, P object[T]](gvk schema.GroupVersionKind, _ versioned.Interface) reviewer {
	return typed[T, P]{gvk: gvk}
}

func redisClusters(gvk schema.GroupVersionKind, client versioned.Interface) reviewer {
	return typed[redisv1.RedisCluster, *redisv1.RedisCluster]{
		gvk: gvk,
		get: func(ctx context.Context, namespace, name string) (*redisv1.RedisCluster, error) {
			return client.RedisV1().RedisClusters(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		replicas: func(r *redisv1.RedisCluster) **int32 { return &r.Spec.Size },
	}
}
