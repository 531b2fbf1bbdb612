// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// addTemplate adds spec.podTemplate to the Pod that the operator has built.
//
// The container redis stays the first one: kubectl logs and kubectl exec choose it, and the named ports of the Service are looked up in
// it first.
func addTemplate(p *corev1.Pod, rdc *v1.RedisCluster) {
	template := rdc.Spec.PodTemplate.DeepCopy()
	if template == nil {
		return
	}
	p.Labels = klabels.Merge(template.Labels, p.Labels) // The operator's values take precedence.
	p.Annotations = klabels.Merge(template.Annotations, p.Annotations)
	spec := &p.Spec
	spec.NodeSelector = template.NodeSelector
	spec.Tolerations = template.Tolerations
	spec.TopologySpreadConstraints = template.TopologySpreadConstraints
	for i := range spec.TopologySpreadConstraints {
		if constraint := &spec.TopologySpreadConstraints[i]; constraint.LabelSelector == nil {
			constraint.LabelSelector = &metav1.LabelSelector{MatchLabels: Selector(rdc)}
		}
	}
	spec.PriorityClassName = template.PriorityClassName
	spec.ImagePullSecrets = template.ImagePullSecrets
	spec.ServiceAccountName = template.ServiceAccountName
	if template.SecurityContext != nil {
		spec.SecurityContext = template.SecurityContext
	}
	if own := template.Affinity; own != nil {
		spec.Affinity.NodeAffinity, spec.Affinity.PodAffinity = own.NodeAffinity, own.PodAffinity
		if own.PodAntiAffinity != nil {
			spec.Affinity.PodAntiAffinity = own.PodAntiAffinity
		}
	}
	spec.Containers[0].Env = append(spec.Containers[0].Env, template.Env...)
	spec.Containers = append(spec.Containers, template.Containers...)
	spec.InitContainers = template.InitContainers
	spec.Volumes = append(spec.Volumes, template.Volumes...)
}

// allowLowPorts lets a user other than root listen on a port below 1024. Some container runtimes do not allow this by default.
func allowLowPorts(security *corev1.PodSecurityContext) {
	const name = "net.ipv4.ip_unprivileged_port_start"
	if !slices.ContainsFunc(security.Sysctls, func(s corev1.Sysctl) bool { return s.Name == name }) {
		security.Sysctls = append(security.Sysctls, corev1.Sysctl{Name: name, Value: "0"})
	}
}
