// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// PodTemplate is what a user adds to the Pod of each node.
type PodTemplate struct {
	glassback.PodTemplate `json:",inline"`

	// env are additional environment variables of the container redis.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="!self.exists(e, e.name.startsWith('GLASSBACK_') || e.name in ['POD_IP', 'PORT', 'REDISCLI_AUTH'])",message="cannot set the variables that the scripts of the operator use: POD_IP, PORT, REDISCLI_AUTH, GLASSBACK_…"
	Env []corev1.EnvVar `json:"env,omitempty"`
}
