// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// httpAPI serves the writes of the controller of ApiExampleAs by HTTP.
type httpAPI struct{ *fakeapi.Server }

func (a httpAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var answer any
	var err error
	switch r.Method + " " + r.URL.Path {
	case "PATCH /api/v1/namespaces/default/configmaps/sample-greeting":
		configuration := &corev1ac.ConfigMapApplyConfiguration{}
		if err = json.Unmarshal(body, configuration); err == nil {
			answer, err = a.Kube().CoreV1().ConfigMaps("default").Apply(r.Context(), configuration,
				metav1.ApplyOptions{FieldManager: r.URL.Query().Get("fieldManager"), Force: r.URL.Query().Get("force") == "true"})
		}
	case "PUT /apis/groupa.k8s.zhuang.com/v1/namespaces/default/apiexampleas/sample/status":
		example := &v1.ApiExampleA{}
		if err = json.Unmarshal(body, example); err == nil {
			answer, err = a.Glassback().GroupaV1().ApiExampleAs("default").UpdateStatus(r.Context(), example, metav1.UpdateOptions{})
		}
	default:
		http.Error(w, r.Method+" "+r.URL.Path, http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// TestTracesOfAController runs the controller of ApiExampleAs until it is settled. Its writes and its spans go over the network.
func TestTracesOfAController(t *testing.T) {
	received := &collector{}
	otlp := httptest.NewServer(received)
	defer otlp.Close()
	tracer, err := Start(t.Context(), Config{Endpoint: otlp.URL, Version: "v1.2.3", Instance: "replica-1"})
	must.Succeed(t, err)
	defer tracer.Stop()
	api := httpAPI{fakeapi.New()}
	api.Put(&v1.ApiExampleA{
		ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "default"}, Spec: v1.ApiExampleASpec{FirstName: "Jimmy", LastName: "Zhuang"},
	})
	runController(t, api, tracer, func() bool {
		e := fakeapi.Get[*v1.ApiExampleA](api.Server, cache.NewObjectName("default", "sample"))
		return len(e.Status.Conditions) > 0
	})
	tracer.Stop()

	// The loop begins with all cached objects. A handler whose first notifications come later than that adds them again: such a sync makes no
	// request.
	syncs := slices.DeleteFunc(received.syncs(), func(s *tracepb.Span) bool { return len(received.children(s)) == 0 })
	if len(syncs) < 2 {
		t.Fatalf("%d syncs made requests, want two or more", len(syncs))
	}
	for i, want := range []struct{ cause, child, links string }{
		{"cause glassback.object.kind=ApiExampleA glassback.object.name=sample k8s.namespace.name=default glassback.verb=Added",
			"apply configmaps http.request.method=PATCH k8s.namespace.name=default glassback.object.name=sample-greeting", "[]"},
		{"cause glassback.object.kind=ConfigMap glassback.object.name=sample-greeting k8s.namespace.name=default glassback.verb=Added",
			"update apiexampleas.groupa.k8s.zhuang.com/status http.request.method=PUT k8s.namespace.name=default glassback.object.name=sample",
			"[0]"},
	} {
		children, events := received.children(syncs[i]), causes(syncs[i])
		isCause := func(event string) bool { return strings.HasPrefix(event, want.cause) }
		if syncs[i].GetName() != "sync apiexamplea" || !slices.ContainsFunc(events, isCause) {
			t.Errorf("sync %d is %s with %q, want %s", i, syncs[i].GetName(), events, want.cause)
		}
		if len(children) != 1 || !strings.HasPrefix(children[0], want.child) || !strings.HasSuffix(children[0], "=int_value:200") {
			t.Errorf("sync %d has %q below it, want %s", i, children, want.child)
		}
		if got := linked(syncs, syncs[i]); got != want.links {
			t.Errorf("sync %d has links to %s, want %s", i, got, want.links)
		}
		if syncs[i].GetEndTimeUnixNano() <= syncs[i].GetStartTimeUnixNano() || len(syncs[i].GetParentSpanId()) > 0 {
			t.Errorf("sync %d is no root span with a duration: %s", i, syncs[i])
		}
	}
	resource := attributesText(received.requests[0].GetResourceSpans()[0].GetResource().GetAttributes())
	for _, want := range []string{"service.name=glassback", "service.version=v1.2.3", "service.instance.id=replica-1"} {
		if !strings.Contains(resource, want) {
			t.Errorf("the resource is %s, without %s", resource, want)
		}
	}
	if requests := api.Requests(); slices.ContainsFunc(requests, func(r fakeapi.Request) bool { return r.Verb == "get" }) {
		t.Errorf("it made requests that it does not make without spans: %q", fakeapi.Strings(requests))
	}
}

// runController runs the controller of ApiExampleAs until done.
func runController(t *testing.T, api httpAPI, tracer *Tracer, done func() bool) {
	t.Helper()
	server := httptest.NewServer(api)
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.Wrap(tracer.Transport)
	c, err := clients.New(config)
	must.Succeed(t, err)
	kube, own := kubeinformers.NewSharedInformerFactory(api.Kube(), 0), externalversions.NewSharedInformerFactory(api.Glassback(), 0)
	controller, err := apiexamplea.New(apiexamplea.Config{
		Kube: c.Kube, Client: c.Glassback, ApiExampleAs: own.Groupa().V1().ApiExampleAs(), ConfigMaps: kube.Core().V1().ConfigMaps(),
		Recorder: record.NewFakeRecorder(100), Clock: clock.RealClock{}, Trace: trace.NewObserved(tracer.Observe),
	})
	must.Succeed(t, err)
	tracer.Wrap(controller.Loop())
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var running sync.WaitGroup
	defer func() {
		cancel()
		running.Wait()
		kube.Shutdown()
		own.Shutdown()
	}()
	kube.StartWithContext(ctx)
	own.StartWithContext(ctx)
	kube.WaitForCacheSyncWithContext(ctx)
	own.WaitForCacheSyncWithContext(ctx)
	running.Go(func() { controller.Run(ctx, context.WithoutCancel(ctx), 2) })
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not settle: %q", fakeapi.Strings(api.Requests()))
		}
	}
}
