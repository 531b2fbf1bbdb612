// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidateNetworkPolicy(t *testing.T) {
	with := func(from ...networkingv1.NetworkPolicyPeer) *RedisCluster {
		return valid(func(s *RedisClusterSpec) { s.NetworkPolicy = &NetworkPolicy{From: from} })
	}
	some, block := &metav1.LabelSelector{}, &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}
	const must = "spec.networkPolicy.from[0]: Forbidden: every peer must have podSelector, namespaceSelector or both, or ipBlock alone"
	for name, test := range map[string]verdict{
		"an empty one is valid": {with(), ""},
		"peers are valid": {with(networkingv1.NetworkPolicyPeer{PodSelector: some}, networkingv1.NetworkPolicyPeer{NamespaceSelector: some},
			networkingv1.NetworkPolicyPeer{PodSelector: some, NamespaceSelector: some}, networkingv1.NetworkPolicyPeer{IPBlock: block}), ""},
		"a peer without anything":     {with(networkingv1.NetworkPolicyPeer{}), must},
		"a peer by an IP and a label": {with(networkingv1.NetworkPolicyPeer{IPBlock: block, PodSelector: some}), must},
		"too many peers":              {with(peers(maxPeers + 1)...), "spec.networkPolicy.from: Too many: 33: must have at most 32 items"},
		"too many peers, none of which is valid": {
			with(make([]networkingv1.NetworkPolicyPeer, maxPeers+1)...), "spec.networkPolicy.from: Too many: 33: must have at most 32 items",
		},
		"too many rules": {valid(func(s *RedisClusterSpec) {
			s.NetworkPolicy = &NetworkPolicy{Ingress: make([]networkingv1.NetworkPolicyIngressRule, maxIngressRules+1)}
		}), "spec.networkPolicy.ingress: Too many: 17: must have at most 16 items"},
	} {
		t.Run(name, test.run)
	}
}

func peers(n int) []networkingv1.NetworkPolicyPeer {
	all := make([]networkingv1.NetworkPolicyPeer, n)
	for i := range all {
		all[i].PodSelector = &metav1.LabelSelector{}
	}
	return all
}
