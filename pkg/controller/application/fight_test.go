// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fakeapi"
)

// fights are what another controller may undo at once, and the reason that is told.
var fights = map[string]struct {
	undo   func(*server)
	reason string
}{
	"over the image": {func(s *server) {
		alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
	}, "DeploymentContested"},
	"over the number of replicas": {scaled(9), "DeploymentContested"},
	"over a port of the Service": {func(s *server) {
		alter(s, "services", "other-client", func(child *corev1.Service) { child.Spec.Ports[0].TargetPort = intstr.FromInt32(99) })
	}, "ServiceContested"},
	"over the label that the cache goes by": {unlabel("ingresses"), "IngressContested"},
	"over whether there is a Service":       {func(s *server) { s.remove("services") }, "ServiceContested"},
	"over whether there is a Deployment":    {func(s *server) { s.remove("deployments") }, "DeploymentContested"},
}

// count returns how many writes there are to children, and to the status.
func count(all []write) (children, statuses int) {
	for _, w := range all {
		if w.request == statusRequest {
			statuses++
		} else {
			children++
		}
	}
	return children, statuses
}

// deploy is what the Deployment's controller does, if there is a Deployment.
func deploy(s *server) {
	if d, ok := s.child("deployments").(*appsv1.Deployment); ok && d.Status.ObservedGeneration < d.Generation {
		s.rollOut()
	}
}

// TestAFight is against another controller that undoes every write at once, for an hour. Then it stops.
func TestAFight(t *testing.T) {
	for sentence, test := range fights {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](3) })).settle(t)
			o := s.connect()
			test.undo(s)
			all := o.run(t, time.Hour, func() { test.undo(s); deploy(s) })
			children, statuses := count(all)
			if children < 15 || children > 25 || statuses > 2 {
				t.Errorf("%d writes of children and %d of the status in an hour, want at most 25 and 2: %v", children, statuses, all)
			}
			if all[0].at != 0 || all[0].request == statusRequest {
				t.Errorf("the first write is %v, want the first change undone at once", all[0])
			}
			if at := slices.IndexFunc(all, func(w write) bool { return w.request == statusRequest }); at < 0 || all[at].at > time.Minute {
				t.Errorf("the status tells of it in %v, want it within a minute", all)
			}
			if got := reasonOf(s.app(), glassback.ConditionReady); got != test.reason {
				t.Errorf("Ready has reason %s, want %s", got, test.reason)
			}

			all = o.run(t, 6*time.Minute, func() { deploy(s) })
			if children, statuses := count(all); children != 1 || statuses > 2 {
				t.Errorf("once it stops: %v, want one repair, and that it is told", all)
			}
			for resource, wanted := range desired(t, s.app()) {
				if owned := text(t, extract(t, fakeapi.WithOwnFields(s.child(resource)))); owned != text(t, wanted) {
					t.Errorf("what is owned of %s is\n%s\nwanted is\n%s", resource, owned, text(t, wanted))
				}
			}
			if got := reasonOf(s.app(), glassback.ConditionReady); got != reasonRolledOut {
				t.Errorf("Ready has reason %s, want %s", got, reasonRolledOut)
			}
			events := o.sent()
			if n := len(events); n > 4 {
				t.Errorf("%d events of one fight: %q", n, events)
			}
		})
	}
}

// TestASlowFight is against one that takes its time: in between, all is well.
func TestASlowFight(t *testing.T) {
	for sentence, test := range fights {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application(func(a *v1.Application) { a.Spec.Replicas = ptr.To[int32](3) })).settle(t)
			o := s.connect()
			test.undo(s)
			statuses := 0
			children, others := count(o.run(t, time.Hour, func() {
				deploy(s)
				o.catchUp()
				_, n := count(o.run(t, 100*time.Millisecond, func() { t.Error("a second write") }))
				statuses += n
				test.undo(s)
				deploy(s)
			}))
			if statuses += others; children < 15 || children > 25 || statuses > 3*children {
				t.Errorf("%d writes of children and %d of the status in an hour", children, statuses)
			}
		})
	}
}

// TestNoFight is about changes that are undone at once, since they are few, or far between, or about another generation.
func TestNoFight(t *testing.T) {
	image := fights["over the image"].undo
	for sentence, test := range map[string]struct {
		times int
		next  func(*server)
	}{
		"three edits in a row":            {3, func(*server) {}},
		"an edit every minute, for hours": {200, func(s *server) { s.clock.SetTime(s.clock.Now().Add(time.Minute)) }},
		"an edit for every new generation": {
			20, func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Replicas = ptr.To(*a.Spec.Replicas + 1) }) },
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application()).settle(t)
			o := s.connect()
			for n := range test.times {
				image(s)
				deploy(s)
				o.catchUp()
				if requests, _, err := o.sync(t); err != nil || !slices.Equal(requests, []string{"apply deployments"}) {
					t.Fatalf("edit %d: requests %q, error %v; want it repaired at once", n, requests, err)
				}
				deploy(s)
				o.catchUp()
				test.next(s)
			}
		})
	}
}

// TestAFightHoldsUpNothingElse is about the other children, and the autoscaler.
func TestAFightHoldsUpNothingElse(t *testing.T) {
	s := newServer(application(full)).settle(t)
	o := s.connect()
	undo := fights["over the image"].undo
	undo(s)
	o.run(t, 10*time.Minute, func() { undo(s); deploy(s) })
	s.remove("services")
	alter(s, "horizontalpodautoscalers", "other-client", func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 100 })
	o.catchUp()
	requests, _, err := o.sync(t)
	if want := []string{"create services", "apply horizontalpodautoscalers"}; err != nil || !slices.Equal(requests, want) {
		t.Errorf("requests %q, error %v; want %q", requests, err, want)
	}
	// Another spec is brought about at once.
	s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
	o.catchUp()
	if requests, _, err := o.sync(t); err != nil || !slices.Equal(requests, []string{"apply deployments"}) {
		t.Errorf("requests %q, error %v; want the other image applied", requests, err)
	}
}

func TestAFightIsForgottenWithTheApplication(t *testing.T) {
	s := newServer(application()).settle(t)
	o := s.connect()
	undo := fights["over the image"].undo
	undo(s)
	o.run(t, 10*time.Minute, func() { undo(s); deploy(s) })
	was := s.app()
	s.Remove("applications", key)
	o.run(t, 0, func() {})
	s.Put(was)
	o.catchUp()
	if requests, _, err := o.sync(t); err != nil || !slices.Equal(requests, []string{"apply deployments"}) {
		t.Errorf("requests %q, error %v; want the repair at once", requests, err)
	}
}
