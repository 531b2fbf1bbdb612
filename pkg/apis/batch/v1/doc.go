/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// +k8s:deepcopy-gen=package
// +groupName=batch.wzj.kubebuilder.io

// Package v1 holds MyCronJob, version v1 of the API group
// batch.wzj.kubebuilder.io: a Job every few seconds, or by a cron schedule.
//
// The markers on the types have the rules that the schema and its CEL expressions can
// express. The API server enforces them. Default and Validate have all rules, in Go: the
// controller calls them for every object that it reads, so that it is safe even if an
// invalid object was stored.
package v1
