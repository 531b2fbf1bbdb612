// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// valid returns a RedisCluster that is valid, after mutate has been at its spec.
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
		"a size that is too large stays, for the schema to reject": {
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

// A number of replicas that Validate rejects must not lead to an impossible allocation.
func TestTheLeastSizeIsOfReplicasThatThereMayBe(t *testing.T) {
	for replicas, want := range map[int32]int32{math.MinInt32: 6, -1: 6, 0: 6, 2: 9, 5: 18, 6: 18, math.MaxInt32: 18} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			if got := (&RedisClusterSpec{ReplicasPerMaster: &replicas}).LeastSize(); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
}

// TestValidate has the rules that only Go has, and those that protect the controller.
func TestValidate(t *testing.T) {
	backup := func(schedule string) func(*RedisClusterSpec) {
		return func(s *RedisClusterSpec) { s.Backup = &Backup{Schedule: schedule, BackupStore: BackupStore{S3: &S3{}}} }
	}
	config := func(key string, value ConfigValue) func(*RedisClusterSpec) {
		return func(s *RedisClusterSpec) { s.Size, s.Config = ptr.To[int32](100), map[string]ConfigValue{key: value} }
	}
	for name, test := range map[string]struct {
		mutate func(*RedisClusterSpec)
		want   string // the beginning of the error; "" for none
	}{
		"no addr": {func(s *RedisClusterSpec) { s.Addr = "" }, `spec.addr: Invalid value: "": invalid ip port, ip:port`},
		"an addr without a port": {
			func(s *RedisClusterSpec) { s.Addr = "1.2.3.4" }, `spec.addr: Invalid value: "1.2.3.4": invalid ip port, ip:port`,
		},
		"fewer replicas than none": {
			func(s *RedisClusterSpec) { s.ReplicasPerMaster = ptr.To[int32](-1) }, "spec.replicasPerMaster: Invalid value: -1: must be from 0 to 5",
		},
		"no schedule":                 {backup(""), ""},
		"a schedule":                  {backup("0 3 29 2 *"), ""},
		"a schedule that never comes": {backup("0 3 30 2 *"), `spec.backup.schedule: Invalid value: "0 3 30 2 *": never comes: `},
		"a schedule with a time zone": {
			backup("TZ="), `spec.backup.schedule: Invalid value: "TZ=": must be a cron expression without a time zone`,
		},
		"a schedule that is none": {backup("daily"), `spec.backup.schedule: Invalid value: "daily": `},
		"backups without a store": {
			func(s *RedisClusterSpec) { s.Backup = &Backup{} }, `spec.backup: Invalid value: "": must have either persistentVolumeClaim or s3`,
		},
		"a restore without a store": {
			func(s *RedisClusterSpec) { s.RestoreFrom = &RestoreFrom{} }, `spec.restoreFrom: Invalid value: "": must have either `,
		},
		"enough connections":          {config("maxclients", "232"), ""},
		"a number that redis rejects": {config("maxclients", "many"), ""},
		"too few connections":         {config("maxclients", "231"), `spec.config[maxclients]: Invalid value: "231": must be at least 100, `},
		"a version that it speaks":    {config("tls-protocols", "TLSv1.1 tlsv1.2"), ""},
		"only versions that it does not": {
			config("tls-protocols", "TLSv1.1"), `spec.config[tls-protocols]: Invalid value: "TLSv1.1": must have TLSv1.2 `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := valid(test.mutate).Validate(nil)
			if test.want == "" && len(errs) == 0 {
				return
			}
			if len(errs) != 1 || test.want == "" || !strings.HasPrefix(errs[0].Error(), test.want) {
				t.Errorf("got %v, want %s", errs, test.want)
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
