/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// +k8s:deepcopy-gen=package
// +groupName=app.aiops.org

// Package v1 holds Application, version v1 of the API group app.aiops.org: an
// image that runs as a Deployment behind a Service and an Ingress.
//
// The markers on the types have the rules that the schema and its CEL expressions can
// express. The API server enforces them. Default and Validate have all rules, in Go: the
// controller calls them for every object that it reads, so that it is safe even if an
// invalid object was stored.
package v1
