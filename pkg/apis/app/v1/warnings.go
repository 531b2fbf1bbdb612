// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Warnings returns what is valid but unwise in a valid Application with defaults, or nil.
// Each warning begins with the field. kubectl prints them.
func (a *Application) Warnings() []string {
	s := &a.Spec
	number, least, most := "replicas", *s.Replicas, *s.Replicas
	if s.Autoscaling != nil {
		number, least, most = "minReplicas", *s.Autoscaling.MinReplicas, s.Autoscaling.MaxReplicas
	}
	var warnings []string
	if most > 1 && isLatest(s.Image) {
		warnings = append(warnings, "spec.image: without a tag, or with latest, two Pods may run different images")
	}
	if (*s.Ingress.Enabled || s.Gateway != nil) && s.Ingress.Host == DefaultIngressHost {
		warnings = append(warnings, "spec.ingress.host: all Applications without one share "+DefaultIngressHost)
	}
	if s.Autoscaling != nil {
		warnings = append(warnings, s.autoscalingWarnings()...)
	}
	if s.PDB == nil || least == 0 {
		return warnings
	}
	if limit := s.PDB.holds(least); limit != "" {
		warnings = append(warnings, fmt.Sprintf(
			"spec.pdb.%s: with %s %d no Pod may be evicted, and a drain of its node never ends", limit, number, least))
	}
	return warnings
}

func (s *ApplicationSpec) autoscalingWarnings() []string {
	var warnings []string
	if *s.Replicas != DefaultReplicas {
		warnings = append(warnings, "spec.replicas: only a new Deployment starts with it, then the autoscaler sets the number of Pods")
	}
	cpu, memory := s.Autoscaling.TargetCPUUtilizationPercentage, s.Autoscaling.TargetMemoryUtilizationPercentage
	for _, metric := range []struct {
		of   corev1.ResourceName
		used bool
	}{{corev1.ResourceCPU, cpu != nil || memory == nil}, {corev1.ResourceMemory, memory != nil}} {
		if !metric.used {
			continue
		}
		for _, field := range s.withoutRequest(metric.of) {
			warnings = append(warnings, fmt.Sprintf(
				"spec.%s.requests: without %s the autoscaler cannot compute its utilization, unless a LimitRange sets it", field, metric.of))
		}
	}
	return warnings
}

// withoutRequest returns the fields of those containers that do not request a resource, and of which an autoscaler needs a request: all but
// init containers that end. A limit is a request too.
func (s *ApplicationSpec) withoutRequest(name corev1.ResourceName) (fields []string) {
	check := func(r corev1.ResourceRequirements, field string) {
		_, requested := r.Requests[name]
		if _, limited := r.Limits[name]; !requested && !limited {
			fields = append(fields, field)
		}
	}
	check(ptr.Deref(s.Resources, corev1.ResourceRequirements{}), "resources")
	t := ptr.Deref(s.PodTemplate, PodTemplate{})
	for i, c := range t.Containers {
		check(c.Resources, fmt.Sprintf("podTemplate.containers[%d].resources", i))
	}
	for i, c := range t.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			check(c.Resources, fmt.Sprintf("podTemplate.initContainers[%d].resources", i))
		}
	}
	return fields
}

// holds returns the field because of which the budget allows no eviction of n Pods, or "" if
// it allows one. It rounds a share up, as pkg/controller/disruption in Kubernetes does.
func (b *DisruptionBudget) holds(n int32) string {
	scaled := func(limit *intstr.IntOrString) int {
		value, _ := intstr.GetScaledValueFromIntOrPercent(limit, int(n), true) // A valid one has no error.
		return value
	}
	switch {
	case b.MinAvailable != nil && scaled(b.MinAvailable) >= int(n):
		return "minAvailable"
	case b.MaxUnavailable != nil && scaled(b.MaxUnavailable) == 0:
		return "maxUnavailable"
	}
	return ""
}

// isLatest returns whether the name of an image has the tag latest, or neither tag nor digest.
func isLatest(image string) bool {
	if strings.Contains(image, "@") {
		return false // a digest
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	return !tagged || tag == "latest"
}
