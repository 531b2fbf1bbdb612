// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

func TestNetworkPolicy(t *testing.T) {
	const own = `
ingress:
- from:
  - podSelector:
      matchLabels: {app: redis, bytewang123-redis.wzj.kubebuilder.io/rediscluster: demo}
  ports: [{port: redis, protocol: TCP}, {port: bus, protocol: TCP}]
- from:
  - namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: operators}
    podSelector:
      matchLabels: {app.kubernetes.io/component: manager, app.kubernetes.io/name: glassback}
  ports: [{port: redis, protocol: TCP}]
`
	const rest = `
podSelector:
  matchLabels: {app: redis, bytewang123-redis.wzj.kubebuilder.io/rediscluster: demo}
policyTypes: [Ingress]
`
	for name, test := range map[string]struct {
		spec *v1.NetworkPolicy
		want string
	}{
		// A rule without peers would be for everyone.
		"without clients": {&v1.NetworkPolicy{}, own + rest},
		"with clients": {&v1.NetworkPolicy{From: []networkingv1.NetworkPolicyPeer{
			{PodSelector: &metav1.LabelSelector{}}, {IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}},
		}}, own + `
- from:
  - podSelector: {}
  - ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}
  ports: [{port: redis, protocol: TCP}]
` + rest},
		"with rules": {&v1.NetworkPolicy{Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"metrics": "enabled"}},
			}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(9121))}, {Protocol: ptr.To(corev1.ProtocolUDP)}},
		}}}, own + `
- from:
  - namespaceSelector:
      matchLabels: {metrics: enabled}
  ports: [{port: 9121, protocol: TCP}, {protocol: UDP}]
` + rest},
	} {
		t.Run(name, func(t *testing.T) {
			rdc := six().rdc
			rdc.Spec.NetworkPolicy = test.spec
			policy, err := networkPolicy(rdc, false, "operators")
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(policy.Spec)
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := yaml.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if text, _ := yaml.Marshal(want); string(got) != string(text) {
				t.Errorf("the spec is\n%s\nwant\n%s", got, text)
			}
		})
	}
	// With access from outside, the operator connects to the port of the bus: see reach.
	for sentence, change := range map[string]alter{"no access from outside": func(*observed) {}, "access from outside": opening} {
		rdc := six()
		change(rdc)
		rdc.rdc.Spec.NetworkPolicy = &v1.NetworkPolicy{}
		policy, err := networkPolicy(rdc.rdc, false, "operators")
		if err != nil {
			t.Fatalf("with %s: %v", sentence, err)
		}
		ports := []string{portRedis}
		if rdc.rdc.Spec.External() != nil {
			ports = append(ports, portBus)
		}
		var got []string
		for _, port := range policy.Spec.Ingress[1].Ports {
			got = append(got, port.Port.StrVal)
		}
		if !slices.Equal(got, ports) {
			t.Errorf("with %s, the operator reaches the ports %q, want %q", sentence, got, ports)
		}
	}
	// The Pods of Jobs are no clients of from: they have no label of the nodes.
	for sentence, change := range map[string]alter{"backup": due, "restoreFrom": restoring} {
		rdc := six()
		change(rdc)
		rdc.rdc.Spec.NetworkPolicy = &v1.NetworkPolicy{}
		policy, err := networkPolicy(rdc.rdc, true, "operators")
		if err != nil || len(policy.Spec.Ingress) != 3 {
			t.Fatalf("with %s: %+v, error %v", sentence, policy, err)
		}
		rule := policy.Spec.Ingress[2]
		if len(rule.From) != 1 || !maps.Equal(rule.From[0].PodSelector.MatchLabels, map[string]string{v1.LabelJob: "demo"}) ||
			rule.From[0].NamespaceSelector != nil || len(rule.Ports) != 2 || rule.Ports[1].Port.StrVal != portTLS {
			t.Errorf("with %s: %+v", sentence, rule)
		}
	}
	if policy, err := networkPolicy(six().rdc, false, "operators"); policy != nil || err != nil {
		t.Errorf("without spec.networkPolicy: %v, error %v", policy, err)
	}
}

// TestTheNetworkPolicyIsMadeAndDeleted sets the field, changes it, and takes it away.
func TestTheNetworkPolicyIsMadeAndDeleted(t *testing.T) {
	s := newStage(t, six()).settle()
	var preconditions *metav1.Preconditions
	s.kube.PrependReactor("delete", "networkpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		preconditions = action.(clienttesting.DeleteAction).GetDeleteOptions().Preconditions
		return false, nil, nil
	})
	before := revision(s.rdc())
	for _, step := range []struct {
		policy *v1.NetworkPolicy
		write  string
	}{
		{&v1.NetworkPolicy{}, "patch networkpolicies demo"},
		{&v1.NetworkPolicy{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}, "patch networkpolicies demo"},
		{nil, "delete networkpolicies demo"},
	} {
		s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.NetworkPolicy = step.policy })
		writes, _, err := s.sync()
		if err != nil || !slices.Equal(writes, []string{step.write}) {
			t.Errorf("writes %q, error %v, want %q", writes, err, step.write)
		}
		s.catchUp()
		if writes, after, err := s.sync(); len(writes) > 0 || err != nil {
			t.Errorf("after that, it has writes %q, waits %s, error %v", writes, after, err)
		}
		policy, err := s.kube.NetworkingV1().NetworkPolicies("default").Get(t.Context(), "demo", metav1.GetOptions{})
		if exists := !apierrors.IsNotFound(err); exists != (step.policy != nil) {
			t.Errorf("the NetworkPolicy is %+v, error %v", policy, err)
		}
		if now := revision(s.rdc()); now != before {
			t.Errorf("the revision was %s and is %s", before, now)
		}
	}
	if preconditions == nil || preconditions.UID == nil {
		t.Errorf("it is deleted with the preconditions %+v, want its UID", preconditions)
	}
}

// TestANetworkPolicyOfAnotherStays has one of this name that the RedisCluster does not control.
func TestANetworkPolicyOfAnotherStays(t *testing.T) {
	s := newStage(t, six())
	s.add(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "theirs"}})
	s.catchUp()
	s.settle()
	s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.NetworkPolicy = &v1.NetworkPolicy{} })
	for range 3 {
		writes, _, _ := s.sync()
		if slices.ContainsFunc(writes, func(write string) bool {
			return write == "delete networkpolicies demo" || write == "patch networkpolicies demo"
		}) {
			t.Errorf("writes %q", writes)
		}
		s.catchUp()
	}
}

// TestThePlanKeepsTheNamespaceOfTheOperator has glassback plan run outside of the cluster.
func TestThePlanKeepsTheNamespaceOfTheOperator(t *testing.T) {
	rdc := six().rdc
	rdc.Spec.NetworkPolicy = &v1.NetworkPolicy{}
	policy, err := networkPolicy(rdc, false, "operators")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	stored := &networkingv1.NetworkPolicy{}
	if err := yaml.Unmarshal(text, stored); err != nil {
		t.Fatal(err)
	}
	if got := namespaceOfOperator(stored); got != "operators" {
		t.Errorf("the namespace is %q", got)
	}
	if got := namespaceOfOperator(nil); got != defaultNamespace {
		t.Errorf("the default is %q", got)
	}
}
