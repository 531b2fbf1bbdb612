/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// +k8s:deepcopy-gen=package
// +groupName=groupa.k8s.zhuang.com

// Package v1 holds ApiExampleA, version v1 of the API group
// groupa.k8s.zhuang.com: a greeting in a ConfigMap.
//
// The schema has all rules. Default and Validate have them too, in Go: the controller
// calls them for every object that it reads, so that it is safe even if an invalid
// object was stored.
package v1
