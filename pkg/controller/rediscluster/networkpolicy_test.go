// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

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
	"github.com/glassback/glassback/pkg/must"
)

func TestNetworkPolicy(t *testing.T) {
	const own = `
ingress:
- from:
  - podSelector:
      matchLabels: {app: redis, bytewang123-redis.wzj.kubebuilder.io/rediscluster: demo}
  ports: [{port: 6379, protocol: TCP}, {port: 16379, protocol: TCP}]
- from:
  - namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: operators}
    podSelector:
      matchLabels: {app.kubernetes.io/component: manager, app.kubernetes.io/name: glassback}
  ports: [{port: 6379, protocol: TCP}]
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
  ports: [{port: 6379, protocol: TCP}]
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
		got, err := yaml.Marshal(policyFor(t, func(o *observed) { o.Object.Spec.NetworkPolicy = test.spec }).Spec)
		must.Succeed(t, err)
		var want any
		must.Succeed(t, yaml.Unmarshal([]byte(test.want), &want))
		if text, _ := yaml.Marshal(want); string(got) != string(text) {
			t.Errorf("%s: the spec is\n%s\nwant\n%s", name, got, text)
		}
	}
	// With access from outside, the operator connects to the port of the bus: see reach.
	port7000 := func(o *observed) { o.Object.Spec.Addr = "127.0.0.1:7000" }
	onTLS := func(o *observed) { o.Object.Spec.TLS = &v1.TLS{Port: 6380} }
	offTLS := func(o *observed) { onTLS(o); manifest.AddTLS(o.Members[4].Pod, o.Object); o.Object.Spec.TLS = nil }
	for name, test := range map[string]struct {
		change    alter
		operators string
	}{
		"a cluster":                         {func(*observed) {}, "[6379]"},
		"with access from outside":          {opening, "[6379 16379]"},
		"while Pods get another port":       {port7000, "[6379 7000]"},
		"while Pods get TLS":                {onTLS, "[6379 6380]"},
		"without Pods":                      {func(o *observed) { port7000(o); noPod(0, 1, 2, 3, 4, 5)(o) }, "[7000]"},
		"while a Pod still has TLS":         {offTLS, "[6379 6380]"},
		"with access, and another port yet": {func(o *observed) { opening(o); port7000(o) }, "[6379 7000 16379 17000]"},
	} {
		var got []int32
		for _, port := range policyFor(t, test.change).Spec.Ingress[1].Ports {
			got = append(got, port.Port.IntVal)
		}
		if fmt.Sprint(got) != test.operators {
			t.Errorf("%s: the operator reaches the ports %v, want %s", name, got, test.operators)
		}
	}
	// The bus of other Pods has no password. If all ports of clients are the bus of another Pod, there is no rule for clients.
	for addrs, want := range map[[2]string]string{
		{"127.0.0.1:6379", "127.0.0.1:16379"}:  "[6379]",
		{"127.0.0.1:50000", "127.0.0.1:60000"}: "[]",
	} {
		rules := policyFor(t, func(o *observed) {
			o.Object.Spec.Addr, o.Object.Spec.NetworkPolicy.From = addrs[0], []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
			for _, m := range o.Members {
				m.Pod = manifest.Pod(o.Object, m.Ordinal)
			}
			o.Object.Spec.Addr = addrs[1]
		}).Spec.Ingress
		got := []int32{}
		for _, rule := range rules[2:] {
			for _, port := range rule.Ports {
				got = append(got, port.Port.IntVal)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("while Pods go from %s to %s, clients reach the ports %v, want %s", addrs[0], addrs[1], got, want)
		}
	}
	// The Pods of Jobs are no clients of from: they have no label of the nodes.
	for sentence, change := range map[string]alter{"backup": due, "restoreFrom": restoring} {
		rules := policyFor(t, change).Spec.Ingress
		if len(rules) != 3 || len(rules[2].From) != 1 || rules[2].From[0].NamespaceSelector != nil || len(rules[2].Ports) != 1 ||
			!maps.Equal(rules[2].From[0].PodSelector.MatchLabels, map[string]string{v1.LabelJob: "demo"}) {
			t.Errorf("with %s, the rules are %+v", sentence, rules)
		}
	}
	if policy, err := manifest.NetworkPolicy(six().Object, nil, "operators"); policy != nil || err != nil {
		t.Errorf("without spec.networkPolicy: %v, error %v", policy, err)
	}
}

// policyFor is the NetworkPolicy of a cluster with spec.networkPolicy, as the API server has it.
func policyFor(t *testing.T, change alter) *networkingv1.NetworkPolicy {
	t.Helper()
	o := six()
	o.Object.Spec.NetworkPolicy = &v1.NetworkPolicy{}
	change(o)
	policy, err := manifest.NetworkPolicy(o.Object, o.existingPods(), "operators")
	must.Succeed(t, err)
	text, err := yaml.Marshal(policy)
	must.Succeed(t, err)
	stored := &networkingv1.NetworkPolicy{}
	must.Succeed(t, yaml.Unmarshal(text, stored))
	return stored
}

// TestTheNetworkPolicyIsMadeAndDeleted sets the field, changes it, and takes it away.
func TestTheNetworkPolicyIsMadeAndDeleted(t *testing.T) {
	s := newStage(t, six()).settle()
	var preconditions *metav1.Preconditions
	s.kube.PrependReactor("delete", "networkpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		preconditions = action.(clienttesting.DeleteAction).GetDeleteOptions().Preconditions
		return false, nil, nil
	})
	before := manifest.Revision(s.rdc())
	for _, step := range []struct {
		policy *v1.NetworkPolicy
		write  string
	}{
		{&v1.NetworkPolicy{}, "patch networkpolicies demo"},
		{&v1.NetworkPolicy{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}, "patch networkpolicies demo"},
		{nil, "delete networkpolicies demo"},
	} {
		s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.NetworkPolicy = step.policy })
		wantWrites(t, s.next(), step.write)
		wantWrites(t, s.synced())
		policy, err := s.kube.NetworkingV1().NetworkPolicies("default").Get(t.Context(), "demo", metav1.GetOptions{})
		if exists := !apierrors.IsNotFound(err); exists != (step.policy != nil) {
			t.Errorf("the NetworkPolicy is %+v, error %v", policy, err)
		}
		if now := manifest.Revision(s.rdc()); now != before {
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
	if got := manifest.NamespaceOfOperator(policyFor(t, func(*observed) {})); got != "operators" {
		t.Errorf("the namespace is %q", got)
	}
	if got := manifest.NamespaceOfOperator(nil); got != manifest.DefaultNamespace {
		t.Errorf("the default is %q", got)
	}
}
