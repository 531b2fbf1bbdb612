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
// The markers on the types have the rules that the schema and its CEL expressions can
// express. The API server enforces them. Default and Validate have all rules, in Go: the
// webhooks and the controller call them for every object, so that the controller is safe
// even if an invalid object was stored.
package v1
