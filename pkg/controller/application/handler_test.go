// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/must"
)

// deaf is an informer without a watch: only a test calls its handlers.
type deaf struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (d *deaf) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	d.handlers = append(d.handlers, handler)
	return nil, nil
}

func (d *deaf) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return d.AddEventHandler(handler)
}

// wired is what New makes, with the informers that it has its handlers on. It is called in a bubble of testing/synctest.
func wired(t *testing.T, s *server) (*Controller, map[string]*deaf) {
	t.Helper()
	informers := map[string]*deaf{}
	informer := func(resource string, example runtime.Object) *deaf {
		informers[resource] = &deaf{SharedIndexInformer: cache.NewSharedIndexInformer(nil, example, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
		return informers[resource]
	}
	c, err := New(s.config(func(kube kubeinformers.SharedInformerFactory, own externalversions.SharedInformerFactory) {
		own.InformerFor(&v1.Application{}, func(versioned.Interface, time.Duration) cache.SharedIndexInformer {
			return informer("applications", &v1.Application{})
		})
		for resource, example := range map[string]runtime.Object{
			"deployments": &appsv1.Deployment{}, "services": &corev1.Service{}, "ingresses": &networkingv1.Ingress{},
			"horizontalpodautoscalers": &autoscalingv2.HorizontalPodAutoscaler{}, "poddisruptionbudgets": &policyv1.PodDisruptionBudget{},
		} {
			kube.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
				return informer(resource, example)
			})
		}
	}))
	must.Succeed(t, err)
	go c.Run(t.Context(), t.Context(), 0) // Handlers add keys, and no worker takes them.
	synctest.Wait()
	return c, informers
}

// queued takes the keys that wait to be synced.
func queued(c *Controller) []cache.ObjectName {
	var keys []cache.ObjectName
	for range c.loop.Queue.Len() {
		key, _ := c.loop.Queue.Get()
		c.loop.Queue.Done(key)
		keys = append(keys, key)
	}
	return keys
}

func TestEventsOfEveryKindLeadToASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(application(full)).settle(t)
		c, informers := wired(t, s)
		if len(informers) != 6 {
			t.Fatalf("%d informers, want 6", len(informers))
		}
		for resource, informer := range informers {
			if len(informer.handlers) != 1 {
				t.Fatalf("%d handlers for %s, want 1", len(informer.handlers), resource)
			}
			handler := informer.handlers[0]
			var obj object = s.app()
			theirs := object(application(func(a *v1.Application) { a.Name = "other" }))
			want := []cache.ObjectName{cache.NewObjectName("default", "other")}
			if resource != "applications" {
				obj, want = s.child(resource), nil
				theirs = foreign(resource, true, &metav1.OwnerReference{
					APIVersion: "other/v1", Kind: "Application", Name: "sample", Controller: ptr.To(true),
				})
			}
			newer := obj.DeepCopyObject().(object)
			newer.SetResourceVersion("999")
			for event, happen := range map[string]func(object){
				"added":             func(obj object) { handler.OnAdd(obj, false) },
				"updated":           func(obj object) { handler.OnUpdate(obj, newer) },
				"deleted":           func(obj object) { handler.OnDelete(obj) },
				"deleted unwatched": func(obj object) { handler.OnDelete(cache.DeletedFinalStateUnknown{Key: key.String(), Obj: obj}) },
			} {
				happen(obj)
				if keys := queued(c); !slices.Equal(keys, []cache.ObjectName{key}) {
					t.Errorf("%s %s leads to syncs of %v, want the Application", resource, event, keys)
				}
				if event == "updated" {
					continue
				}
				happen(theirs)
				if keys := queued(c); !slices.Equal(keys, want) {
					t.Errorf("%s of another owner %s leads to syncs of %v, want %v", resource, event, keys, want)
				}
			}
		}
	})
}

// TestTombstones is about deletions that the watch has missed.
func TestTombstones(t *testing.T) {
	for sentence, test := range map[string]struct {
		resource string
		gone     func(*server)
		requests []string
	}{
		"of a child: it is made again": {"services", func(s *server) { s.remove("services") }, []string{"create services"}},
		"of the object: nothing":       {"applications", func(s *server) { s.Remove("applications", key) }, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(application()).settle(t)
				var obj any = s.app()
				if test.resource != "applications" {
					obj = s.child(test.resource)
				}
				c, informers := wired(t, s)
				test.gone(s)
				stores := map[string]cache.Store{}
				for resource, informer := range informers {
					stores[resource] = informer.GetStore()
				}
				s.operator(c, stores)
				informers[test.resource].handlers[0].OnDelete(cache.DeletedFinalStateUnknown{Key: key.String(), Obj: obj})
				for _, queued := range queued(c) {
					if _, err := c.Sync(t.Context(), queued); err != nil {
						t.Fatal(err)
					}
				}
				if requests := s.requests(0); !slices.Equal(requests, test.requests) {
					t.Errorf("requests %q, want %q", requests, test.requests)
				}
			})
		})
	}
}
