// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
)

// operatorLabels select the Pods of the operator, as artifacts and the chart label them.
var operatorLabels = map[string]string{"app.kubernetes.io/name": glassback.Name, "app.kubernetes.io/component": "manager"}

// NetworkPolicy returns the NetworkPolicy while there are these Pods; nil without spec.networkPolicy. It admits the nodes of the cluster on
// all ports, and the operator, the clients and the Pods of Jobs on the ports for clients; with tls, there is one for TLS, too. With access
// from outside, the operator connects to the port of the bus, too, before a node announces it. Without spec.networkPolicy.from, there is
// no rule for clients: a rule without peers would admit everyone.
func NetworkPolicy(
	rdc *v1.RedisCluster, pods []*corev1.Pod, operatorNamespace string,
) (*networkingv1ac.NetworkPolicyApplyConfiguration, error) {
	spec := rdc.Spec.NetworkPolicy
	if spec == nil {
		return nil, nil
	}
	pods = append([]*corev1.Pod{Pod(rdc, 0)}, pods...)
	operator, all := policyPorts(pods, PortRedis, PortTLS), policyPorts(pods, PortRedis, PortTLS, PortBus)
	bus := policyPorts(pods, PortBus)
	// While Pods are replaced for another port, that may be the bus of others. It has no password.
	clients := slices.DeleteFunc(slices.Clone(operator), func(port networkingv1.NetworkPolicyPort) bool {
		return slices.ContainsFunc(bus, func(other networkingv1.NetworkPolicyPort) bool { return *other.Port == *port.Port })
	})
	if rdc.Spec.External() != nil {
		operator = all
	}
	rules := []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{{
			PodSelector: &metav1.LabelSelector{MatchLabels: Selector(rdc)},
		}}, Ports: all},
		{From: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: operatorNamespace}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: operatorLabels},
		}}, Ports: operator},
	}
	open := len(clients) > 0 // A rule without ports would be for all ports.
	if open && (rdc.Spec.Backup != nil || rdc.Spec.RestoreFrom != nil) {
		rules = append(rules, networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelJob: rdc.Name}},
		}}, Ports: clients})
	}
	if open && len(spec.From) > 0 {
		rules = append(rules, networkingv1.NetworkPolicyIngressRule{From: spec.From, Ports: clients})
	}
	for _, rule := range spec.DeepCopy().Ingress {
		for i := range rule.Ports { // The API server would set it, and the next comparison would find a difference.
			if port := &rule.Ports[i]; port.Protocol == nil {
				port.Protocol = ptr.To(corev1.ProtocolTCP)
			}
		}
		rules = append(rules, rule)
	}
	policy := networkingv1ac.NetworkPolicySpec().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(rdc))).WithPolicyTypes(networkingv1.PolicyTypeIngress)
	text, err := json.Marshal(rules)
	if err == nil {
		err = json.Unmarshal(text, &policy.Ingress)
	}
	if err != nil {
		return nil, fmt.Errorf("convert spec.networkPolicy: %w", err)
	}
	return networkingv1ac.NetworkPolicy(rdc.Name, rdc.Namespace).
		WithLabels(labels(rdc)).WithOwnerReferences(child.Reference(rdc, Kind)).WithSpec(policy), nil
}

// policyPorts returns the numbers of the ports with these names in all Pods, which differ while Pods are replaced for another port. A
// policy with the names would be shorter, but not every network knows them: OVN-Kubernetes then opens all ports, and openshift-sdn none.
func policyPorts(pods []*corev1.Pod, names ...string) []networkingv1.NetworkPolicyPort {
	numbers := sets.New[int]()
	for _, p := range pods {
		for _, name := range names {
			numbers.Insert(PortNamed(p, name))
		}
	}
	var all []networkingv1.NetworkPolicyPort
	for _, number := range sets.List(numbers.Delete(0)) {
		all = append(all, networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt(number))})
	}
	return all
}

// DefaultNamespace is where artifacts install the operator.
const DefaultNamespace = "glassback-system"

// NamespaceOfOperator returns the namespace of the operator in a NetworkPolicy, or else the default.
func NamespaceOfOperator(policy *networkingv1.NetworkPolicy) string {
	if policy == nil || len(policy.Spec.Ingress) < 2 {
		return DefaultNamespace
	}
	for _, peer := range policy.Spec.Ingress[1].From {
		if peer.NamespaceSelector != nil {
			return peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]
		}
	}
	return DefaultNamespace
}
