// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/metrics"
)

// kind is one of the five kinds.
type kind struct {
	name, short string
	list        func(ctx context.Context, client versioned.Interface, namespace string) (runtime.Object, error)
}

// kinds are all kinds.
var kinds = []kind{
	{"ApiExampleA", "aea", func(ctx context.Context, client versioned.Interface, namespace string) (runtime.Object, error) {
		return client.GroupaV1().ApiExampleAs(namespace).List(ctx, metav1.ListOptions{})
	}},
	{"Application", "app", func(ctx context.Context, client versioned.Interface, namespace string) (runtime.Object, error) {
		return client.AppV1().Applications(namespace).List(ctx, metav1.ListOptions{})
	}},
	{"MyCronJob", "mcj", func(ctx context.Context, client versioned.Interface, namespace string) (runtime.Object, error) {
		return client.BatchV1().MyCronJobs(namespace).List(ctx, metav1.ListOptions{})
	}},
	{"RedisCluster", "rdc", func(ctx context.Context, client versioned.Interface, namespace string) (runtime.Object, error) {
		return client.RedisV1().RedisClusters(namespace).List(ctx, metav1.ListOptions{})
	}},
	{"ECSInstance", "ecs", func(ctx context.Context, client versioned.Interface, namespace string) (runtime.Object, error) {
		return client.AlibabacloudV1alpha1().ECSInstances(namespace).List(ctx, metav1.ListOptions{})
	}},
}

// list returns the objects of all kinds in a namespace, or in all namespaces, in the order of the table. A kind whose
// CustomResourceDefinition does not exist has no objects.
func list(ctx context.Context, client versioned.Interface, namespace string) ([]Object, error) {
	objects := []Object{}
	for _, k := range kinds {
		found, err := k.list(ctx, client, namespace)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = meta.EachListItem(found, func(o runtime.Object) error {
				objects = append(objects, objectOf(k.name, k.short, o.(metav1.Object), metrics.ConditionsOf[k.name](o)))
				return nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("list objects of the kind %s: %w", k.name, err)
		}
	}
	slices.SortFunc(objects, compare)
	return objects, nil
}
