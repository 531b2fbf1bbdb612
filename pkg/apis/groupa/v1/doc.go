// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=groupa.k8s.zhuang.com

// Package v1 holds ApiExampleA, version v1 of the API group
// groupa.k8s.zhuang.com: a greeting in a ConfigMap.
//
// The schema states all rules. Default and Validate implement them again, in Go.
// The controller applies them to every object that it reads. So the controller
// does not rely on checks at admission.
package v1
