// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

func TestAFreedNameIsTaken(t *testing.T) {
	s := newServer(application())
	taken("ingresses", false, nil)(s)
	s.settleBeside(t)
	if got := reasonOf(s.app(), v1.ConditionConflict); got != child.ReasonConflict {
		t.Fatalf("Conflict has reason %s, want %s", got, child.ReasonConflict)
	}
	s.remove("ingresses")
	o := s.connect()
	var all []string
	for range 3 {
		requests, _, err := o.sync(t)
		must.Succeed(t, err)
		all = append(all, requests...)
		o.catchUp()
	}
	if want := []string{"create ingresses", statusRequest}; !slices.Equal(all, want) {
		t.Errorf("requests %q, want %q", all, want)
	}
	over := []string{"Normal RolledOut Pods: 1 wanted, 1 available", "Normal AsExpected Nothing is wrong"}
	if events := o.sent(); !slices.Equal(events, over) {
		t.Errorf("events %q, want that it is over", events)
	}
	if reasonOf(s.app(), v1.ConditionConflict) != reasonNoConflict {
		t.Error("Conflict is not over")
	}
}

// settleBeside is settle where something is in the way: each sync meets it.
func (s *server) settleBeside(t *testing.T) {
	t.Helper()
	for i := range 4 {
		if _, _, err := s.connect().sync(t); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.rollOut()
		}
	}
}

// TestAnUnreadableDeployment is one with two variables of one name: which fields of it are whose, cannot be told.
func TestAnUnreadableDeployment(t *testing.T) {
	s := newServer(application()).settle(t)
	twice(s)
	was := s.child("deployments")
	s.edit(func(a *v1.Application) {
		a.Spec.Port, a.Spec.Autoscaling = ptr.To[int32](9000), &v1.Autoscaling{MinReplicas: ptr.To[int32](1), MaxReplicas: 5}
	})
	s.settle(t)
	wanted := desired(t, s.app())
	for _, resource := range []string{"services", "ingresses", "horizontalpodautoscalers"} {
		if owned := extract(t, fakeapi.WithOwnFields(s.child(resource))); !equality.Semantic.DeepEqual(owned, wanted[resource]) {
			t.Errorf("what is owned of %s is\n%s\nwanted is\n%s", resource, text(t, owned), text(t, wanted[resource]))
		}
	}
	if s.child("deployments") != was {
		t.Error("the Deployment was changed")
	}
	ready := meta.FindStatusCondition(s.app().Status.Conditions, glassback.ConditionReady)
	if ready.Status != metav1.ConditionFalse || ready.Reason != "DeploymentUnreadable" ||
		s.app().Status.ObservedGeneration != s.app().Generation {
		t.Errorf("Ready is %+v, want False: DeploymentUnreadable", ready)
	}
	alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env = nil })
	s.settle(t)
	if owned := extract(t, fakeapi.WithOwnFields(s.child("deployments"))); !equality.Semantic.DeepEqual(owned, wanted["deployments"]) {
		t.Errorf("once it can be told, owned is\n%s\nwanted is\n%s", text(t, owned), text(t, wanted["deployments"]))
	}
	if got := reasonOf(s.app(), glassback.ConditionReady); got != reasonRolledOut {
		t.Errorf("Ready has reason %s, want %s", got, reasonRolledOut)
	}
}

// What is not known to be gone stays in the status, so that it is looked for later.
func TestWhatIsHiddenStaysInTheStatus(t *testing.T) {
	s := newServer(application()).settle(t)
	hide("ingresses")(s)
	s.settleBeside(t)
	listed := func() bool {
		return slices.ContainsFunc(s.app().Status.Resources, func(r v1.ResourceReference) bool { return r.Kind == "Ingress" })
	}
	if got := reasonOf(s.app(), glassback.ConditionReady); got != "IngressHidden" || !listed() {
		t.Fatalf("Ready has reason %s and the status lists %v, want IngressHidden, and the Ingress", got, s.app().Status.Resources)
	}
	s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
	o := s.connect()
	requests, _, err := o.sync(t)
	if want := []string{"get ingresses", "delete ingresses", statusRequest}; err != nil || !slices.Equal(requests, want) {
		t.Errorf("requests %q, error %v; want %q", requests, err, want)
	}
	if s.child("ingresses") != nil || listed() {
		t.Errorf("the Ingress is %v and the status lists %v, want that it is gone", s.child("ingresses"), s.app().Status.Resources)
	}
}

// What has lost its label and then its use is not in the cache, but in the status.
func TestWhatLostItsLabelIsDeletedAllTheSame(t *testing.T) {
	for sentence, test := range map[string]struct {
		then     func(*server)
		requests []string
		left     bool
	}{
		"it is still ours": {
			then:     func(*server) {},
			requests: []string{"get ingresses", "delete ingresses", "update applications/status"},
		},
		"it is another owner's by now": {
			then:     func(s *server) { s.Put(foreign("ingresses", false, nil)) },
			requests: []string{"get ingresses", "update applications/status"}, left: true,
		},
		"it is gone": {
			then:     func(s *server) { s.remove("ingresses") },
			requests: []string{"get ingresses", "update applications/status"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application()).settle(t)
			alter(s, "ingresses", "other-client", func(i *networkingv1.Ingress) { delete(i.Labels, v1.LabelApplication) })
			s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
			test.then(s)
			requests, _, err := s.connect().sync(t)
			if err != nil || !slices.Equal(requests, test.requests) {
				t.Errorf("requests %q, want %q; error %v", requests, test.requests, err)
			}
			if there := s.child("ingresses") != nil; there != test.left {
				t.Errorf("an Ingress is left: %t, want %t", there, test.left)
			}
			if requests, _, err := s.connect().sync(t); err != nil || len(requests) > 0 {
				t.Errorf("once more: requests %q, error %v", requests, err)
			}
		})
	}
}
