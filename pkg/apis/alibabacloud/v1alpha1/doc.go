/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// +k8s:deepcopy-gen=package
// +groupName=alibabacloud.zhouzhengxi.com
// +groupGoName=Alibabacloud

// Package v1alpha1 holds ECSInstance, version v1alpha1 of the API group
// alibabacloud.zhouzhengxi.com: virtual machines of Alibaba Cloud.
//
// The markers on the types have the rules that the schema and its CEL expressions can
// express. The API server enforces them. Default and Validate have all rules, in Go: the
// webhooks and the controller call them for every object, so that the controller is safe
// even if an invalid object was stored.
package v1alpha1
