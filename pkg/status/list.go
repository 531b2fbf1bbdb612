// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

// kind is one of the five kinds.
type kind struct {
	name, short string
	list        func(context.Context, versioned.Interface, string) ([]item, error)
}

// item is an object with its conditions.
type item struct {
	metav1.Object

	conditions []metav1.Condition
}

// items returns the elements of a list as items.
func items[T any](all []T, itemOf func(*T) item) []item {
	found := make([]item, len(all))
	for i := range all {
		found[i] = itemOf(&all[i])
	}
	return found
}

// kinds are all kinds.
var kinds = []kind{
	{"ApiExampleA", "aea", func(ctx context.Context, client versioned.Interface, namespace string) ([]item, error) {
		found, err := client.GroupaV1().ApiExampleAs(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return items(found.Items, func(o *groupav1.ApiExampleA) item { return item{o, o.Status.Conditions} }), nil
	}},
	{"Application", "app", func(ctx context.Context, client versioned.Interface, namespace string) ([]item, error) {
		found, err := client.AppV1().Applications(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return items(found.Items, func(o *appv1.Application) item { return item{o, o.Status.Conditions} }), nil
	}},
	{"MyCronJob", "mcj", func(ctx context.Context, client versioned.Interface, namespace string) ([]item, error) {
		found, err := client.BatchV1().MyCronJobs(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return items(found.Items, func(o *mcjv1.MyCronJob) item { return item{o, o.Status.Conditions} }), nil
	}},
	{"RedisCluster", "rdc", func(ctx context.Context, client versioned.Interface, namespace string) ([]item, error) {
		found, err := client.RedisV1().RedisClusters(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return items(found.Items, func(o *redisv1.RedisCluster) item { return item{o, o.Status.Conditions} }), nil
	}},
	{"ECSInstance", "ecs", func(ctx context.Context, client versioned.Interface, namespace string) ([]item, error) {
		found, err := client.AlibabacloudV1alpha1().ECSInstances(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return items(found.Items, func(o *ecsv1alpha1.ECSInstance) item { return item{o, o.Status.Conditions} }), nil
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
		if err != nil {
			return nil, fmt.Errorf("list objects of the kind %s: %w", k.name, err)
		}
		for _, o := range found {
			objects = append(objects, objectOf(k.name, k.short, o, o.conditions))
		}
	}
	slices.SortFunc(objects, compare)
	return objects, nil
}
