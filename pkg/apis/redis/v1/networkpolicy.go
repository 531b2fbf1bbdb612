// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import networkingv1 "k8s.io/api/networking/v1"

// NetworkPolicy limits who can connect to the Pods. The nodes of this cluster and the operator always can.
type NetworkPolicy struct {
	// from are the clients: they can connect to the port of addr. Without any, no client can. An
	// operator that runs outside of the cluster is such a client.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) != (has(p.podSelector) || has(p.namespaceSelector)))",message="every peer must have podSelector, namespaceSelector or both, or ipBlock alone"
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`

	// ingress are additional rules, such as for the port of an exporter in podTemplate. A rule
	// without from is for everyone.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress,omitempty"`
}
