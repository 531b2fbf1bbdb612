// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
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
		if port, bus := Ports(rdc); port != want[0] || bus != want[1] {
			t.Errorf("%s: ports %d and %d, want %v", addr, port, bus, want)
		}
	}
}

func TestDesiredRevision(t *testing.T) {
	before := Revision(loadCluster(t, "full"))
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
		if change(rdc); Revision(rdc) != before {
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
			r.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{Labels: map[string]string{"team": "shop"}}}
		},
		"no security context": func(r *v1.RedisCluster) {
			r.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{SecurityContext: &corev1.PodSecurityContext{}}}
		},
		"a value that looks like two": func(r *v1.RedisCluster) {
			r.Spec.Config["maxmemory"] = "96mb\"\nconfig \"maxmemory-policy\" \"allkeys-lru"
			delete(r.Spec.Config, "maxmemory-policy")
		},
	} {
		rdc := loadCluster(t, "full")
		if change(rdc); Revision(rdc) == before {
			t.Errorf("%s replaces no Pod", sentence)
		}
	}
	for sentence, change := range map[string]change{
		"an empty podTemplate": func(r *v1.RedisCluster) {
			r.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{Labels: map[string]string{}, PriorityClassName: ptr.To("")}}
		},
		"empty resources": func(r *v1.RedisCluster) { r.Spec.Resources = &corev1.ResourceRequirements{} },
		"an empty config": func(r *v1.RedisCluster) { r.Spec.Config = map[string]v1.ConfigValue{} },
	} {
		rdc := loadCluster(t, "sample")
		before := Revision(rdc)
		if change(rdc); Revision(rdc) != before {
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
		if got := Revision(loadCluster(t, name)); got != want {
			t.Errorf("the revision of %s is %s, and was %s", name, got, want)
		}
	}
}

// TestDesiredLeavesTheRedisClusterAlone changes what was built: neither the RedisCluster nor what is built next has the change.
func TestDesiredLeavesTheRedisClusterAlone(t *testing.T) {
	for _, name := range []string{"sample", "full", "template"} {
		rdc := loadCluster(t, name)
		before, p, again := rdc.DeepCopy(), Pod(rdc, 0), Pod(rdc, 0)
		for _, values := range []map[string]string{
			p.Labels, p.Annotations, Service(rdc, false).Labels, Budget(rdc, 6).Labels, Configuration(rdc).Labels, Selector(rdc),
		} {
			values["changed"] = "yes"
		}
		for i := range p.Spec.TopologySpreadConstraints {
			p.Spec.TopologySpreadConstraints[i].LabelSelector = nil
		}
		clear(p.Spec.Containers[0].Resources.Limits)
		clear(p.Spec.Containers[0].Resources.Requests)
		if c := Claim(rdc, 0); c != nil {
			*c.Spec.StorageClassName = "changed"
		}
		if !equality.Semantic.DeepEqual(rdc, before) || !equality.Semantic.DeepEqual(Pod(rdc, 0), again) {
			t.Errorf("%s was written to, or a second Pod differs from the first", name)
		}
	}
}

func TestDesiredNamesAreNames(t *testing.T) {
	rdc := loadCluster(t, "full")
	rdc.Name = strings.Repeat("a", 52)
	problems := validation.IsValidLabelValue(rdc.Name)
	for _, name := range []string{PodName(rdc, 999), Claim(rdc, 999).Name, *Configuration(rdc).Name} {
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
	rdc.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{SecurityContext: &corev1.PodSecurityContext{}}}
	for addr, want := range map[string]int{"127.0.0.1:1023": 1, "127.0.0.1:1024": 0} {
		rdc.Spec.Addr = addr
		if got := len(Pod(rdc, 0).Spec.SecurityContext.Sysctls); got != want {
			t.Errorf("%s: %d sysctls, want %d", addr, got, want)
		}
	}
}

func TestDesiredPodTemplate(t *testing.T) {
	rdc := loadCluster(t, "template")
	plain := rdc.DeepCopy()
	plain.Spec.PodTemplate = nil
	want := Pod(plain, 0)
	want.Labels["team"] = "shop"
	want.Annotations = map[string]string{"prometheus.io/scrape": "true", AnnotationRevision: Revision(rdc)}
	template := rdc.Spec.PodTemplate
	spec := &want.Spec
	spec.NodeSelector, spec.Tolerations, spec.PriorityClassName = template.NodeSelector, template.Tolerations, "high"
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(rdc)},
	}}
	spec.ImagePullSecrets, spec.ServiceAccountName = template.ImagePullSecrets, "redis"
	spec.SecurityContext = &corev1.PodSecurityContext{}
	spec.Affinity.NodeAffinity = template.Affinity.NodeAffinity
	spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: "TZ", Value: "Europe/Berlin"})
	spec.Containers = append(spec.Containers, template.Containers[0])
	spec.InitContainers = template.InitContainers
	spec.Volumes = append(spec.Volumes, template.Volumes[0])
	spec.Volumes[1].ConfigMap.Name = ConfigurationName(rdc)
	if got := Pod(rdc, 0); !equality.Semantic.DeepEqual(got, want) {
		t.Error(diff.Diff(want, got))
	}

	own := &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}},
	}
	template.Affinity = &corev1.Affinity{PodAntiAffinity: own}
	if got := Pod(rdc, 0).Spec.Affinity; !equality.Semantic.DeepEqual(got, &corev1.Affinity{PodAntiAffinity: own}) {
		t.Errorf("podAntiAffinity does not replace that of the operator: %+v", got)
	}
}

// TestAVolumeOfTheTemplateIsNoTLS: without spec.tls, a volume of the podTemplate may have any name that the operator does not use then.
func TestAVolumeOfTheTemplateIsNoTLS(t *testing.T) {
	rdc := loadCluster(t, "full")
	rdc.Spec.TLS = nil
	rdc.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{Volumes: []corev1.Volume{{
		Name: VolumeTLS, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}},
	}}}}
	if p := Pod(rdc, 0); HasTLS(p) {
		t.Errorf("the Pod has TLS, by the Secret %q", SecretOfTLS(p))
	}
}
