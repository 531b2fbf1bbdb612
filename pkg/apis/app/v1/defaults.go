// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The defaults of an Application.
const (
	DefaultReplicas         = 1
	DefaultPort             = 8080
	DefaultIngressClassName = "nginx"
	DefaultIngressHost      = "example.foo.com"
	DefaultIngressPath      = "/"
	DefaultMinReplicas      = 1

	// DefaultCPUUtilizationPercentage is the target of an autoscaler if the spec has none.
	DefaultCPUUtilizationPercentage = 80
)

// PortName is the name of the only port of the container, spec.port. Probes may use it.
const PortName = "http"

// Default sets the defaults of the schema, for objects without them.
//
// It does not set service.port: a stored value would no longer follow port. Use
// ServicePort instead.
func (a *Application) Default() {
	s := &a.Spec
	set(&s.Replicas, ptr.To[int32](DefaultReplicas))
	set(&s.Port, ptr.To[int32](DefaultPort))
	set(&s.Service.Enabled, ptr.To(true))
	set(&s.Service.Type, corev1.ServiceTypeClusterIP)
	set(&s.Ingress.Enabled, ptr.To(true))
	set(&s.Ingress.ClassName, ptr.To(DefaultIngressClassName))
	set(&s.Ingress.Host, DefaultIngressHost)
	set(&s.Ingress.Path, DefaultIngressPath)
	for i := range s.Env {
		if from := s.Env[i].ValueFrom; from != nil && from.FileKeyRef != nil {
			set(&from.FileKeyRef.Optional, ptr.To(false))
		}
	}
	if s.PodTemplate != nil {
		s.PodTemplate.Default()
		set(&s.PodTemplate.AutomountServiceAccountToken, ptr.To(false))
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
