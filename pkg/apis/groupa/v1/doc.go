// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=groupa.k8s.zhuang.com

// Package v1 holds ApiExampleA, version v1 of the API group
// groupa.k8s.zhuang.com: a greeting in a ConfigMap.
//
// The schema states all rules. Validate repeats one of them, as an example: the controller
// calls it for every object that it reads, and so does not rely on checks at admission.
package v1
