/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// What an Application is, unless it says otherwise.
const (
	DefaultReplicas         = 1
	DefaultPort             = 8080
	DefaultIngressClassName = "nginx"
	DefaultIngressHost      = "example.foo.com"
	DefaultIngressPath      = "/"
	DefaultMinReplicas      = 1

	// DefaultCPUUtilizationPercentage is what an autoscaler aims at if nothing is
	// said.
	DefaultCPUUtilizationPercentage = 80
)

// PortName is the name of the container's one port, spec.port: probes may use it.
const PortName = "http"

// Default fills in what the schema defaults, for objects that did not come by it.
//
// What follows from another field stays empty: if service.port were written into
// an object, it would no longer follow port. Use ServicePort instead.
func (a *Application) Default() {
	s := &a.Spec
	set(&s.Replicas, ptr.To[int32](DefaultReplicas))
	set(&s.Port, ptr.To[int32](DefaultPort))
	set(&s.Service.Enabled, ptr.To(true))
	set(&s.Service.Type, corev1.ServiceTypeClusterIP)
	set(&s.Ingress.Enabled, ptr.To(true))
	set(&s.Ingress.ClassName, DefaultIngressClassName)
	set(&s.Ingress.Host, DefaultIngressHost)
	set(&s.Ingress.Path, DefaultIngressPath)
	for i := range s.Env {
		if from := s.Env[i].ValueFrom; from != nil && from.FileKeyRef != nil {
			set(&from.FileKeyRef.Optional, ptr.To(false))
		}
	}
	if s.Autoscaling != nil {
		set(&s.Autoscaling.MinReplicas, ptr.To[int32](DefaultMinReplicas))
	}
	if p := s.Probes; p != nil {
		for _, probe := range []*Probe{p.Liveness, p.Readiness, p.Startup} {
			if probe != nil && probe.GRPC != nil {
				set(&probe.GRPC.Service, ptr.To(""))
			}
		}
	}
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// ServicePort returns the port of the Service of a defaulted Application.
func (s *ApplicationSpec) ServicePort() int32 { return ptr.Deref(s.Service.Port, *s.Port) }
