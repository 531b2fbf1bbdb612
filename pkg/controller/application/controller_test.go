// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

const (
	statusRequest = "update applications/status"
	toSee         = 5 * time.Second // how long a write is waited for at most

	takenMessage = "Service sample exists already and has no controller: rename or delete one of the two"
)

// full has all five children.
func full(a *v1.Application) {
	a.Spec.Replicas = ptr.To[int32](3)
	a.Spec.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 5}
	a.Spec.PDB = &v1.DisruptionBudget{}
}

// onlyDeployment has neither Service nor Ingress.
func onlyDeployment(a *v1.Application) {
	a.Spec.Service.Enabled, a.Spec.Ingress.Enabled = ptr.To(false), ptr.To(false)
}

func negative(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](-1) }

func paused(a *v1.Application) {
	a.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
}

func deleted(s *server) {
	s.edit(func(a *v1.Application) {
		a.DeletionTimestamp, a.Finalizers = ptr.To(metav1.NewTime(t0)), []string{"example.com/held"}
	})
}

// taken puts an object of another owner where a child is, or is to be.
func taken(resource string, labelled bool, controller *metav1.OwnerReference) func(*server) {
	return func(s *server) {
		s.Put(foreign(resource, labelled, controller))
	}
}

// terminate is what a delete does to a child that has a finalizer.
func terminate(resource string) func(*server) {
	return func(s *server) {
		s.addFinalizer(resource)
		s.delete(resource)
	}
}

// twice gives the Deployment two variables of one name, as a client may that does not apply.
func twice(s *server) {
	alter(s, "deployments", "other-client", func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "TWICE", Value: "1"}, corev1.EnvVar{Name: "TWICE", Value: "2"})
	})
	s.rollOut()
}

// scaled is what the autoscaler does, if there is one.
func scaled(n int32) func(*server) {
	return func(s *server) {
		if s.child("horizontalpodautoscalers") != nil {
			alter(s, "horizontalpodautoscalers", "kube-controller-manager", func(h *autoscalingv2.HorizontalPodAutoscaler) {
				h.Status.DesiredReplicas = n
			})
		}
		alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func reasonOf(app *v1.Application, kind string) string {
	if condition := meta.FindStatusCondition(app.Status.Conditions, kind); condition != nil {
		return condition.Reason
	}
	return ""
}

func TestFromNothing(t *testing.T) {
	s := newServer(application())
	o := s.connect()
	var all []string
	for range 4 {
		requests, _, err := o.sync(t)
		must.Succeed(t, err)
		all = append(all, requests...)
		o.catchUp()
	}
	want := []string{"create services", "create deployments", "create ingresses", statusRequest}
	if !slices.Equal(all, want) {
		t.Errorf("requests %q, want %q and no more", all, want)
	}
	if got := reasonOf(s.app(), glassback.ConditionReady); got != reasonRollout || len(s.app().Status.Resources) != 3 {
		t.Errorf("the first status has reason %s and resources %v, want %s and all three", got, s.app().Status.Resources, reasonRollout)
	}
	if events := o.sent(); len(events) > 0 {
		t.Errorf("events %q, want none: the Deployment has its own", events)
	}
}

// TestOnceAndNoMore lets each change be acted on and seen, and then wants nothing to be left to do.
func TestOnceAndNoMore(t *testing.T) {
	for sentence, change := range map[string]func(*server){
		"another image": func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" }) },
		"fewer of everything": func(s *server) {
			s.edit(func(a *v1.Application) { onlyDeployment(a); a.Spec.Autoscaling, a.Spec.PDB = nil, nil })
		},
		"an autoscaler that has scaled, and goes": func(s *server) { scaled(5)(s); s.edit(func(a *v1.Application) { a.Spec.Autoscaling = nil }) },
		"other bounds": func(s *server) { s.edit(func(a *v1.Application) { *a.Spec.Autoscaling.MinReplicas = 4 }) },
		"drift of all children": func(s *server) {
			for _, resource := range resourceNames {
				alter(s, resource, "other-client", func(child object) {
					labels := child.GetLabels()
					labels["app.kubernetes.io/name"] = "theirs"
					child.SetLabels(labels)
				})
			}
		},
		"all children are gone": func(s *server) {
			for _, resource := range resourceNames {
				s.remove(resource)
			}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application(full)).settle(t)
			change(s)
			s.settle(t)
			wanted := desired(t, s.app())
			for _, resource := range resourceNames {
				configuration, is := wanted[resource]
				child := s.child(resource)
				if (child != nil) != is {
					t.Errorf("%s is %v, want one: %t", resource, child, is)
				}
				if child == nil || !is {
					continue
				}
				if owned := extract(t, fakeapi.WithOwnFields(child)); !equality.Semantic.DeepEqual(owned, configuration) {
					t.Errorf("what is owned of %s is\n%s\nwanted is\n%s", resource, text(t, owned), text(t, configuration))
				}
			}
		})
	}
}

func unlabel(resource string) func(*server) {
	return func(s *server) {
		alter(s, resource, "other-client", func(child object) { child.SetLabels(nil) })
	}
}

// TestAnnotationsOfTheDeployment are not the operator's, and each makes another
// generation of the Deployment, which its controller has yet to look at.
func TestAnnotationsOfTheDeployment(t *testing.T) {
	s := newServer(application()).settle(t)
	o := s.connect()
	for i := range 10 {
		alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Annotations = map[string]string{"theirs": strconv.Itoa(i)} })
		if d := s.child("deployments").(*appsv1.Deployment); d.Status.ObservedGeneration == d.Generation {
			t.Fatal("the generation is as before")
		}
		for range 2 { // before the Deployment's controller has looked at it, and after
			o.catchUp()
			if requests, after, err := o.sync(t); len(requests) > 0 || after != 0 || err != nil {
				t.Fatalf("annotation %d: requests %q, after %s, error %v; want nothing", i, requests, after, err)
			}
			s.rollOut()
		}
	}
	if events := o.sent(); len(events) > 0 {
		t.Errorf("events %q, want none", events)
	}
}

func TestALongErrorFitsIntoTheStatus(t *testing.T) {
	s := newServer(application()).settle(t)
	s.remove("services")
	s.Before = failing("create services", apierrors.NewBadRequest(strings.Repeat("long ", 10_000)))
	if _, _, err := s.connect().sync(t); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.app().Status.Conditions {
		if len(c.Message) > 1100 {
			t.Errorf("the message of %s has %d characters", c.Type, len(c.Message))
		}
	}
}
