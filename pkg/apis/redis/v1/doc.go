/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// +k8s:deepcopy-gen=package
// +groupName=bytewang123-redis.wzj.kubebuilder.io
// +groupGoName=Redis

// Package v1 holds RedisCluster, version v1 of the API group
// bytewang123-redis.wzj.kubebuilder.io: Pods that form one Redis Cluster.
//
// The rules that the schema and its CEL expressions can state stand as markers
// on the types and are enforced by the API server. Default and Validate state
// all rules once more, in Go: the webhooks and the controller apply them to every
// object that they see, so that the controller is safe whatever let the object in.
package v1
