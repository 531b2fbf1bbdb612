// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/pipeline"
)

// pods lists Pods, and watches as long as it does not refuse.
type pods struct {
	names  []string
	refuse atomic.Bool
	events chan watch.Event
}

var errRefused = errors.New("refused")

func (p *pods) IsWatchListSemanticsUnSupported() bool { return true }

func (p *pods) List(metav1.ListOptions) (runtime.Object, error) {
	if p.refuse.Load() {
		return nil, errRefused
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, name := range p.names {
		list.Items = append(list.Items, *pod(name))
	}
	return list, nil
}

func (p *pods) Watch(metav1.ListOptions) (watch.Interface, error) {
	if p.refuse.Load() {
		return nil, errRefused
	}
	return watch.NewProxyWatcher(p.events), nil
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "1"}}
}

// start runs an informer of these pods until the test ends, or stop is called.
func (p *pods) start(t testing.TB, resource, namespace string) (informer *pipeline.Informer, stop func()) {
	p.events = make(chan watch.Event)
	informer = pipeline.New(pipeline.Config{ListerWatcher: p, Object: &corev1.Pod{}, Resource: resource})
	AddInformer(resource, namespace, informer)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return informer, stop
}

func feedInformers(t *testing.T) {
	informer, _ := (&pods{names: []string{"a"}}).start(t, unique("promised"), "")
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("it does not sync")
	}
}

// bubble runs a test in synctest, without client-go's error handlers: they wait by the
// difference of two clocks. What is added in it does not outlive it.
func bubble(t *testing.T, test func(t *testing.T)) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { watched.look() }) // after all other cleanups
		test(t)
	})
}

func (s scraped) expectInformer(t *testing.T, resource, namespace string, objects, synced, queued, backlog, watching, failures float64) {
	t.Helper()
	for name, want := range map[string]float64{
		"objects": objects, "synced": synced, "queue_length": queued, "backlog": backlog, "watching": watching, "watch_errors_total": failures,
	} {
		s.expect(t, want, "glassback_informer_"+name, "resource="+resource, "namespace="+namespace)
	}
}

func TestInformers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		resource := unique("pods")
		source := &pods{names: []string{"a", "b"}}
		source.refuse.Store(true)
		informer, stop := source.start(t, resource, "default")
		proceed := make(chan struct{})
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-proceed }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		scrape(t).expectInformer(t, resource, "default", 0, 0, 0, 0, 0, 1)
		source.refuse.Store(false)
		time.Sleep(time.Minute)
		scrape(t).expectInformer(t, resource, "default", 2, 1, 0, 2, 1, 1)
		source.events <- watch.Event{Type: watch.Added, Object: pod("c")}
		synctest.Wait()
		scrape(t).expectInformer(t, resource, "default", 3, 1, 0, 3, 1, 1)
		close(proceed)
		synctest.Wait()
		scrape(t).expectInformer(t, resource, "default", 3, 1, 0, 0, 1, 1)

		stop()
		s := scrape(t)
		if m := s.series("glassback_informer_objects", "resource="+resource, "namespace=default"); m != nil {
			t.Errorf("an informer that has stopped is shown: %v", m)
		}
		s.expect(t, 1, "glassback_informer_watch_errors_total", "resource="+resource, "namespace=default")
	})
}

// Every Secret has an informer, and the Services of two controllers have two.
func TestInformersOfOneResourceAreOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		services := unique("services")
		good, bad := &pods{names: []string{"a", "b", "c"}}, &pods{}
		bad.refuse.Store(true)
		good.start(t, services, "")
		_, stop := bad.start(t, services, "")
		(&pods{}).start(t, services, "elsewhere")
		synctest.Wait()
		s := scrape(t)
		s.expectInformer(t, services, "", 3, 0, 0, 0, 0, 1)
		s.expectInformer(t, services, "elsewhere", 0, 1, 0, 0, 1, 0)
		stop()
		scrape(t).expectInformer(t, services, "", 3, 1, 0, 0, 1, 1)
		for range 3 {
			another := &pods{}
			another.refuse.Store(true)
			_, stop := another.start(t, services, "")
			synctest.Wait()
			stop()
		}
		scrape(t).expectInformer(t, services, "", 3, 1, 0, 0, 1, 4)
	})
}

// Stopped informers are dropped also where metrics are never scraped.
func TestInformersThatHaveStoppedAreLetGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		scrape(t)
		before := len(watched.all)
		for range 100 {
			_, stop := (&pods{}).start(t, "secrets", "")
			stop()
		}
		if got := len(watched.all); got > before+1 {
			t.Errorf("%d informers are kept, want 1", got-before)
		}
	})
}

// BenchmarkInformers is the share of a scrape that informers have.
func BenchmarkInformers(b *testing.B) {
	for _, objects := range []int{0, 10_000} {
		b.Run(fmt.Sprint(objects), func(b *testing.B) {
			source := &pods{}
			for n := range objects {
				source.names = append(source.names, fmt.Sprintf("some-deployment-7d4b9c6f5-%05d", n))
			}
			informer, stop := source.start(b, "bench", "")
			defer stop()
			if !cache.WaitForCacheSync(b.Context().Done(), informer.HasSynced) {
				b.Fatal("it does not sync")
			}
			b.ReportAllocs()
			for b.Loop() {
				watched.look()
			}
		})
	}
}
