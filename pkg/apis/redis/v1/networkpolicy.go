// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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

const (
	maxPeers        = 32
	maxIngressRules = 16
)

// validate returns an error for a list that is too long, and for each client that selects nothing, or both by an IP and by labels. The
// API server checks the rest when the operator applies the NetworkPolicy.
func (p *NetworkPolicy) validate(path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := validatePeers(path.Child("from"), p.From)
	if len(p.Ingress) > maxIngressRules {
		errs = append(errs, field.TooMany(path.Child("ingress"), len(p.Ingress), maxIngressRules))
	}
	return errs
}

func validatePeers(path *field.Path, peers []networkingv1.NetworkPolicyPeer) field.ErrorList {
	if len(peers) > maxPeers {
		return field.ErrorList{field.TooMany(path, len(peers), maxPeers)}
	}
	var errs field.ErrorList
	for i, peer := range peers {
		if byLabels := peer.PodSelector != nil || peer.NamespaceSelector != nil; byLabels == (peer.IPBlock != nil) {
			errs = append(errs, field.Forbidden(path.Index(i), "every peer must have podSelector, namespaceSelector or both, or ipBlock alone"))
		}
	}
	return errs
}
