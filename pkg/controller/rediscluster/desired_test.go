// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
)

// loadCluster reads a RedisCluster of testdata as the controller has it: valid and with
// its defaults.
func loadCluster(t testing.TB, name string) *v1.RedisCluster {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rdc := &v1.RedisCluster{}
	if err := yaml.UnmarshalStrict(data, rdc); err != nil {
		t.Fatal(err)
	}
	rdc.Default()
	if errs := rdc.Validate(nil); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return rdc
}

func TestDesiredPorts(t *testing.T) {
	for addr, want := range map[string][2]int{
		"127.0.0.1:6379":  {6379, 16379},
		"127.0.0.1:1":     {1, 10001},
		"127.0.0.1:55535": {55535, 65535},
		"127.0.0.1:55536": {55536, 45536},
		"[fd00::1]:65535": {65535, 55535},
	} {
		rdc := &v1.RedisCluster{Spec: v1.RedisClusterSpec{Addr: addr}}
		if port, bus := ports(rdc); port != want[0] || bus != want[1] {
			t.Errorf("%s: ports %d and %d, want %v", addr, port, bus, want)
		}
	}
}

func TestDesiredRevision(t *testing.T) {
	before := revision(loadCluster(t, "full"))
	if !regexp.MustCompile(`^[0-9a-f]{10}$`).MatchString(before) {
		t.Errorf("revision is %q, want 10 hex digits", before)
	}
	type change = func(*v1.RedisCluster)
	for sentence, change := range map[string]change{
		"another size":             func(r *v1.RedisCluster) { r.Spec.Size = ptr.To[int32](12) },
		"larger volumes":           func(r *v1.RedisCluster) { r.Spec.Storage.Size = resource.MustParse("2Gi") },
		"another IP":               func(r *v1.RedisCluster) { r.Spec.Addr = "192.168.1.10:60000" },
		"labels and annotations":   func(r *v1.RedisCluster) { r.Labels, r.Annotations = nil, map[string]string{"a": "b"} },
		"the same in another unit": func(r *v1.RedisCluster) { setLimit(r, "memory", "262144Ki") },
		"the same in other words":  func(r *v1.RedisCluster) { r.Spec.Resources.Requests["cpu"] = resource.MustParse("100m") },
		"the key that it would be": func(r *v1.RedisCluster) { r.Spec.AuthSecretRef.Key = v1.DefaultAuthKey },
	} {
		rdc := loadCluster(t, "full")
		if change(rdc); revision(rdc) != before {
			t.Errorf("%s replaces Pods", sentence)
		}
	}
	for sentence, change := range map[string]change{
		"another image":  func(r *v1.RedisCluster) { r.Spec.Image = "redis:8" },
		"another port":   func(r *v1.RedisCluster) { r.Spec.Addr = "[fd00::1]:60001" },
		"another limit":  func(r *v1.RedisCluster) { setLimit(r, "memory", "512Mi") },
		"a device":       func(r *v1.RedisCluster) { r.Spec.Resources.Claims = []corev1.ResourceClaim{{Name: "disk"}} },
		"another value":  func(r *v1.RedisCluster) { r.Spec.Config["maxmemory"] = "97mb" },
		"another Secret": func(r *v1.RedisCluster) { r.Spec.AuthSecretRef.Name = "other" },
		"no password":    func(r *v1.RedisCluster) { r.Spec.AuthSecretRef = nil },
		"no storage":     func(r *v1.RedisCluster) { r.Spec.Storage = nil },
		"a request that is a limit": func(r *v1.RedisCluster) {
			r.Spec.Resources.Limits, r.Spec.Resources.Requests = r.Spec.Resources.Requests, r.Spec.Resources.Limits
		},
		"a label of the Pods": func(r *v1.RedisCluster) {
			r.Spec.PodTemplate = &v1.PodTemplate{Labels: map[string]string{"team": "shop"}}
		},
		"no security context": func(r *v1.RedisCluster) {
			r.Spec.PodTemplate = &v1.PodTemplate{SecurityContext: &corev1.PodSecurityContext{}}
		},
		"a value that looks like two": func(r *v1.RedisCluster) {
			r.Spec.Config["maxmemory"] = "96mb\"\nconfig \"maxmemory-policy\" \"allkeys-lru"
			delete(r.Spec.Config, "maxmemory-policy")
		},
	} {
		rdc := loadCluster(t, "full")
		if change(rdc); revision(rdc) == before {
			t.Errorf("%s replaces no Pod", sentence)
		}
	}
	for sentence, change := range map[string]change{
		"an empty podTemplate": func(r *v1.RedisCluster) { r.Spec.PodTemplate = &v1.PodTemplate{Labels: map[string]string{}} },
		"empty resources":      func(r *v1.RedisCluster) { r.Spec.Resources = &corev1.ResourceRequirements{} },
		"an empty config":      func(r *v1.RedisCluster) { r.Spec.Config = map[string]v1.ConfigValue{} },
	} {
		rdc := loadCluster(t, "sample")
		before := revision(rdc)
		if change(rdc); revision(rdc) != before {
			t.Errorf("%s is not none", sentence)
		}
	}
}

func setLimit(rdc *v1.RedisCluster, name corev1.ResourceName, quantity string) {
	rdc.Spec.Resources.Limits[name] = resource.MustParse(quantity)
}

// TestDesiredRevisionsStay fails when an upgrade of the operator would replace the Pods of
// every cluster. If that is wanted, podRevision was raised, and this changes with it.
func TestDesiredRevisionsStay(t *testing.T) {
	for name, want := range map[string]string{"sample": "9a7671aaa6", "full": "d565c0747c", "template": "6a345b1a3a"} {
		if got := revision(loadCluster(t, name)); got != want {
			t.Errorf("the revision of %s is %s, and was %s", name, got, want)
		}
	}
}

// TestDesiredLeavesTheRedisClusterAlone changes what was built: neither the RedisCluster nor what is built next has the change.
func TestDesiredLeavesTheRedisClusterAlone(t *testing.T) {
	for _, name := range []string{"sample", "full", "template"} {
		rdc := loadCluster(t, name)
		before, p, again := rdc.DeepCopy(), pod(rdc, 0), pod(rdc, 0)
		for _, values := range []map[string]string{
			p.Labels, p.Annotations, service(rdc, false).Labels, budget(rdc, 6).Labels, configuration(rdc).Labels, selector(rdc),
		} {
			values["changed"] = "yes"
		}
		for i := range p.Spec.TopologySpreadConstraints {
			p.Spec.TopologySpreadConstraints[i].LabelSelector = nil
		}
		clear(p.Spec.Containers[0].Resources.Limits)
		clear(p.Spec.Containers[0].Resources.Requests)
		if c := claim(rdc, 0); c != nil {
			*c.Spec.StorageClassName = "changed"
		}
		if !equality.Semantic.DeepEqual(rdc, before) || !equality.Semantic.DeepEqual(pod(rdc, 0), again) {
			t.Errorf("%s was written to, or a second Pod differs from the first", name)
		}
	}
}

func TestDesiredNamesAreNames(t *testing.T) {
	rdc := loadCluster(t, "full")
	rdc.Name = strings.Repeat("a", 52)
	problems := validation.IsValidLabelValue(rdc.Name)
	for _, name := range []string{podName(rdc, 999), claim(rdc, 999).Name, *configuration(rdc).Name} {
		problems = append(problems, validation.IsDNS1123Label(name)...)
	}
	if len(problems) > 0 {
		t.Error(problems)
	}
}

// TestDesiredConfig is about objects that came past validation.
func TestDesiredConfig(t *testing.T) {
	rdc := loadCluster(t, "sample")
	rdc.Spec.Config = map[string]v1.ConfigValue{
		"port": "1", "save": " ", "appendonly": "no", "appendfsync": "always", "dir": "/tmp",
		"tls-protocols": "TLSv1.2  TLSv1.3", "oom-score-adj-values": "0 200 800", "proc-title-template": `"{title}" 'a "b"'`, "hz": `"10`,
	}
	last := map[string]string{}
	for line := range strings.Lines(redisConf(rdc)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		last[key] = value
	}
	for key, want := range map[string]string{
		"port": "6379", "save": `""`, "appendonly": "yes", "appendfsync": `"always"`, "dir": "/data",
		"tls-protocols": `"TLSv1.2 TLSv1.3"`, "oom-score-adj-values": "0 200 800", "proc-title-template": `"{title} a \"b\""`, "hz": `"\"10"`,
	} {
		if last[key] != want {
			t.Errorf("the last %s is %s, want %s", key, last[key], want)
		}
	}
}

func TestDesiredLowPortsCanBeListenedOn(t *testing.T) {
	rdc := loadCluster(t, "sample")
	rdc.Spec.PodTemplate = &v1.PodTemplate{SecurityContext: &corev1.PodSecurityContext{}}
	for addr, want := range map[string]int{"127.0.0.1:1023": 1, "127.0.0.1:1024": 0} {
		rdc.Spec.Addr = addr
		if got := len(pod(rdc, 0).Spec.SecurityContext.Sysctls); got != want {
			t.Errorf("%s: %d sysctls, want %d", addr, got, want)
		}
	}
}

func TestDesiredPodTemplate(t *testing.T) {
	rdc := loadCluster(t, "template")
	plain := rdc.DeepCopy()
	plain.Spec.PodTemplate = nil
	want := pod(plain, 0)
	want.Labels["team"] = "shop"
	want.Annotations = map[string]string{"prometheus.io/scrape": "true", AnnotationRevision: revision(rdc)}
	template := rdc.Spec.PodTemplate
	spec := &want.Spec
	spec.NodeSelector, spec.Tolerations, spec.PriorityClassName = template.NodeSelector, template.Tolerations, "high"
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: selector(rdc)},
	}}
	spec.ImagePullSecrets, spec.ServiceAccountName = template.ImagePullSecrets, "redis"
	spec.SecurityContext = &corev1.PodSecurityContext{}
	spec.Affinity.NodeAffinity = template.Affinity.NodeAffinity
	spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: "TZ", Value: "Europe/Berlin"})
	spec.Containers = append(spec.Containers, template.Containers[0])
	spec.InitContainers = template.InitContainers
	spec.Volumes = append(spec.Volumes, template.Volumes[0])
	spec.Volumes[1].ConfigMap.Name = configurationName(rdc)
	if got := pod(rdc, 0); !equality.Semantic.DeepEqual(got, want) {
		t.Error(diff.Diff(want, got))
	}

	own := &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}},
	}
	template.Affinity = &corev1.Affinity{PodAntiAffinity: own}
	if got := pod(rdc, 0).Spec.Affinity; !equality.Semantic.DeepEqual(got, &corev1.Affinity{PodAntiAffinity: own}) {
		t.Errorf("podAntiAffinity does not replace that of the operator: %+v", got)
	}
}

// TestAVolumeOfTheTemplateIsNoTLS: without spec.tls, a volume of the podTemplate may have any name that the operator does not use then.
func TestAVolumeOfTheTemplateIsNoTLS(t *testing.T) {
	rdc := loadCluster(t, "full")
	rdc.Spec.TLS = nil
	rdc.Spec.PodTemplate = &v1.PodTemplate{Volumes: []corev1.Volume{{
		Name: volumeTLS, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}},
	}}}
	if p := pod(rdc, 0); hasTLS(p) {
		t.Errorf("the Pod has TLS, by the Secret %q", secretOfTLS(p))
	}
}

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
	offTLS := func(o *observed) { onTLS(o); addTLS(o.Members[4].Pod, o.Object); o.Object.Spec.TLS = nil }
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
				m.Pod = pod(o.Object, m.Ordinal)
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
	if policy, err := networkPolicy(six(), "operators"); policy != nil || err != nil {
		t.Errorf("without spec.networkPolicy: %v, error %v", policy, err)
	}
}

// policyFor is the NetworkPolicy of a cluster with spec.networkPolicy, as the API server has it.
func policyFor(t *testing.T, change alter) *networkingv1.NetworkPolicy {
	t.Helper()
	o := six()
	o.Object.Spec.NetworkPolicy = &v1.NetworkPolicy{}
	change(o)
	policy, err := networkPolicy(o, "operators")
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
		wantWrites(t, s.next(), step.write)
		wantWrites(t, s.synced())
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
	if got := namespaceOfOperator(policyFor(t, func(*observed) {})); got != "operators" {
		t.Errorf("the namespace is %q", got)
	}
	if got := namespaceOfOperator(nil); got != defaultNamespace {
		t.Errorf("the default is %q", got)
	}
}
