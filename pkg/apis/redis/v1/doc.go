// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=bytewang123-redis.wzj.kubebuilder.io
// +groupGoName=Redis

// Package v1 holds RedisCluster, version v1 of the API group
// bytewang123-redis.wzj.kubebuilder.io: Pods that form one Redis Cluster.
//
// Markers on the types hold the rules that the schema and its CEL expressions can
// state; the API server enforces these. Default and Validate implement all rules
// in Go. The webhooks and the controller apply them to every object.
// So the controller does not rely on checks at admission.
package v1
