// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

var (
	t0           = time.Date(2022, 1, 9, 13, 50, 0, 0, time.UTC)
	key          = cache.NewObjectName("default", "sample")
	configMapKey = cache.NewObjectName("default", "sample-greeting")
)

func example(change ...func(*v1.ApiExampleA)) *v1.ApiExampleA {
	e := &v1.ApiExampleA{
		ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "default", UID: "example", Generation: 1},
		Spec:       v1.ApiExampleASpec{FirstName: "Jimmy", LastName: "Zhuang"},
	}
	for _, f := range change {
		f(e)
	}
	return e
}

// server is a fake API server with one ApiExampleA, and one operator that does not run: a test brings its caches up to date, and calls
// Sync.
type server struct {
	*Controller
	*fakeapi.Server

	clock                *clocktesting.FakeClock
	examples, configMaps *fakeapi.Cache
	events               *record.FakeRecorder
}

func newServer(e *v1.ApiExampleA) *server {
	s := &server{clock: clocktesting.NewFakeClock(t0), Server: fakeapi.New()}
	s.Server.Clock = s.clock
	s.Put(e)
	s.connect()
	return s
}

// connect starts another operator, with caches that show the current state. Its informers are never started.
func (s *server) connect() {
	kube, client := s.Kube(), s.Glassback()
	kubeFactory, factory := kubeinformers.NewSharedInformerFactory(kube, 0), externalversions.NewSharedInformerFactory(client, 0)
	s.events = record.NewFakeRecorder(100)
	config := Config{
		Kube: kube, Client: client,
		ApiExampleAs: factory.Groupa().V1().ApiExampleAs(), ConfigMaps: kubeFactory.Core().V1().ConfigMaps(),
		Recorder: s.events, Clock: s.clock,
	}
	s.Controller = newController(config)
	s.examples = s.Cache("apiexampleas", config.ApiExampleAs.Informer().GetStore(), nil)
	s.configMaps = s.Cache("configmaps", config.ConfigMaps.Informer().GetStore(), fakeapi.Labelled(v1.LabelApiExampleA))
}

// example returns the ApiExampleA, and nil if there is none.
func (s *server) example() *v1.ApiExampleA { return fakeapi.Get[*v1.ApiExampleA](s.Server, key) }

// configMap returns the ConfigMap, and nil if there is none.
func (s *server) configMap() *corev1.ConfigMap {
	return fakeapi.Get[*corev1.ConfigMap](s.Server, configMapKey)
}

// alter changes the ConfigMap as another client does.
func (s *server) alter(change func(*corev1.ConfigMap)) {
	fakeapi.Edit(s.Server, configMapKey, "other-client", change)
}

// catchUp makes the caches show the current state.
func (s *server) catchUp() {
	s.examples.CatchUp()
	s.configMaps.CatchUp()
}

// quiet is a context without a log.
func quiet(t *testing.T) context.Context { return klog.NewContext(t.Context(), klog.Logger{}) }

// sync runs Sync once and returns the requests that it made.
func (s *server) sync(t *testing.T) ([]string, time.Duration, error) {
	t.Helper()
	made := len(s.Requests())
	after, err := s.Sync(recordtest.Context(quiet(t), t, Decisions), key)
	return fakeapi.Strings(s.Requests()[made:]), after, err
}

// settle runs Sync until there is nothing left to do.
func (s *server) settle(t *testing.T) *server {
	t.Helper()
	for range 5 {
		requests, _, err := s.sync(t)
		must.Succeed(t, err)
		s.catchUp()
		if len(requests) == 0 {
			s.forget()
			return s
		}
	}
	t.Fatal("it never settled")
	return nil
}

// forget forgets the requests and events so far.
func (s *server) forget() {
	s.Forget()
	s.sent()
}

// sent returns the events that the controller has sent.
func (s *server) sent() []string { return fakeapi.RecordedEvents(s.events) }
