// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// clusterIndex has the objects of each RedisCluster, by its key. Without it, each sync would look at the objects of all RedisClusters of
// the namespace.
const clusterIndex = "redisCluster"

// addIndex adds the index to the informers whose objects a sync lists.
func addIndex(config Config) error {
	index := cache.Indexers{clusterIndex: func(obj any) ([]string, error) {
		object, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		if key, ok := labelled(object); ok {
			return []string{key.String()}, nil
		}
		return nil, nil
	}}
	for _, informer := range []cache.SharedIndexInformer{
		config.Pods.Informer(), config.Claims.Informer(), config.Services.Informer(), config.ConfigMaps.Informer(), config.Jobs.Informer(),
	} {
		if err := informer.AddIndexers(index); err != nil {
			return fmt.Errorf("index objects by RedisCluster: %w", err)
		}
	}
	return nil
}

// objectsOf returns the objects in a cache that have the label of a RedisCluster. They belong to the cache: do not change them.
func objectsOf[T any](objects cache.Indexer, rdc *v1.RedisCluster) ([]T, error) {
	found, err := objects.ByIndex(clusterIndex, cache.MetaObjectToName(rdc).String())
	if err != nil {
		return nil, fmt.Errorf("list objects of RedisCluster %s: %w", rdc.Name, err)
	}
	var typed []T
	for _, object := range found {
		if t, ok := object.(T); ok {
			typed = append(typed, t)
		}
	}
	return typed, nil
}

// labelled returns the key of the RedisCluster that an object's label names: claims have no owner.
func labelled(obj metav1.Object) (cache.ObjectName, bool) {
	name, ok := obj.GetLabels()[v1.LabelRedisCluster]
	return cache.NewObjectName(obj.GetNamespace(), name), ok
}
