// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=app.aiops.org

// Package v1 holds Application, version v1 of the API group app.aiops.org: an
// image that runs as a Deployment behind a Service and an Ingress.
//
// Markers on the types hold the rules that the schema and its CEL expressions can
// state; the API server enforces these. Default and Validate implement all rules
// in Go. The controller applies them to every object that it reads.
// So the controller does not rely on checks at admission.
package v1
