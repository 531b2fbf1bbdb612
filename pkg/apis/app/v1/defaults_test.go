// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestDefault(t *testing.T) {
	defaults := ApplicationSpec{
		Replicas: ptr.To[int32](1),
		Port:     ptr.To[int32](8080),
		Service:  Service{Enabled: ptr.To(true), Type: corev1.ServiceTypeClusterIP},
		Ingress:  Ingress{Enabled: ptr.To(true), ClassName: "nginx", Host: "example.foo.com", Path: "/"},
	}
	set := ApplicationSpec{
		Image:       "nginx",
		Replicas:    ptr.To[int32](0),
		Port:        ptr.To[int32](80),
		Service:     Service{Enabled: ptr.To(false), Type: corev1.ServiceTypeNodePort, Port: ptr.To[int32](81)},
		Ingress:     Ingress{Enabled: ptr.To(false), ClassName: "traefik", Host: "*.example.com", Path: "/shop"},
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
		"defaults get no more defaults": {defaults, defaults},
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

func TestServicePort(t *testing.T) {
	for name, test := range map[string]struct {
		port, service *int32
		want          int32
	}{
		"not set, it is the default":               {nil, nil, 8080},
		"it follows the container's":               {ptr.To[int32](80), nil, 80},
		"set, it is that":                          {nil, ptr.To[int32](443), 443},
		"set, it does not follow the container's":  {ptr.To[int32](80), ptr.To[int32](443), 443},
		"it may be the same as the container's is": {ptr.To[int32](80), ptr.To[int32](80), 80},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Application{Spec: ApplicationSpec{Port: test.port, Service: Service{Port: test.service}}}
			a.Default()
			if got := a.Spec.ServicePort(); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
