// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// valid returns a RedisCluster that is valid, after mutate has been at its spec. The rules of Validate are also in the schema: they are
// tested in artifacts/crd.
func valid(mutate func(s *RedisClusterSpec)) *RedisCluster {
	r := &RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "sample"}}
	r.Spec.Addr = "192.168.1.10:6379"
	r.Default()
	mutate(&r.Spec)
	return r
}

func TestDefault(t *testing.T) {
	defaults := RedisClusterSpec{Size: ptr.To[int32](6), ReplicasPerMaster: ptr.To[int32](1), Image: "redis:7"}
	set := RedisClusterSpec{
		Addr:              "192.168.1.10:6379",
		Size:              ptr.To[int32](9),
		ReplicasPerMaster: ptr.To[int32](2),
		Image:             "redis:7.4",
		Storage:           &Storage{Size: resource.MustParse("1Gi"), StorageClassName: ptr.To("standard")},
		Config:            map[string]ConfigValue{"maxmemory": "100mb"},
		AuthSecretRef:     &SecretKeyReference{Name: "redis-password", Key: "default"},
	}
	with := func(mutate func(s *RedisClusterSpec)) RedisClusterSpec {
		s := *defaults.DeepCopy()
		mutate(&s)
		return s
	}
	auth := func(key string) RedisClusterSpec {
		return with(func(s *RedisClusterSpec) { s.AuthSecretRef = &SecretKeyReference{Name: "redis-password", Key: key} })
	}
	storage := with(func(s *RedisClusterSpec) { s.Storage = &Storage{Size: resource.MustParse("1Gi")} })
	for name, test := range map[string]struct{ spec, want RedisClusterSpec }{
		"an empty spec gets what the schema defaults, and no addr": {RedisClusterSpec{}, defaults},
		"what is set stays":                                  {set, set},
		"a key of the Secret is password":                    {auth(""), auth("password")},
		"storage gets no class: it is the cluster's default": {storage, storage},
		"a size that is too large stays, for Validate to refuse": {
			RedisClusterSpec{Size: ptr.To[int32](501)}, with(func(s *RedisClusterSpec) { s.Size = ptr.To[int32](501) }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &RedisCluster{Spec: *test.spec.DeepCopy()}
			r.Default()
			if !reflect.DeepEqual(r.Spec, test.want) {
				t.Errorf("got %+v, want %+v", r.Spec, test.want)
			}
		})
	}
}

// There is no size that is refused for being small.
func TestSize(t *testing.T) {
	for name, test := range map[string]struct {
		size, replicas *int32
		want, masters  int32
	}{
		"not set, it is six":                                    {nil, nil, 6, 3},
		"the seed's 3 is raised to six":                         {ptr.To[int32](3), nil, 6, 3},
		"the least number of all is raised to six":              {ptr.To[int32](math.MinInt32), nil, 6, 3},
		"seven stays: a master has two replicas":                {ptr.To[int32](7), nil, 7, 3},
		"the most there may be stays":                           {ptr.To[int32](500), nil, 500, 250},
		"six are too few for two replicas":                      {ptr.To[int32](6), ptr.To[int32](2), 9, 3},
		"ten are three masters with two replicas, and one more": {ptr.To[int32](10), ptr.To[int32](2), 10, 3},
		"without replicas all six are masters":                  {ptr.To[int32](3), ptr.To[int32](0), 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			r := &RedisCluster{Spec: RedisClusterSpec{Size: test.size, ReplicasPerMaster: test.replicas}}
			r.Default()
			if got, masters := *r.Spec.Size, r.Spec.Masters(); got != test.want || masters != test.masters {
				t.Errorf("got size %d and %d masters, want %d and %d", got, masters, test.want, test.masters)
			}
		})
	}
}

// A number of replicas that Validate refuses must not lead to an impossible allocation.
func TestTheLeastSizeIsOfReplicasThatThereMayBe(t *testing.T) {
	for replicas, want := range map[int32]int32{math.MinInt32: 6, -1: 6, 0: 6, 2: 9, 5: 18, 6: 18, math.MaxInt32: 18} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			if got := (&RedisClusterSpec{ReplicasPerMaster: &replicas}).LeastSize(); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
}

// TestAPodTemplateSetsNothingOfTheOperator has the names that the operator uses, or may use later.
func TestAPodTemplateSetsNothingOfTheOperator(t *testing.T) {
	for field, template := range map[string]PodTemplate{
		"labels[app]": {Labels: map[string]string{LabelApp: "cache"}},
		"labels[bytewang123-redis.wzj.kubebuilder.io/rediscluster]": {Labels: map[string]string{LabelRedisCluster: "other"}},
		"annotations[bytewang123-redis.wzj.kubebuilder.io/later]":   {Annotations: map[string]string{GroupName + "/later": "1"}},
		"containers[redis]":     {Containers: []corev1.Container{{Name: "redis"}}},
		"initContainers[redis]": {InitContainers: []corev1.Container{{Name: "redis"}}},
		"volumes[data]":         {Volumes: []corev1.Volume{{Name: "data"}}},
		"env[POD_IP]":           {Env: []corev1.EnvVar{{Name: "POD_IP"}}},
		"env[GLASSBACK_LATER]":  {Env: []corev1.EnvVar{{Name: "GLASSBACK_LATER"}}},
	} {
		t.Run(field, func(t *testing.T) {
			errs := valid(func(s *RedisClusterSpec) { s.PodTemplate = &template }).Validate(nil)
			want := "spec.podTemplate." + field + ": Forbidden: the operator sets it"
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
				t.Errorf("got %v, want %s", errs.ToAggregate(), want)
			}
		})
	}
}

func TestHostnameOf(t *testing.T) {
	s := &RedisClusterSpec{}
	if got := s.HostnameOf("demo-0"); got != "" {
		t.Errorf("without access, the hostname is %q", got)
	}
	s.Access = &Access{External: &ExternalAccess{Type: ExternalLoadBalancer, Hostname: "{pod}.example.com"}}
	s.Access.External.Annotations = map[string]string{"external-dns.alpha.kubernetes.io/hostname": "{pod}.example.com", "a": "b"}
	want := map[string]string{"external-dns.alpha.kubernetes.io/hostname": "demo-0.example.com", "a": "b"}
	if got := s.Access.External.AnnotationsOf("demo-0"); s.HostnameOf("demo-0") != "demo-0.example.com" || !maps.Equal(got, want) {
		t.Errorf("the hostname is %q, and the annotations are %v", s.HostnameOf("demo-0"), got)
	}
	s.Access.External.Hostname = ""
	if got := s.Access.External.AnnotationsOf("demo-0"); !maps.Equal(got, s.Access.External.Annotations) || s.HostnameOf("demo-0") != "" {
		t.Errorf("without a hostname, the annotations are %v", got)
	}
}

func TestWarnings(t *testing.T) {
	const (
		replicas = "spec.replicasPerMaster: with 0 no replica takes over the slots of a master that fails"
		storage  = "spec.storage: without it a Pod's data is gone with the Pod"
		password = "spec.access.external: without authSecretRef and users, clients need no password"
		memory   = "spec.config: unless maxmemory is below the memory limit, a full node is killed before it evicts keys or rejects writes"
	)
	stored := func(mutate func(s *RedisClusterSpec)) *RedisCluster {
		return valid(func(s *RedisClusterSpec) {
			s.Storage = &Storage{Size: resource.MustParse("1Gi")}
			mutate(s)
		})
	}
	// limited is one whose nodes have 100 MiB of memory, and this maxmemory.
	limited := func(maxmemory ConfigValue) *RedisCluster {
		return stored(func(s *RedisClusterSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}}
			s.Config = map[string]ConfigValue{"maxmemory": maxmemory}
		})
	}
	outside := func(s *RedisClusterSpec) { s.Access = &Access{External: &ExternalAccess{Type: ExternalNodePort}} }
	key := &SecretKeyReference{Name: "demo", Key: "password"}
	for name, test := range map[string]struct {
		object *RedisCluster
		want   []string
	}{
		"with storage there is nothing to say": {stored(func(*RedisClusterSpec) {}), nil},
		"a limit of CPU, or a request for memory, kills no Pod": {stored(func(s *RedisClusterSpec) {
			s.Resources = &corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
		}), nil},
		"a maxmemory of 0 is none":                     {limited("0"), []string{memory}},
		"a maxmemory of as much as the limit":          {limited("100mb"), []string{memory}},
		"a maxmemory in bytes, of as much":             {limited("104857600"), []string{memory}},
		"a maxmemory in bytes, of one less, gets none": {limited("104857599"), nil},
		"100m are less than 100mb, and get none":       {limited("100m"), nil},
		"a maxmemory in kilobytes gets none":           {limited("70000K"), nil},
		"what redis-server will refuse gets none":      {limited("1mbmb"), nil},
		"what no number holds gets none":               {limited("9999999999999gb"), nil},
		"less than nothing gets none":                  {limited("-1"), nil},
		"access from outside without a password":       {stored(outside), []string{password}},
		"access from outside with a password":          {stored(func(s *RedisClusterSpec) { outside(s); s.AuthSecretRef = key }), nil},
		"access from outside with users": {stored(func(s *RedisClusterSpec) {
			outside(s)
			s.Users = []User{{Name: "default", Rules: "off"}, {Name: "app", Rules: "+@read", PasswordSecretRef: key}}
		}), nil},
		"all of it": {valid(func(s *RedisClusterSpec) {
			s.ReplicasPerMaster, s.Resources = ptr.To[int32](0), limited("").Spec.Resources
		}), []string{replicas, storage, memory}},
	} {
		t.Run(name, func(t *testing.T) {
			if errs := test.object.Validate(nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if got := test.object.Warnings(); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// exponent matches quantities that are written with one.
var exponent = regexp.MustCompile(`[0-9.][eE][-+.0-9]`)

// FuzzValidate reads objects as clients send them.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"sample"},"spec":{"addr":"192.168.1.10:6379","size":3}}`,
		`{"metadata":{"name":"Sample.a"},"spec":{"addr":"foo:bar","size":-1,"replicasPerMaster":6,"image":"my redis"}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"[::1]:1","size":500,"replicasPerMaster":5,"authSecretRef":{"name":"a"}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:65535","replicasPerMaster":0,"storage":{"size":"1Gi","storageClassName":"a"}}}`,
		`{"spec":{"storage":{}}}`,
		`{"spec":{"addr":"1.2.3.4:1","storage":{"size":"99999999999999999999"}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:0","storage":{"size":"-1","storageClassName":""},"authSecretRef":{}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:1","config":{"maxmemory":"1gb","save":""},"resources":{"limits":{"memory":"1Gi"}}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:1","config":{"Port":"1","port":"1","a":"\n","":""},` +
			`"resources":{"limits":{"cpu":1},"requests":{"cpu":2}}}}`,
		`{"metadata":{"name":"a"},"spec":{"addr":"1.2.3.4:1","networkPolicy":{"from":[{},{"podSelector":{}},{"ipBlock":{"cidr":"10.0.0.0/8"}}],` +
			`"ingress":[` + strings.Repeat("{},", 16) + `{}]},"podTemplate":{"containers":[{"name":"a"},{"name":"a"}],"imagePullSecrets":[{}]}}}`,
		`{"spec":{"addr":"1.2.3.4:1","networkPolicy":{"from":[` + strings.Repeat("{},", 32) + `{}]},` +
			`"podTemplate":{"initContainers":[` + strings.Repeat("{},", 16) + `{}]}}}`,
		`{"spec":{"addr":"1.2.3.4:1","authSecretRef":{"name":"a"},"users":[{"name":"a b","rules":"off >secret"},{"name":"a","rules":"~*"},` +
			`{"name":"a","rules":"nopass","passwordSecretRef":{"name":"a"}}]}}`,
		`{"spec":{"addr":"1.2.3.4:1","config":{"cluster-preferred-endpoint-type":"ip"},"access":{"external":{"type":"LoadBalancer",` +
			`"hostname":"{pod}.{pod}","hosts":[{"name":"a","ip":"192.0.2.7"},{"name":"a"}],"loadBalancerSourceRanges":["a","a"]}}}}`,
		`{"spec":{"addr":"1.2.3.4:1","access":{"external":{"type":"NodePort","hostname":"{pod}.a","loadBalancerSourceRanges":["10.0.0.0/8"]}}}}`,
		`{"spec":{"addr":"1.2.3.4:1","tls":{"secretRef":{"name":"a"},"mode":"Required","port":1},"config":{"tls-cert-file":"a"},` +
			`"backup":{"schedule":"0 0 30 2 *","retention":0},"restoreFrom":{"backup":"latest","s3":{"endpoint":"a"}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if exponent.Match(data) {
			return // It may take forever to decode: the schema refuses it.
		}
		r := &RedisCluster{}
		if json.Unmarshal(data, r) != nil {
			return
		}
		old := valid(func(s *RedisClusterSpec) { s.Storage = &Storage{Size: resource.MustParse("1Gi")} })
		r.Default()
		again := r.DeepCopy()
		again.Default()
		errs := again.Validate(nil)
		oldAsWas := old.DeepCopy()
		changeErrs := again.Validate(old)
		if !reflect.DeepEqual(r, again) {
			t.Errorf("Default or Validate changed an object with defaults: %+v became %+v", r, again)
		}
		if !reflect.DeepEqual(old, oldAsWas) {
			t.Errorf("Validate changed the older object: %+v became %+v", oldAsWas, old)
		}
		for _, err := range slices.Concat(errs, changeErrs) {
			if err.Field == "" {
				t.Errorf("names no field: %v", err)
			}
		}
		if len(errs) == 0 {
			r.Warnings() // It must not panic.
		}
	})
}
