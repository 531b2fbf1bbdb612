// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/fakeapi"
)

// server is a fake API server with Services and ConfigMaps in one namespace.
type server struct{ *fakeapi.Server }

func newServer() *server { return &server{fakeapi.New()} }

func named(name string) cache.ObjectName { return cache.NewObjectName(key.Namespace, name) }

// client returns the clientset of an operator that dies with ctx: the server gets no request after that.
func (s *server) client(ctx context.Context) *fake.Clientset {
	client := s.Kube()
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return ctx.Err() != nil, nil, ctx.Err() })
	return client
}

// serve stores a Service as another client does; nil deletes it.
func (s *server) serve(name string, service *corev1.Service) {
	live := fakeapi.Get[*corev1.Service](s.Server, named(name))
	switch {
	case service == nil:
		s.Remove("services", named(name))
	case live == nil:
		s.Put(service)
	default:
		fakeapi.Edit(s.Server, named(name), "user", func(changed *corev1.Service) {
			*changed = *service.DeepCopy()
			changed.Generation = live.Generation
		})
	}
}

// alter changes a ConfigMap as another client does.
func (s *server) alter(name string, with func(*corev1.ConfigMap)) {
	fakeapi.Edit(s.Server, named(name), "other-client", with)
}

// put stores a ConfigMap of another owner, and drop deletes one.
func (s *server) put(object *corev1.ConfigMap) { s.Put(object) }

func (s *server) drop(name string) { s.Remove("configmaps", named(name)) }

// collect deletes the ConfigMaps of Services that are gone, as the garbage collector does.
func (s *server) collect() { s.CollectGarbage() }

// onWrites returns a function for Before or After that calls answer for writes alone.
func onWrites(answer func(fakeapi.Request) error) func(fakeapi.Request) error {
	return func(r fakeapi.Request) error {
		if r.Writes() {
			return answer(r)
		}
		return nil
	}
}

// asked returns the requests since the last call, without those of informers.
func (s *server) asked() []string {
	var asked []string
	for _, r := range s.Requests() {
		if r.Verb != "list" {
			asked = append(asked, r.Action()+" "+r.Name)
		}
	}
	s.Forget()
	return asked
}

// data returns the data of a ConfigMap; nil if there is none.
func (s *server) data(name string) map[string]string {
	if configMap := fakeapi.Get[*corev1.ConfigMap](s.Server, named(name)); configMap != nil {
		return configMap.Data
	}
	return nil
}
