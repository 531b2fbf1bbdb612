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
// The rules that the schema and its CEL expressions can state stand as markers
// on the types and are enforced by the API server. Default and Validate state
// all rules once more, in Go: the webhooks and the controller apply them to every
// object that they see, so that the controller is safe whatever let the object in.
package v1alpha1
