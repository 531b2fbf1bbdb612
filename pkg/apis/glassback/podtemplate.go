// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package glassback

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// PodTemplate is what a user adds to the Pods that the operator describes. Each field means what it means in a Pod. The names that the
// operator uses itself differ from kind to kind: the rules are at the fields of this type. Names are pointers because
// applyconfiguration-gen can embed no others.
//
// +k8s:deepcopy-gen=true
type PodTemplate struct {
	// labels are additional labels of the Pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are additional annotations of the Pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`

	// nodeSelector are labels that a machine must have to run a Pod.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity limits which machines run the Pods. podAntiAffinity replaces that of the operator, if
	// it sets one.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations let the Pods run on machines with these taints.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// topologySpreadConstraints spread the Pods over zones or machines. Default of labelSelector: the
	// Pods of this object.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the PriorityClass of the Pods.
	// +optional
	PriorityClassName *string `json:"priorityClassName,omitempty"`

	// imagePullSecrets are the Secrets for pulling the images, in the same namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name != '')",message="every entry must have the name of a Secret"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// serviceAccountName is the ServiceAccount of the Pods. They get no token of it, unless
	// podTemplate asks for one, for example by a volume.
	// +optional
	ServiceAccountName *string `json:"serviceAccountName,omitempty"`

	// securityContext is the security context of a Pod. It replaces that of the operator, if it sets
	// one. With {}, a Pod has none, as OpenShift requires.
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`

	// containers are additional containers, such as an exporter of metrics.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Containers []corev1.Container `json:"containers,omitempty"`

	// initContainers are containers that start before the container of the operator.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	InitContainers []corev1.Container `json:"initContainers,omitempty"`

	// volumes are additional volumes.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Volumes []corev1.Volume `json:"volumes,omitempty"`
}

// Default sets the protocol of each port, as the schema does.
func (t *PodTemplate) Default() {
	for _, containers := range [][]corev1.Container{t.Containers, t.InitContainers} {
		for i := range containers {
			for j := range containers[i].Ports {
				if port := &containers[i].Ports[j]; port.Protocol == "" {
					port.Protocol = corev1.ProtocolTCP
				}
			}
		}
	}
}

// AddTo adds t to a Pod that the operator describes. The operator's values take precedence, but for the security context and for
// podAntiAffinity. selector has the labels that select the Pods.
//
// The operator's container stays the first one: kubectl logs and kubectl exec choose it, and the named ports of a Service are looked up
// in it first.
func (t *PodTemplate) AddTo(meta *metav1.ObjectMeta, spec *corev1.PodSpec, selector map[string]string) {
	t = t.DeepCopy()
	meta.Labels = labels.Merge(t.Labels, meta.Labels)
	meta.Annotations = labels.Merge(t.Annotations, meta.Annotations)
	spec.NodeSelector = t.NodeSelector
	spec.Tolerations = t.Tolerations
	spec.TopologySpreadConstraints = t.TopologySpreadConstraints
	for i := range spec.TopologySpreadConstraints {
		if constraint := &spec.TopologySpreadConstraints[i]; constraint.LabelSelector == nil {
			constraint.LabelSelector = &metav1.LabelSelector{MatchLabels: selector}
		}
	}
	spec.PriorityClassName = ptr.Deref(t.PriorityClassName, "")
	spec.ImagePullSecrets = t.ImagePullSecrets
	spec.ServiceAccountName = ptr.Deref(t.ServiceAccountName, "")
	if t.SecurityContext != nil {
		spec.SecurityContext = t.SecurityContext
	}
	if added := t.Affinity; added != nil {
		if spec.Affinity != nil && added.PodAntiAffinity == nil {
			added.PodAntiAffinity = spec.Affinity.PodAntiAffinity
		}
		spec.Affinity = added
	}
	spec.Containers = append(spec.Containers, t.Containers...)
	spec.InitContainers = t.InitContainers
	spec.Volumes = append(spec.Volumes, t.Volumes...)
}
