/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// +k8s:deepcopy-gen=package
// +groupName=app.aiops.org

// Package v1 holds Application, version v1 of the API group app.aiops.org: an
// image that runs as a Deployment behind a Service and an Ingress.
//
// The rules that the schema and its CEL expressions can state stand as markers
// on the types and are enforced by the API server. Default and Validate state
// all rules once more, in Go: the controller applies them to every object that
// it reads, so that it is safe whatever let the object in.
package v1
