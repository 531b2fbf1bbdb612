// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import corev1 "k8s.io/api/core/v1"

// PodTemplate is what a user adds to the Pod of each node. Each field means what it means in a Pod.
type PodTemplate struct {
	// labels are additional labels of the Pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.startsWith('bytewang123-redis.wzj.kubebuilder.io/') || k in ['app', 'app.kubernetes.io/instance', 'app.kubernetes.io/managed-by', 'app.kubernetes.io/name'])",message="cannot set the labels that the operator sets: app, app.kubernetes.io/name, app.kubernetes.io/instance, app.kubernetes.io/managed-by, bytewang123-redis.wzj.kubebuilder.io/…"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are additional annotations of the Pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.startsWith('bytewang123-redis.wzj.kubebuilder.io/'))",message="cannot set the annotations that the operator sets: bytewang123-redis.wzj.kubebuilder.io/…"
	Annotations map[string]string `json:"annotations,omitempty"`

	// nodeSelector are labels that a machine must have to run a Pod.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity limits which machines run the Pods. podAntiAffinity replaces the preference of the
	// operator for different machines and zones.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations let the Pods run on machines with these taints.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// topologySpreadConstraints spread the Pods over zones or machines. Default of labelSelector: the
	// Pods of this cluster.
	// +optional
	// +listType=atomic
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the PriorityClass of the Pods.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// imagePullSecrets are the Secrets for pulling the images, in the same namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name != '')",message="every entry must have the name of a Secret"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// serviceAccountName is the ServiceAccount of the Pods. They get no token of it, unless a volume
	// of volumes has one.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// securityContext replaces the security context that the operator sets for a Pod: the user,
	// group and fsGroup 999, and seccompProfile RuntimeDefault. With {}, a Pod has none, as OpenShift
	// requires.
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`

	// containers are additional containers, such as an exporter of metrics.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(c, c.name == 'redis')",message="cannot have the name \"redis\": the operator makes that container"
	Containers []corev1.Container `json:"containers,omitempty"`

	// initContainers are containers that start before the container redis.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(c, c.name == 'redis')",message="cannot have the name \"redis\": the operator makes that container"
	InitContainers []corev1.Container `json:"initContainers,omitempty"`

	// volumes are additional volumes, for additional containers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="!self.exists(v, v.name in ['auth', 'config', 'data', 'glassback-tls', 'tmp'])",message="cannot have the name of a volume of the operator: auth, config, data, glassback-tls, tmp"
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// env are additional environment variables of the container redis.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="!self.exists(e, e.name.startsWith('GLASSBACK_') || e.name in ['POD_IP', 'PORT', 'REDISCLI_AUTH'])",message="cannot set the variables that the scripts of the operator use: POD_IP, PORT, REDISCLI_AUTH, GLASSBACK_…"
	Env []corev1.EnvVar `json:"env,omitempty"`
}
