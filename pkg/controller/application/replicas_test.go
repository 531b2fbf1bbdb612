// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
)

// TestReplicasAreHandedOver is about the way of the field to the autoscaler and
// back: there is no moment at which no field manager sets the number.
func TestReplicasAreHandedOver(t *testing.T) {
	s := newServer(application(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](3) })).settle(t)
	expect := func(when string, want int32) {
		t.Helper()
		for _, d := range s.deployments(0) {
			if *d.Spec.Replicas == 1 {
				t.Fatalf("%s: at version %s there was 1 replica, which no spec asked for", when, d.ResourceVersion)
			}
		}
		if got := *s.child("deployments").(*appsv1.Deployment).Spec.Replicas; got != want {
			t.Errorf("%s: %d replicas, want %d", when, got, want)
		}
	}
	s.edit(func(a *v1.Application) {
		a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 10}
	})
	s.settle(t)
	expect("an autoscaler is wanted", 3)
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	s.settle(t)
	expect("an update before the autoscaler's first word", 3)
	scaled(7)(s)
	s.settle(t)
	expect("the autoscaler has scaled", 7)
	s.edit(func(a *v1.Application) { a.Spec.Image, a.Spec.Replicas = "nginx:1.31", ptr.To[int32](4) })
	s.settle(t)
	expect("an update after that, and another number in the spec", 7)
	s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil })
	s.settle(t)
	expect("no autoscaler is wanted any more", 4)
}

// autoscaled has an autoscaler that has asked for 4 where the spec says 3.
func autoscaled(t *testing.T) *server {
	t.Helper()
	s := newServer(application(full)).settle(t)
	scaled(4)(s)
	return s.settle(t)
}

func replicasOf(s *server) int32 {
	if d, ok := s.child("deployments").(*appsv1.Deployment); ok {
		return *d.Spec.Replicas
	}
	return 0
}

// TestTheAutoscalersNumberIsKept is about what may happen to a Deployment that its autoscaler has scaled to 4.
func TestTheAutoscalersNumberIsKept(t *testing.T) {
	unwanted := func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil }) }
	for sentence, test := range map[string]struct {
		given []func(*server)
		want  int32
		never []int32 // numbers that there must not be in between
	}{
		"it loses its label": {given: []func(*server){unlabel("deployments")}, want: 4, never: []int32{1, 3}},
		"it and the autoscaler lose their labels": {
			given: []func(*server){unlabel("deployments"), unlabel("horizontalpodautoscalers")}, want: 4, never: []int32{1, 3},
		},
		"another client deletes it": {given: []func(*server){func(s *server) { s.remove("deployments") }}, want: 4, never: []int32{1, 3}},
		"another client deletes the autoscaler": {
			given: []func(*server){func(s *server) { s.remove("horizontalpodautoscalers") }}, want: 4, never: []int32{1, 3},
		},
		"the autoscaler is not wanted any more": {given: []func(*server){unwanted}, want: 3, never: []int32{1}},
		"the autoscaler is not wanted, and stays for a while": {
			given: []func(*server){func(s *server) { s.addFinalizer("horizontalpodautoscalers") }, unwanted}, want: 4, never: []int32{1, 3},
		},
		"the autoscaler is not wanted and stays, and another image is": {
			given: []func(*server){func(s *server) { s.addFinalizer("horizontalpodautoscalers") }, unwanted, func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
			}},
			want: 4, never: []int32{1, 3},
		},
		"the autoscaler is not wanted and stays, and another client deletes the Deployment": {
			given: []func(*server){func(s *server) { s.addFinalizer("horizontalpodautoscalers") }, unwanted, func(s *server) {
				s.remove("deployments")
			}},
			want: 4, never: []int32{1, 3},
		},
		"the autoscaler is not wanted, and the Deployment loses its label": {
			given: []func(*server){func(s *server) { s.addFinalizer("horizontalpodautoscalers") }, unwanted, unlabel("deployments")},
			want:  4, never: []int32{1, 3},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := autoscaled(t)
			was := len(s.Events())
			for _, change := range test.given {
				change(s)
			}
			s.settle(t)
			for _, d := range s.deployments(was) {
				if slices.Contains(test.never, *d.Spec.Replicas) {
					t.Fatalf("at version %s there are %d replicas", d.ResourceVersion, *d.Spec.Replicas)
				}
			}
			if got := replicasOf(s); got != test.want {
				t.Errorf("%d replicas, want %d", got, test.want)
			}
		})
	}
}

func TestALostLabelOfAnAutoscaledDeployment(t *testing.T) {
	s := autoscaled(t)
	unlabel("deployments")(s)
	requests, _, err := s.connect().sync(t)
	if want := []string{"create deployments", "get deployments", "apply deployments"}; err != nil || !slices.Equal(requests, want) {
		t.Errorf("requests %q, error %v; want %q", requests, err, want)
	}
	if got := replicasOf(s); got != 4 {
		t.Errorf("%d replicas, want the autoscaler's 4", got)
	}
	d := s.child("deployments").(*appsv1.Deployment)
	owned := extract(t, fakeapi.WithOwnFields(d)).(*appsv1ac.DeploymentApplyConfiguration)
	if owned.Spec.Replicas != nil || d.Labels[v1.LabelApplication] == "" {
		t.Errorf("owned is\n%s\nwant the label, and the number left to the autoscaler", text(t, owned))
	}
}

// TestAnAutoscalerThatStaysForAWhile is one that has a finalizer: as long as it is there, it scales.
func TestAnAutoscalerThatStaysForAWhile(t *testing.T) {
	s := autoscaled(t)
	s.addFinalizer("horizontalpodautoscalers")
	s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil })
	s.settle(t)
	if h := s.child("horizontalpodautoscalers"); h == nil || h.GetDeletionTimestamp() == nil || len(s.app().Status.Resources) != 5 {
		t.Fatalf("the autoscaler is %v and the status lists %v, want it on its way out", h, s.app().Status.Resources)
	}
	scaled(5)(s)
	if got := replicasOf(s.settle(t)); got != 5 {
		t.Errorf("%d replicas while the autoscaler asks for 5", got)
	}
	s.removeFinalizers("horizontalpodautoscalers")
	if got := replicasOf(s.settle(t)); got != 3 || len(s.app().Status.Resources) != 4 {
		t.Errorf("%d replicas and %v once the autoscaler is gone, want the 3 of the spec", got, s.app().Status.Resources)
	}
}

func TestAnUpdateDoesNotUndoTheAutoscaler(t *testing.T) {
	s := newServer(application(full)).settle(t)
	o := s.connect()
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	o.caches["applications"].CatchUp()
	scaled(5)(s) // and the cache does not show it
	requests, _, err := o.sync(t)
	if !apierrors.IsConflict(err) || !slices.Equal(requests, []string{"apply deployments"}) {
		t.Errorf("requests %q, error %v; want one apply that meets a conflict", requests, err)
	}
	if got := *s.child("deployments").(*appsv1.Deployment).Spec.Replicas; got != 5 {
		t.Errorf("%d replicas, want the autoscaler's 5", got)
	}
}

func TestAnAutoscalerThatIsRewritten(t *testing.T) {
	s := newServer(application(full)).settle(t)
	alter(s, "horizontalpodautoscalers", "other-client", func(h *autoscalingv2.HorizontalPodAutoscaler) {
		h.Spec.MaxReplicas = 100
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
	})
	requests, _, err := s.connect().sync(t)
	if err != nil || !slices.Equal(requests, []string{"apply horizontalpodautoscalers"}) {
		t.Errorf("requests %q, error %v; want one apply", requests, err)
	}
	h := s.child("horizontalpodautoscalers").(*autoscalingv2.HorizontalPodAutoscaler)
	if h.Spec.MaxReplicas != 5 || h.Spec.Behavior == nil {
		t.Errorf("spec %+v, want the bound put back and the behavior left", h.Spec)
	}
}

func TestAnUpdateDoesNotBringBackWhatIsGone(t *testing.T) {
	s := newServer(application(full)).settle(t)
	scaled(4)(s)
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	o := s.connect()
	s.remove("deployments") // and the cache does not show it
	if requests, _, err := o.sync(t); !apierrors.IsConflict(err) || s.child("deployments") != nil {
		t.Errorf("requests %q, error %v; want a conflict, and no Deployment without a number of replicas", requests, err)
	}
}
