// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestWarnings(t *testing.T) {
	const (
		image       = "spec.image: without a tag, or with latest, two Pods may run different images"
		replicas    = "spec.replicas: only a new Deployment starts with it, then the autoscaler sets the number of Pods"
		noCPU       = "spec.resources.requests: without cpu the autoscaler cannot compute its utilization, unless a LimitRange sets it"
		noMemory    = "spec.resources.requests: without memory the autoscaler cannot compute its utilization, unless a LimitRange sets it"
		neverOneOf2 = "spec.pdb.minAvailable: with replicas 2 no Pod may be evicted, and a drain of its node never ends"
	)
	of := func(n int32, image string) *Application {
		return valid(func(s *ApplicationSpec) { s.Replicas, s.Image = &n, image })
	}
	with := func(n int32, pdb DisruptionBudget) *Application {
		return valid(func(s *ApplicationSpec) { s.Replicas, s.Image, s.PDB = &n, "nginx:1.27", &pdb })
	}
	stay := func(limit intstr.IntOrString) DisruptionBudget { return DisruptionBudget{MinAvailable: &limit} }
	leave := func(limit intstr.IntOrString) DisruptionBudget { return DisruptionBudget{MaxUnavailable: &limit} }
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
		"one Pod of any image gets none":                    {of(1, "nginx"), nil},
		"no Pod gets none":                                  {of(0, "nginx"), nil},
		"two Pods of an image without a tag":                {of(2, "nginx"), []string{image}},
		"two Pods of the latest":                            {of(2, "nginx:latest"), []string{image}},
		"the port of a registry is no tag":                  {of(2, "localhost:5000/app"), []string{image}},
		"a tag is one, whatever the registry":               {of(2, "localhost:5000/a/app:v1"), nil},
		"a digest is worth more than a tag":                 {of(2, "nginx:latest@sha256:0123456789abcdef"), nil},
		"a digest without a tag gets none":                  {of(2, "nginx@sha256:0123456789abcdef"), nil},
		"a tag that begins with latest is another":          {of(2, "nginx:latest-alpine"), nil},
		"an autoscaler that may make two Pods of the image": {scaled(func(s *ApplicationSpec) { s.Image = "nginx" }), []string{image}},
		"an autoscaler that may not": {scaled(func(s *ApplicationSpec) {
			s.Image, s.Autoscaling = "nginx", &Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 1}
		}), nil},

		"an autoscaler that can do its work gets none": {scaled(func(*ApplicationSpec) {}), nil},
		"a number that the autoscaler will change":     {scaled(func(s *ApplicationSpec) { s.Replicas = ptr.To[int32](3) }), []string{replicas}},
		"no Pods at all, which no autoscaler leaves it at": {scaled(func(s *ApplicationSpec) { s.Replicas = ptr.To[int32](0) }),
			[]string{replicas}},
		"no requests, and nothing said to aim at, which is CPU": {scaled(func(s *ApplicationSpec) { s.Resources = nil }), []string{noCPU}},
		"no requests to aim at a share of": {scaled(func(s *ApplicationSpec) {
			s.Resources = &corev1.ResourceRequirements{}
			s.Autoscaling.TargetCPUUtilizationPercentage, s.Autoscaling.TargetMemoryUtilizationPercentage = ptr.To[int32](80), ptr.To[int32](80)
		}), []string{noCPU, noMemory}},
		"a request for what is not aimed at": {scaled(func(s *ApplicationSpec) {
			delete(s.Resources.Requests, corev1.ResourceMemory)
			s.Autoscaling.TargetMemoryUtilizationPercentage = ptr.To[int32](80)
		}), []string{noMemory}},
		"what is not aimed at needs no request": {scaled(func(s *ApplicationSpec) {
			delete(s.Resources.Requests, corev1.ResourceCPU)
			s.Autoscaling.TargetMemoryUtilizationPercentage = ptr.To[int32](80)
		}), nil},
		"a limit is a request too": {scaled(func(s *ApplicationSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: s.Resources.Requests}
		}), nil},

		"a budget that says nothing lets one Pod go":   {with(1, DisruptionBudget{}), nil},
		"one of two must stay":                         {with(2, stay(number(1))), nil},
		"two of two must stay":                         {with(2, stay(number(2))), []string{neverOneOf2}},
		"more must stay than there are":                {with(2, stay(number(3))), []string{neverOneOf2}},
		"all must stay":                                {with(2, stay(share("100%"))), []string{neverOneOf2}},
		"half of two must stay":                        {with(2, stay(share("50%"))), nil},
		"more than half of two is both":                {with(2, stay(share("51%"))), []string{neverOneOf2}},
		"none must stay":                               {with(2, stay(share("0%"))), nil},
		"one of two may go":                            {with(2, leave(number(1))), nil},
		"one percent of two may go, which is one":      {with(2, leave(share("1%"))), nil},
		"where there are no Pods there is none to go":  {with(0, stay(number(1))), nil},
		"none of no Pods may go":                       {with(0, leave(number(0))), nil},
		"nine of ten must stay, by a share":            {with(10, stay(share("90%"))), nil},
		"nine and a half of ten are ten":               {with(10, stay(share("91%"))), []string{strings.Replace(neverOneOf2, "2", "10", 1)}},
		"half of the only one must stay, which is all": {with(1, stay(share("50%"))), []string{strings.Replace(neverOneOf2, "2", "1", 1)}},
		"none of two may go": {with(2, leave(number(0))),
			[]string{"spec.pdb.maxUnavailable: with replicas 2 no Pod may be evicted, and a drain of its node never ends"}},
		"no share of two may go": {with(2, leave(share("0%"))),
			[]string{"spec.pdb.maxUnavailable: with replicas 2 no Pod may be evicted, and a drain of its node never ends"}},
		"an autoscaler that goes below what must stay": {scaled(func(s *ApplicationSpec) { s.PDB = ptr.To(stay(number(2))) }),
			[]string{"spec.pdb.minAvailable: with minReplicas 2 no Pod may be evicted, and a drain of its node never ends"}},
		"an autoscaler that does not": {scaled(func(s *ApplicationSpec) { s.PDB = ptr.To(stay(number(1))) }), nil},

		"everything at once": {scaled(func(s *ApplicationSpec) {
			s.Image, s.Replicas, s.Resources, s.PDB = "nginx:latest", ptr.To[int32](10000), nil, ptr.To(stay(share("100%")))
			s.Autoscaling = &Autoscaling{MinReplicas: ptr.To[int32](10000), MaxReplicas: 10000}
		}), []string{image, replicas, noCPU,
			"spec.pdb.minAvailable: with minReplicas 10000 no Pod may be evicted, and a drain of its node never ends"}},
	} {
		t.Run(name, func(t *testing.T) {
			if errs := test.object.Validate(nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			got := test.object.Warnings()
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, warning := range got {
				if len(warning) > 120 {
					t.Errorf("too long for one line: %q", warning)
				}
			}
		})
	}
}

func TestWithoutAWarningThereIsNoAllocation(t *testing.T) {
	for name, pdb := range map[string]*DisruptionBudget{
		"a number": {MinAvailable: ptr.To(intstr.FromInt32(1))}, "a share": {MaxUnavailable: ptr.To(intstr.FromString("10%"))}, "none": nil,
	} {
		a := valid(func(s *ApplicationSpec) { s.Image, s.Replicas, s.PDB = "nginx:1.27", ptr.To[int32](2), pdb })
		if n := testing.AllocsPerRun(100, func() { a.Warnings() }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
