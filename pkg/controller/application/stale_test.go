// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
)

func TestSyncDoesNotActOnACacheOlderThanItsWrites(t *testing.T) {
	s := newServer(application())
	o := s.connect()
	if requests, _, _ := o.sync(t); len(requests) != 3 {
		t.Fatalf("requests %q, want three creates", requests)
	}
	for _, resource := range []string{"deployments", "services", "ingresses"} {
		if requests, after, _ := o.sync(t); len(requests) != 0 || after != 5*time.Second {
			t.Errorf("requests %q and after %s before the cache shows the %s, want none and 5s", requests, after, resource)
		}
		o.caches[resource].CatchUp()
	}
	if requests, _, _ := o.sync(t); !slices.Equal(requests, []string{statusRequest}) {
		t.Errorf("requests %q once the caches show all, want the status", requests)
	}
	if requests, after, _ := o.sync(t); len(requests) != 0 || after != 5*time.Second {
		t.Errorf("requests %q and after %s before the cache shows the status, want none and 5s", requests, after)
	}
	o.catchUp()
	s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
	o.catchUp()
	if requests, _, _ := o.sync(t); !slices.Equal(requests, []string{"delete ingresses"}) {
		t.Errorf("requests %q, want a delete", requests)
	}
	if requests, after, _ := o.sync(t); len(requests) != 0 || after != 5*time.Second {
		t.Errorf("requests %q and after %s before the cache shows the deletion, want none and 5s", requests, after)
	}
	s.clock.SetTime(s.clock.Now().Add(5 * time.Second))
	if requests, _, err := o.sync(t); !slices.Equal(requests, []string{"delete ingresses"}) || err != nil {
		t.Errorf("requests %q, error %v after 5s without an event, want the delete again, and no error of its 404", requests, err)
	}
}

// TestANewLeaderDoesNotUndoAChange: the caches of a standby show the present children, but a former Application. It becomes the leader.
func TestANewLeaderDoesNotUndoAChange(t *testing.T) {
	for sentence, edit := range map[string]func(*v1.Application){
		"another image": func(a *v1.Application) { a.Spec.Image = "nginx:1.30" },
		"an autoscaler": func(a *v1.Application) { a.Spec.Autoscaling = &v1.Autoscaling{MaxReplicas: 5} },
		"no Ingress":    func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) },
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application()).settle(t)
			standby := s.connect()
			s.edit(edit)
			s.settle(t)
			for resource, shown := range standby.caches {
				if resource != "applications" {
					shown.CatchUp()
				}
			}
			was := s.Version()
			if requests, _, err := standby.sync(t); !apierrors.IsConflict(err) || s.Version() != was {
				t.Errorf("requests %q, error %v, want a conflict and no change", requests, err)
			}
			standby.catchUp()
			if requests, _, err := standby.sync(t); err != nil || len(requests) > 0 {
				t.Errorf("requests %q, error %v when the cache shows the Application, want none", requests, err)
			}
		})
	}
}

// TestTheStatusIsWrittenWithoutAnEvent sends no events. The next sync runs after the time that the last one returned.
func TestTheStatusIsWrittenWithoutAnEvent(t *testing.T) {
	for sentence, given := range map[string]func(*testing.T, *server){
		"after creates": func(*testing.T, *server) {},
		"after an update": func(t *testing.T, s *server) {
			s.settle(t).edit(func(a *v1.Application) { a.Spec.Image = "nginx:1.30" })
		},
		"after a delete": func(t *testing.T, s *server) {
			s.settle(t).edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
		},
		"after the delete of an Ingress without its label": func(t *testing.T, s *server) {
			unlabel("ingresses")(s.settle(t))
			s.edit(func(a *v1.Application) { a.Spec.Ingress.Enabled = ptr.To(false) })
		},
		"after creates, while a Service of another owner has the name": func(_ *testing.T, s *server) { taken("services", true, nil)(s) },
		"after an update, while the apply of the Service fails": func(t *testing.T, s *server) {
			s.settle(t).edit(func(a *v1.Application) { a.Spec.Port = ptr.To[int32](9000) })
			s.Before = failing("apply services", apierrors.NewBadRequest("no"))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application())
			given(t, s)
			o := s.connect()
			for calls := 1; ; calls++ {
				requests, after, err := o.sync(t)
				if err != nil || calls > 5 {
					t.Fatalf("requests %q, error %v in sync %d", requests, err, calls)
				}
				if slices.Contains(requests, statusRequest) {
					break
				}
				if after <= 0 {
					t.Fatalf("requests %q, and no time to sync again: the status is never written", requests)
				}
				s.clock.SetTime(s.clock.Now().Add(after))
				o.catchUp()
			}
			if s.app().Status.ObservedGeneration != s.app().Generation {
				t.Errorf("the status has observedGeneration %d, want %d", s.app().Status.ObservedGeneration, s.app().Generation)
			}
		})
	}
}

// TestAStaleCacheDoesNotChangeObjectsOfOtherOwners gives the Service another owner. The cache still shows the former Service.
func TestAStaleCacheDoesNotChangeObjectsOfOtherOwners(t *testing.T) {
	shop := metav1.OwnerReference{Kind: "Shop", Name: "other", UID: "other", Controller: ptr.To(true)}
	edits := map[string]func(*v1.Application){
		"an update": func(a *v1.Application) { a.Spec.Service.Port = ptr.To[int32](80) },
		"a delete":  onlyDeployment,
	}
	for sentence, changeOwner := range map[string]func(*server){
		"an object of another owner replaces the Service": taken("services", true, &shop),
		"another owner adopts the Service, which keeps its UID": func(s *server) {
			alter(s, "services", "other-client", func(child object) { child.SetOwnerReferences([]metav1.OwnerReference{shop}) })
		},
	} {
		for write, edit := range edits {
			t.Run(sentence+", before "+write, func(t *testing.T) {
				s := newServer(application()).settle(t)
				o := s.connect()
				changeOwner(s)
				before := s.child("services")
				s.edit(edit)
				o.caches["applications"].CatchUp()
				requests, _, err := o.sync(t)
				if err != nil && !apierrors.IsConflict(err) {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(requests, func(request string) bool { return strings.HasSuffix(request, " services") }) {
					t.Errorf("requests %q, want one for the Service", requests)
				}
				if s.child("services") != before {
					t.Error("the Service of another owner was changed or deleted")
				}
			})
		}
	}
}
