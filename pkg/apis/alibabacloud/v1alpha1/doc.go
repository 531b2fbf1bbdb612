// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=alibabacloud.zhouzhengxi.com
// +groupGoName=Alibabacloud

// Package v1alpha1 holds ECSInstance, version v1alpha1 of the API group
// alibabacloud.zhouzhengxi.com: virtual machines of Alibaba Cloud.
//
// Markers on the types hold the rules: the schema and its CEL expressions, which the
// API server enforces. Validate has the rules that these cannot state, and repeats those
// on which the controller relies. The webhooks and the controller call it for every
// object. So the controller does not rely on checks at admission.
package v1alpha1
