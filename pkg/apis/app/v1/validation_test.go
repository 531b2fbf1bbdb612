// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// valid returns an Application that is valid, after mutate has been at its spec.
func valid(mutate func(s *ApplicationSpec)) *Application {
	a := &Application{ObjectMeta: metav1.ObjectMeta{Name: "sample"}}
	a.Spec.Image = "nginx"
	a.Default()
	mutate(&a.Spec)
	return a
}

// verdict is a case: an object, and how the one error about it begins; "" for
// none.
type verdict struct {
	object *Application
	want   string
}

func (v verdict) run(t *testing.T) {
	errs := v.object.Validate(nil)
	switch {
	case v.want == "" && len(errs) > 0:
		t.Errorf("got %v, want none", errs.ToAggregate())
	case v.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), v.want)):
		t.Errorf("got %v, want %s", errs.ToAggregate(), v.want)
	}
}

func TestValidate(t *testing.T) {
	named := func(name string) *Application {
		a := valid(func(*ApplicationSpec) {})
		a.Name = name
		return a
	}
	for name, test := range map[string]verdict{
		"only an image is valid": {valid(func(*ApplicationSpec) {}), ""},
		"every number at its upper bound is valid": {valid(func(s *ApplicationSpec) {
			s.Replicas, s.Port, s.Service.Port = ptr.To[int32](10000), ptr.To[int32](65535), ptr.To[int32](65535)
			s.Autoscaling = &Autoscaling{MinReplicas: ptr.To[int32](10000), MaxReplicas: 10000,
				TargetCPUUtilizationPercentage: ptr.To[int32](1000), TargetMemoryUtilizationPercentage: ptr.To[int32](1000)}
		}), ""},
		"every number at its lower bound is valid": {valid(func(s *ApplicationSpec) {
			s.Replicas, s.Port, s.Service.Port = ptr.To[int32](0), ptr.To[int32](1), ptr.To[int32](1)
			s.Autoscaling = &Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 1,
				TargetCPUUtilizationPercentage: ptr.To[int32](1), TargetMemoryUtilizationPercentage: ptr.To[int32](1)}
		}), ""},

		"a name of 63 characters is valid": {named(strings.Repeat("x", 63)), ""},
		"a name of 64 characters is none of a Service": {named(strings.Repeat("x", 64)),
			"metadata.name: Invalid value: \"" + strings.Repeat("x", 64) + "\": must be a DNS label of no more than 63 characters"},
		"a name with a dot is none of a Service":         {named("shop.a"), `metadata.name: Invalid value: "shop.a": must be a DNS label`},
		"a name that begins with a digit is none either": {named("1shop"), `metadata.name: Invalid value: "1shop": must be a DNS label`},

		"no image": {valid(func(s *ApplicationSpec) { s.Image = "" }), "spec.image: Required value: say which image to run"},
		"an image with a space": {valid(func(s *ApplicationSpec) { s.Image = "my image" }),
			`spec.image: Invalid value: "my image": must be the name of an image`},
		"an image that is too long": {valid(func(s *ApplicationSpec) { s.Image = strings.Repeat("x", 1025) }), "spec.image: Too long: "},
		"too many replicas": {
			valid(func(s *ApplicationSpec) { s.Replicas = ptr.To[int32](10001) }), "spec.replicas: Invalid value: 10001: must be from 0 to 10000",
		},
		"a negative number of replicas": {valid(func(s *ApplicationSpec) { s.Replicas = ptr.To[int32](-1) }),
			"spec.replicas: Invalid value: -1: must be from 0 to 10000"},
		"port 0": {valid(func(s *ApplicationSpec) { s.Port = ptr.To[int32](0) }), "spec.port: Invalid value: 0: must be from 1 to 65535"},
		"a port beyond the last": {
			valid(func(s *ApplicationSpec) { s.Port = ptr.To[int32](70000) }), "spec.port: Invalid value: 70000: must be from 1 to 65535",
		},
		"a Service's port beyond the last": {valid(func(s *ApplicationSpec) { s.Service.Port = ptr.To[int32](65536) }),
			"spec.service.port: Invalid value: 65536: must be from 1 to 65535"},
		"a Service of no Pods": {valid(func(s *ApplicationSpec) { s.Service.Type = corev1.ServiceTypeExternalName }),
			`spec.service.type: Unsupported value: "ExternalName": supported values: "ClusterIP", "NodePort", "LoadBalancer"`},

		"neither a Service nor an Ingress is valid": {valid(func(s *ApplicationSpec) {
			s.Service.Enabled, s.Ingress.Enabled = ptr.To(false), ptr.To(false)
		}), ""},
		"an Ingress without a Service": {valid(func(s *ApplicationSpec) { s.Service.Enabled = ptr.To(false) }),
			"spec.ingress.enabled: Invalid value: true: an Ingress needs the Service"},

		"one limit of disruption is valid": {
			valid(func(s *ApplicationSpec) { s.PDB = &DisruptionBudget{MinAvailable: ptr.To(intstr.FromInt32(0))} }), "",
		},
		"no limit is valid: it is one": {valid(func(s *ApplicationSpec) { s.PDB = &DisruptionBudget{} }), ""},
		"two limits of disruption": {valid(func(s *ApplicationSpec) {
			s.PDB = &DisruptionBudget{MinAvailable: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromString("50%"))}
		}), `spec.pdb.maxUnavailable: Invalid value: "50%": minAvailable and maxUnavailable exclude each other`},
		"a negative limit of disruption": {
			valid(func(s *ApplicationSpec) { s.PDB = &DisruptionBudget{MinAvailable: ptr.To(intstr.FromInt32(-1))} }),
			`spec.pdb.minAvailable: Invalid value: "-1": must be a number that is not negative, or a share`,
		},
		"more than all": {valid(func(s *ApplicationSpec) { s.PDB = &DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromString("101%"))} }),
			`spec.pdb.maxUnavailable: Invalid value: "101%": must be a number that is not negative, or a share`},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateAutoscaling(t *testing.T) {
	autoscaling := func(a Autoscaling) *Application { return valid(func(s *ApplicationSpec) { s.Autoscaling = &a }) }
	for name, test := range map[string]verdict{
		"no least number is 1":   {autoscaling(Autoscaling{MaxReplicas: 1}), ""},
		"no difference is valid": {autoscaling(Autoscaling{MinReplicas: ptr.To[int32](3), MaxReplicas: 3}), ""},
		"the least over the most": {
			autoscaling(Autoscaling{MinReplicas: ptr.To[int32](5), MaxReplicas: 2}),
			"spec.autoscaling.minReplicas: Invalid value: 5: must not be more than maxReplicas",
		},
		"no greatest number": {autoscaling(Autoscaling{}), "spec.autoscaling.maxReplicas: Invalid value: 0: must be from 1 to 10000"},
		"a greatest number of a 0": {
			autoscaling(Autoscaling{MinReplicas: ptr.To[int32](5)}), "spec.autoscaling.maxReplicas: Invalid value: 0: must be from 1 to 10000",
		},
		"a least number of 0": {
			autoscaling(Autoscaling{MinReplicas: ptr.To[int32](0), MaxReplicas: 2}),
			"spec.autoscaling.minReplicas: Invalid value: 0: must be from 1 to 10000",
		},
		"a least number beyond all": {autoscaling(Autoscaling{MinReplicas: ptr.To[int32](10001), MaxReplicas: 10000}),
			"spec.autoscaling.minReplicas: Invalid value: 10001: must be from 1 to 10000"},
		"no use of CPU": {autoscaling(Autoscaling{MaxReplicas: 2, TargetCPUUtilizationPercentage: ptr.To[int32](0)}),
			"spec.autoscaling.targetCPUUtilizationPercentage: Invalid value: 0: must be from 1 to 1000"},
		"too much use of memory": {autoscaling(Autoscaling{MaxReplicas: 2, TargetMemoryUtilizationPercentage: ptr.To[int32](1001)}),
			"spec.autoscaling.targetMemoryUtilizationPercentage: Invalid value: 1001: must be from 1 to 1000"},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateIngress(t *testing.T) {
	ingress := func(mutate func(i *Ingress)) *Application {
		return valid(func(s *ApplicationSpec) { mutate(&s.Ingress) })
	}
	annotated := func(annotations map[string]string) *Application {
		return ingress(func(i *Ingress) { i.Annotations = annotations })
	}
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint("a", i)] = ""
	}
	for name, test := range map[string]verdict{
		"a wildcard is a host": {ingress(func(i *Ingress) { i.Host = "*.example.com" }), ""},
		"a host in upper case": {ingress(func(i *Ingress) { i.Host = "Shop.example.com" }),
			`spec.ingress.host: Invalid value: "Shop.example.com": must be a host name in lower case`},
		"an address": {ingress(func(i *Ingress) { i.Host = "10.0.0.1" }), `spec.ingress.host: Invalid value: "10.0.0.1": must be a host name`},
		"a URL for a host": {ingress(func(i *Ingress) { i.Host = "http://shop.example.com" }),
			`spec.ingress.host: Invalid value: "http://shop.example.com": must be a host name`},
		"a host that is too long": {ingress(func(i *Ingress) { i.Host = strings.Repeat("x.", 127) + "x" }), "spec.ingress.host: Too long: "},
		"a path that begins with no slash": {ingress(func(i *Ingress) { i.Path = "shop" }),
			`spec.ingress.path: Invalid value: "shop": must be the path of a URL`},
		"a path that leads up": {
			ingress(func(i *Ingress) { i.Path = "/a/../b" }), `spec.ingress.path: Invalid value: "/a/../b": must be the path of a URL`,
		},
		"a class that cannot be": {ingress(func(i *Ingress) { i.ClassName = "my class" }),
			`spec.ingress.className: Invalid value: "my class": must be the name of an IngressClass`},
		"a Secret for TLS is valid": {ingress(func(i *Ingress) { i.TLS = &IngressTLS{SecretName: "shop-tls"} }), ""},
		"TLS without a Secret": {ingress(func(i *Ingress) { i.TLS = &IngressTLS{} }),
			`spec.ingress.tls.secretName: Invalid value: "": must be the name of a Secret`},

		"annotations are valid": {annotated(map[string]string{"team": "shop", "of any/kind at all": "a b\n"}), ""},
		"the older way to say the class": {annotated(map[string]string{"kubernetes.io/ingress.class": "nginx"}),
			`spec.ingress.annotations[kubernetes.io/ingress.class]: Invalid value: "nginx": set className instead`},
		"too many annotations": {annotated(many), "spec.ingress.annotations: Too many: 65: must have at most 64 items"},
		"too many annotations of the Service": {valid(func(s *ApplicationSpec) { s.Service.Annotations = many }),
			"spec.service.annotations: Too many: 65: must have at most 64 items"},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateEnv(t *testing.T) {
	env := func(env ...EnvVar) *Application { return valid(func(s *ApplicationSpec) { s.Env = env }) }
	from := func(source corev1.EnvVarSource) *Application {
		return env(EnvVar{Name: "A", ValueFrom: &source})
	}
	var many []EnvVar
	for i := range 257 {
		many = append(many, EnvVar{Name: fmt.Sprint("A", i)})
	}
	for name, test := range map[string]verdict{
		"a value, an empty one, and every source are valid": {env(
			EnvVar{Name: "A", Value: "a"}, EnvVar{Name: "B"},
			EnvVar{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}}},
			EnvVar{Name: "D", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}},
			EnvVar{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}},
			EnvVar{Name: "F", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{}}},
		), ""},
		"no name": {env(EnvVar{Name: "A"}, EnvVar{Value: "b"}), `spec.env[1].name: Invalid value: "": must be letters`},
		"of two names that cannot be the first is blamed": {env(EnvVar{Name: "A"}, EnvVar{Name: "2"}, EnvVar{Name: "3"}),
			`spec.env[1].name: Invalid value: "2": must be letters`},
		"a name that is too long": {env(EnvVar{Name: strings.Repeat("A", 254)}), "spec.env[0].name: Too long: "},
		"a name that is there thrice is blamed once": {env(EnvVar{Name: "A"}, EnvVar{Name: "A"}, EnvVar{Name: "A"}),
			`spec.env[1]: Duplicate value: "A"`},
		"a value and a source": {env(EnvVar{Name: "A", Value: "a", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}),
			`spec.env[0].value: Forbidden: must have either value or valueFrom`},
		"a source that is none": {
			from(corev1.EnvVarSource{}), `spec.env[0].valueFrom: Invalid value: "0 of them": must have exactly one of configMapKeyRef`,
		},
		"two sources": {from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}, SecretKeyRef: &corev1.SecretKeySelector{}}),
			`spec.env[0].valueFrom: Invalid value: "2 of them": must have exactly one of`},
		"a file, though there are no volumes": {from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}),
			`spec.env[0].valueFrom: Invalid value: "0 of them": must have exactly one of`},
		"too many": {env(many...), "spec.env: Too many: 257: must have at most 256 items"},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateReferences(t *testing.T) {
	envFrom := func(from ...corev1.EnvFromSource) *Application {
		return valid(func(s *ApplicationSpec) { s.EnvFrom = from })
	}
	pull := func(names ...string) *Application {
		return valid(func(s *ApplicationSpec) {
			for _, name := range names {
				s.ImagePullSecrets = append(s.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
			}
		})
	}
	configMap := &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}
	secret := &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "passwords"}}
	for name, test := range map[string]verdict{
		"a ConfigMap and a Secret are valid": {
			envFrom(corev1.EnvFromSource{ConfigMapRef: configMap}, corev1.EnvFromSource{SecretRef: secret, Prefix: "A_"}), "",
		},
		"neither in one entry": {
			envFrom(corev1.EnvFromSource{Prefix: "A_"}),
			`spec.envFrom[0]: Invalid value: "0 of them": must have exactly one of configMapRef and secretRef`,
		},
		"both in one entry": {envFrom(corev1.EnvFromSource{SecretRef: secret}, corev1.EnvFromSource{ConfigMapRef: configMap, SecretRef: secret}),
			`spec.envFrom[1]: Invalid value: "2 of them": must have exactly one of configMapRef and secretRef`},
		"too many sources": {envFrom(make([]corev1.EnvFromSource, 65)...), "spec.envFrom: Too many: 65: must have at most 64 items"},

		"names of pull secrets are valid":   {pull("registry", "my.registry-2"), ""},
		"a pull secret without a name":      {pull("registry", ""), "spec.imagePullSecrets[1].name: Required value"},
		"a pull secret that is there twice": {pull("registry", "registry"), `spec.imagePullSecrets[1]: Duplicate value: "registry"`},
		"too many pull secrets": {
			pull(strings.Split("abcdefghijklmnopq", "")...), "spec.imagePullSecrets: Too many: 17: must have at most 16 items",
		},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateResources(t *testing.T) {
	list := func(name corev1.ResourceName, quantity string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(quantity)}
	}
	resources := func(r corev1.ResourceRequirements) *Application {
		return valid(func(s *ApplicationSpec) { s.Resources = &r })
	}
	for name, test := range map[string]verdict{
		"none are valid":     {resources(corev1.ResourceRequirements{}), ""},
		"fractions of a CPU": {resources(corev1.ResourceRequirements{Requests: list("cpu", "0.5"), Limits: list("cpu", "500m")}), ""},
		"more devices than the limit is for the API server to refuse": {resources(corev1.ResourceRequirements{
			Requests: list("nvidia.com/gpu", "2"), Limits: list("nvidia.com/gpu", "1")}), ""},
		"a limit without a request, and a request without a limit": {
			resources(corev1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("memory", "1")}), "",
		},
		"a request above its limit": {resources(corev1.ResourceRequirements{Requests: list("memory", "1Gi"), Limits: list("memory", "512Mi")}),
			`spec.resources.requests[memory]: Invalid value: "1Gi": must not be more than its limit`},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateProbes(t *testing.T) {
	probes := func(p Probes) *Application { return valid(func(s *ApplicationSpec) { s.Probes = &p }) }
	probe := func(h corev1.ProbeHandler) *Probe { return &Probe{ProbeHandler: h} }
	get, connect := &corev1.HTTPGetAction{}, &corev1.TCPSocketAction{}
	for name, test := range map[string]verdict{
		"none are valid": {probes(Probes{}), ""},
		"every handler is valid": {probes(Probes{
			Liveness: probe(corev1.ProbeHandler{TCPSocket: connect}), Readiness: probe(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}),
			Startup: probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{}})}), ""},
		"one handler in two probes is valid": {
			probes(Probes{Liveness: probe(corev1.ProbeHandler{HTTPGet: get}), Readiness: probe(corev1.ProbeHandler{HTTPGet: get})}), "",
		},
		"no handler": {
			probes(Probes{Liveness: &Probe{PeriodSeconds: 5}}), `spec.probes.liveness: Invalid value: "0 of them": must have exactly one of httpGet`,
		},
		"two handlers": {probes(Probes{Readiness: probe(corev1.ProbeHandler{HTTPGet: get, TCPSocket: connect})}),
			`spec.probes.readiness: Invalid value: "2 of them": must have exactly one of httpGet`},
		"two handlers of the third": {probes(Probes{Liveness: probe(corev1.ProbeHandler{HTTPGet: get}),
			Startup: probe(corev1.ProbeHandler{HTTPGet: get, Exec: &corev1.ExecAction{}})}), `spec.probes.startup: Invalid value: "2 of them"`},
	} {
		t.Run(name, test.run)
	}
}

// exponent matches quantities that are written with one.
var exponent = regexp.MustCompile(`[0-9.][eE][-+.0-9]`)

// FuzzValidate reads objects as clients send them.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"sample"},"spec":{"image":"nginx"}}`,
		`{"metadata":{"name":"Sample.a"},"spec":{"image":"my image","replicas":-1,"port":70000,` +
			`"service":{"enabled":false,"type":"None","port":0}}}`,
		`{"metadata":{"name":"a"},"spec":{"image":"a",` +
			`"env":[{"name":"A","value":"b"},{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}}`,
		`{"metadata":{"name":"a"},"spec":{"image":"a","env":[{"name":"..","valueFrom":{"fileKeyRef":{}}}],` +
			`"envFrom":[{},{"secretRef":{"name":"a"}}]}}`,
		`{"metadata":{"name":"a"},"spec":{"image":"a","resources":{"limits":{"cpu":"100m","nvidia.com/gpu":1},"requests":{"cpu":2}}}}`,
		`{"metadata":{"name":"a"},"spec":{"image":"a",` +
			`"probes":{"liveness":{"grpc":{"port":1}},"readiness":{"httpGet":{"port":"http"}},"startup":{"exec":{}}}}}`,
		`{"metadata":{"name":"a"},"spec":{"image":"a","ingress":{"host":"*.a","path":"//","className":"-","tls":{},"annotations":{"":""}}}}`,
		`{"metadata":{"name":"a"},"spec":{"image":"a","autoscaling":{"minReplicas":2,"maxReplicas":1},` +
			`"pdb":{"minAvailable":"101%","maxUnavailable":-1}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if exponent.Match(data) {
			return // It may take forever to decode: the schema refuses it.
		}
		a := &Application{}
		if json.Unmarshal(data, a) != nil {
			return
		}
		a.Default()
		again := a.DeepCopy()
		again.Default()
		errs := again.Validate(nil)
		if !reflect.DeepEqual(a, again) {
			t.Errorf("Default or Validate changed an object with defaults: %+v became %+v", a, again)
		}
		for _, err := range errs {
			if err.Field == "" {
				t.Errorf("names no field: %v", err)
			}
		}
		if len(errs) > 0 {
			return
		}
		// What is valid can be worked with.
		for _, warning := range a.Warnings() {
			if !strings.HasPrefix(warning, "spec.") {
				t.Errorf("names no field: %s", warning)
			}
		}
		if port := a.Spec.ServicePort(); port < 1 || port > 65535 {
			t.Errorf("valid with port %d", port)
		}
		if s := a.Spec.Autoscaling; s != nil && *s.MinReplicas > s.MaxReplicas {
			t.Errorf("valid with %d to %d replicas", *s.MinReplicas, s.MaxReplicas)
		}
		if *a.Spec.Ingress.Enabled && !*a.Spec.Service.Enabled {
			t.Error("valid with an Ingress to no Service")
		}
	})
}
