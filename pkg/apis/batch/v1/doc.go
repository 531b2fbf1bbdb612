/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// +k8s:deepcopy-gen=package
// +groupName=batch.wzj.kubebuilder.io

// Package v1 holds MyCronJob, version v1 of the API group
// batch.wzj.kubebuilder.io: a Job every few seconds, or by a cron schedule.
//
// The rules that the schema and its CEL expressions can state stand as markers
// on the types and are enforced by the API server. Default and Validate state
// all rules once more, in Go: the controller applies them to every object that
// it reads, so that it is safe whatever let the object in.
package v1
