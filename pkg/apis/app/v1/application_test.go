// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// valid returns an Application that is valid, after mutate has been at its spec.
func valid(mutate func(s *ApplicationSpec)) *Application {
	a := &Application{ObjectMeta: metav1.ObjectMeta{Name: "sample"}}
	a.Spec.Image, a.Spec.Ingress.Host = "nginx", "shop.example.com"
	a.Default()
	mutate(&a.Spec)
	return a
}

func TestDefault(t *testing.T) {
	defaults := ApplicationSpec{
		Replicas: ptr.To[int32](1),
		Port:     ptr.To[int32](8080),
		Service:  Service{Enabled: ptr.To(true), Type: corev1.ServiceTypeClusterIP},
		Ingress:  Ingress{Enabled: ptr.To(true), ClassName: ptr.To("nginx"), Host: "example.foo.com", Path: "/"},
	}
	set := ApplicationSpec{
		Image:       "nginx",
		Replicas:    ptr.To[int32](0),
		Port:        ptr.To[int32](80),
		Service:     Service{Enabled: ptr.To(false), Type: corev1.ServiceTypeNodePort, Port: ptr.To[int32](81)},
		Ingress:     Ingress{Enabled: ptr.To(false), ClassName: ptr.To(""), Host: "*.example.com", Path: "/shop"},
		Autoscaling: &Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 3},
	}
	with := func(mutate func(s *ApplicationSpec)) ApplicationSpec {
		s := *defaults.DeepCopy()
		mutate(&s)
		return s
	}
	grpc := func(service *string) *Probes {
		return &Probes{Readiness: &Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80, Service: service}}}}
	}
	file := func(optional *bool) []EnvVar {
		return []EnvVar{{Name: "A"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{Optional: optional}}}}
	}
	for name, test := range map[string]struct{ spec, want ApplicationSpec }{
		"an empty spec gets what the schema defaults, and no port of its Service": {ApplicationSpec{}, defaults},
		"what is set stays, zero and false too":                                   {set, set},
		"an autoscaler gets a least number, and nothing to aim at": {ApplicationSpec{Autoscaling: &Autoscaling{MaxReplicas: 3}},
			with(func(s *ApplicationSpec) {
				s.Autoscaling = &Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 3}
			})},
		"a budget gets nothing": {ApplicationSpec{PDB: &DisruptionBudget{}}, with(func(s *ApplicationSpec) { s.PDB = &DisruptionBudget{} })},
		"a probe by gRPC gets an empty service": {ApplicationSpec{Probes: grpc(nil)},
			with(func(s *ApplicationSpec) { s.Probes = grpc(ptr.To("")) })},
		"a variable from a file is not optional": {ApplicationSpec{Env: file(nil)},
			with(func(s *ApplicationSpec) { s.Env = file(ptr.To(false)) })},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Application{Spec: *test.spec.DeepCopy()}
			a.Default()
			if !reflect.DeepEqual(a.Spec, test.want) {
				t.Errorf("got %+v, want %+v", a.Spec, test.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	const (
		image    = "spec.image: without a tag, or with latest, two Pods may run different images"
		host     = "spec.ingress.host: all Applications without one share example.foo.com"
		replicas = "spec.replicas: only a new Deployment starts with it, then the autoscaler sets the number of Pods"
		noCPU    = "spec.resources.requests: without cpu the autoscaler cannot compute its utilization, unless a LimitRange sets it"
		noMemory = "spec.resources.requests: without memory the autoscaler cannot compute its utilization, unless a LimitRange sets it"
	)
	never := func(field, of string) []string {
		return []string{"spec.pdb." + field + ": with " + of + " no Pod may be evicted, and a drain of its node never ends"}
	}
	of := func(n int32, image string) *Application {
		return valid(func(s *ApplicationSpec) { s.Replicas, s.Image = &n, image })
	}
	stay := func(n int32, limit intstr.IntOrString) *Application {
		return valid(func(s *ApplicationSpec) {
			s.Replicas, s.Image, s.PDB = &n, "nginx:1.27", &DisruptionBudget{MinAvailable: &limit}
		})
	}
	leave := func(n int32, limit intstr.IntOrString) *Application {
		return valid(func(s *ApplicationSpec) {
			s.Replicas, s.Image, s.PDB = &n, "nginx:1.27", &DisruptionBudget{MaxUnavailable: &limit}
		})
	}
	number, share := intstr.FromInt32, intstr.FromString
	scaled := func(mutate func(s *ApplicationSpec)) *Application {
		return valid(func(s *ApplicationSpec) {
			s.Image = "nginx:1.27"
			s.Autoscaling = &Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 5}
			s.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}}
			mutate(s)
		})
	}
	for name, test := range map[string]struct {
		object *Application
		want   []string
	}{
		"one Pod of any image gets none":       {of(1, "nginx"), nil},
		"the host that all Applications share": {valid(func(s *ApplicationSpec) { s.Ingress.Host = DefaultIngressHost }), []string{host}},
		"the host of no Ingress": {valid(func(s *ApplicationSpec) {
			s.Ingress = Ingress{Enabled: ptr.To(false), Host: DefaultIngressHost}
		}), nil},
		"two Pods of the latest":                            {of(2, "nginx:latest"), []string{image}},
		"the port of a registry is no tag":                  {of(2, "localhost:5000/app"), []string{image}},
		"a tag is one, whatever the registry":               {of(2, "localhost:5000/a/app:v1"), nil},
		"a digest is worth more than a tag":                 {of(2, "nginx:latest@sha256:0123456789abcdef"), nil},
		"an autoscaler that may make two Pods of the image": {scaled(func(s *ApplicationSpec) { s.Image = "nginx" }), []string{image}},
		"an autoscaler that may not": {scaled(func(s *ApplicationSpec) {
			s.Image, s.Autoscaling = "nginx", &Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 1}
		}), nil},

		"an autoscaler that can do its work gets none": {scaled(func(*ApplicationSpec) {}), nil},
		"a number that the autoscaler will change":     {scaled(func(s *ApplicationSpec) { s.Replicas = ptr.To[int32](3) }), []string{replicas}},
		"no requests to aim at a share of": {scaled(func(s *ApplicationSpec) {
			s.Resources = &corev1.ResourceRequirements{}
			s.Autoscaling.TargetCPUUtilizationPercentage, s.Autoscaling.TargetMemoryUtilizationPercentage = ptr.To[int32](80), ptr.To[int32](80)
		}), []string{noCPU, noMemory}},
		"what is not aimed at needs no request": {scaled(func(s *ApplicationSpec) {
			delete(s.Resources.Requests, corev1.ResourceCPU)
			s.Autoscaling.TargetMemoryUtilizationPercentage = ptr.To[int32](80)
		}), nil},
		"a sidecar without a request, and an init container that ends": {scaled(func(s *ApplicationSpec) {
			s.PodTemplate = &PodTemplate{PodTemplate: glassback.PodTemplate{
				Containers: []corev1.Container{{Name: "exporter"}}, InitContainers: []corev1.Container{{Name: "migrate"}},
			}}
		}), []string{"spec.podTemplate.containers[0].resources.requests" + strings.TrimPrefix(noCPU, "spec.resources.requests")}},
		"a limit is a request too": {scaled(func(s *ApplicationSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: s.Resources.Requests}
		}), nil},

		"one of two must stay":                    {stay(2, number(1)), nil},
		"two of two must stay":                    {stay(2, number(2)), never("minAvailable", "replicas 2")},
		"half of two must stay":                   {stay(2, share("50%")), nil},
		"more than half of two is both":           {stay(2, share("51%")), never("minAvailable", "replicas 2")},
		"where there are no Pods is none to stay": {stay(0, number(1)), nil},
		"one percent of two may go, which is one": {leave(2, share("1%")), nil},
		"no share of two may go":                  {leave(2, share("0%")), never("maxUnavailable", "replicas 2")},
		"an autoscaler that goes below what must stay": {
			scaled(func(s *ApplicationSpec) { s.PDB = &DisruptionBudget{MinAvailable: ptr.To(number(2))} }),
			never("minAvailable", "minReplicas 2"),
		},

		"everything at once": {scaled(func(s *ApplicationSpec) {
			s.Image, s.Replicas, s.Resources, s.PDB = "nginx:latest", ptr.To[int32](9), nil, &DisruptionBudget{MinAvailable: ptr.To(share("100%"))}
		}), append([]string{image, replicas, noCPU}, never("minAvailable", "minReplicas 2")...)},
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
