// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=batch.wzj.kubebuilder.io

// Package v1 holds MyCronJob, version v1 of the API group
// batch.wzj.kubebuilder.io: a Job every few seconds, or by a cron schedule.
//
// Markers on the types hold the rules: the schema and its CEL expressions, which the
// API server enforces. Validate has the rules that these cannot state, and repeats those
// on which the controller relies. The webhooks and the controller call it for every
// object. So the controller does not rely on checks at admission.
package v1
