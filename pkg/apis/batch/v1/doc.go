// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=batch.wzj.kubebuilder.io

// Package v1 holds MyCronJob, version v1 of the API group
// batch.wzj.kubebuilder.io: a Job every few seconds, or by a cron schedule.
//
// Markers on the types hold the rules that the schema and its CEL expressions can
// state; the API server enforces these. Default and Validate implement all rules
// in Go. The controller applies them to every object that it reads.
// So the controller does not rely on checks at admission.
package v1
