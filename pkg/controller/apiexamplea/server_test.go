/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiexamplea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
)

var (
	t0  = time.Date(2022, 1, 9, 13, 50, 0, 0, time.UTC)
	key = cache.NewObjectName("default", "sample")
	gvk = corev1.SchemeGroupVersion.WithKind("ConfigMap")

	// manager merges what is applied, as an API server does.
	manager = sync.OnceValue(func() *managedfields.FieldManager {
		m, err := managedfields.NewDefaultFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme,
			undefaulted{}, scheme.Scheme, gvk, gvk.GroupVersion(), "", nil)
		if err != nil {
			panic(err)
		}
		return m
	})
)

// undefaulted is what a ConfigMap needs of defaults.
type undefaulted struct{}

func (undefaulted) Default(runtime.Object) {}

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

// server is what an API server does for this controller: it stores one ApiExampleA
// and one ConfigMap, merges what is applied, gives versions, and refuses writes by
// stale ones. An operator that is connected to it has caches that show what there
// was when they were brought up to date.
type server struct {
	*Controller
	clock     *clocktesting.FakeClock
	example   *v1.ApiExampleA   // nil if there is none
	configMap *corev1.ConfigMap // nil if there is none
	version   int
	// requests are what was asked for. An apply is a "create" if it is for an object
	// that does not exist, and an "unguarded apply" if it is for whatever there is.
	requests []string
	// before, if set, is called before each write; an error is the answer.
	before func(request string) error
	// hide is whether the caches show no ConfigMap, although there is one.
	hide                     bool
	examples, configMapCache cache.Store
	events                   *record.FakeRecorder
}

func newServer(e *v1.ApiExampleA) *server {
	s := &server{clock: clocktesting.NewFakeClock(t0), version: 100, example: e}
	s.edit(func(*v1.ApiExampleA) {})
	s.connect()
	s.catchUp()
	return s
}

// connect starts an operator, whose caches are empty.
func (s *server) connect() {
	config := s.config(func(kubeinformers.SharedInformerFactory, externalversions.SharedInformerFactory) {})
	s.Controller = newController(config)
	s.examples, s.configMapCache = config.ApiExampleAs.Informer().GetStore(), config.ConfigMaps.Informer().GetStore()
	s.events = config.Recorder.(*record.FakeRecorder)
}

// config has informers that are never started, unless prepare makes others.
func (s *server) config(prepare func(kubeinformers.SharedInformerFactory, externalversions.SharedInformerFactory)) Config {
	kube, client := &kubefake.Clientset{}, &glassbackfake.Clientset{}
	kube.AddReactor("*", "*", s.handle)
	client.AddReactor("*", "*", s.handle)
	kubeFactory, factory := kubeinformers.NewSharedInformerFactory(kube, 0), externalversions.NewSharedInformerFactory(client, 0)
	prepare(kubeFactory, factory)
	return Config{
		Kube: kube, Client: client,
		ApiExampleAs: factory.Groupa().V1().ApiExampleAs(), ConfigMaps: kubeFactory.Core().V1().ConfigMaps(),
		Recorder: record.NewFakeRecorder(100), Clock: s.clock,
	}
}

// edit changes the ApiExampleA as another client does.
func (s *server) edit(change func(*v1.ApiExampleA)) {
	s.version++
	s.example = s.example.DeepCopy()
	s.example.ResourceVersion = strconv.Itoa(s.version)
	change(s.example)
}

// alter changes the ConfigMap as another client does.
func (s *server) alter(change func(*corev1.ConfigMap)) {
	changed := s.configMap.DeepCopy()
	change(changed)
	merged, err := manager().Update(s.configMap.DeepCopy(), changed, "other-client")
	if err != nil {
		panic(err)
	}
	s.store(merged.(*corev1.ConfigMap))
}

// store stores a ConfigMap. If it is as before, it keeps its version.
func (s *server) store(object *corev1.ConfigMap) {
	for i := range object.ManagedFields {
		object.ManagedFields[i].Time = nil // It is the real time.
	}
	if s.configMap != nil {
		object.UID, object.ResourceVersion = s.configMap.UID, s.configMap.ResourceVersion
		if equality.Semantic.DeepEqual(object, s.configMap) {
			return
		}
	}
	s.version++
	object.ResourceVersion = strconv.Itoa(s.version)
	if object.UID == "" {
		object.UID = types.UID(fmt.Sprintf("configmap#%d", s.version))
	}
	s.configMap = object
}

// handle answers a request of a clientset.
func (s *server) handle(action clienttesting.Action) (bool, runtime.Object, error) {
	var obj runtime.Object
	var err error
	switch a := action.(type) {
	case clienttesting.PatchActionImpl:
		obj, err = s.apply(a)
	case clienttesting.GetActionImpl:
		s.requests = append(s.requests, "get "+a.Resource.Resource+" "+a.Name)
		if s.configMap == nil {
			return true, nil, apierrors.NewNotFound(a.Resource.GroupResource(), a.Name)
		}
		obj = s.configMap.DeepCopy()
	case clienttesting.UpdateActionImpl:
		obj, err = s.updateStatus(a)
	default:
		panic(fmt.Sprintf("the controller made a request that the test does not know: %v", action))
	}
	return true, obj, err
}

func (s *server) note(request string) error {
	s.requests = append(s.requests, request)
	if s.before != nil {
		return s.before(request)
	}
	return nil
}

func (s *server) apply(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	if action.PatchType != types.ApplyPatchType || action.PatchOptions.FieldManager != glassback.Name || !*action.PatchOptions.Force {
		panic(fmt.Sprintf("not a forced apply by %s: %s %+v", glassback.Name, action.PatchType, action.PatchOptions))
	}
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(action.Patch, &patch.Object); err != nil {
		return nil, err
	}
	version := patch.GetResourceVersion()
	verb := map[string]string{"": "unguarded apply", "1": "create"}[version]
	if verb == "" {
		verb = "apply"
	}
	if err := s.note(verb + " " + action.Resource.Resource + " " + action.Name); err != nil {
		return nil, err
	}
	live := &corev1.ConfigMap{}
	live.SetGroupVersionKind(gvk)
	if uid := patch.GetUID(); uid != "" && (s.configMap == nil || s.configMap.UID != uid) {
		return nil, apierrors.NewConflict(action.Resource.GroupResource(), action.Name, errors.New("the UID is another"))
	}
	if s.configMap != nil {
		live = s.configMap.DeepCopy()
		if version != "" && version != live.ResourceVersion {
			return nil, apierrors.NewConflict(action.Resource.GroupResource(), action.Name, errors.New("the version is another"))
		}
	}
	merged, err := manager().Apply(live, patch, glassback.Name, true)
	if err != nil {
		return nil, err
	}
	s.store(merged.(*corev1.ConfigMap).DeepCopy())
	return s.configMap.DeepCopy(), nil
}

func (s *server) updateStatus(action clienttesting.UpdateActionImpl) (runtime.Object, error) {
	updated := action.Object.(*v1.ApiExampleA)
	if err := s.note("update " + action.Resource.Resource + "/" + action.Subresource + " " + updated.Name); err != nil {
		return nil, err
	}
	if updated.ResourceVersion != s.example.ResourceVersion {
		return nil, apierrors.NewConflict(v1.Resource("apiexampleas"), updated.Name, errors.New("the version is another"))
	}
	s.edit(func(e *v1.ApiExampleA) { e.Status = *updated.Status.DeepCopy() })
	return s.example.DeepCopy(), nil
}

// catchUp makes the caches show the present, as the informers do.
func (s *server) catchUp() {
	var examples, configMaps []any
	if s.example != nil {
		examples = append(examples, s.example)
	}
	if s.configMap != nil && !s.hide && s.configMap.Labels[v1.LabelApiExampleA] != "" {
		shown := s.configMap.DeepCopy()
		shown.ManagedFields = nil
		for _, entry := range s.configMap.ManagedFields {
			if entry.Manager == glassback.Name && entry.Operation == metav1.ManagedFieldsOperationApply {
				shown.ManagedFields = append(shown.ManagedFields, entry)
			}
		}
		configMaps = append(configMaps, shown)
	}
	for store, objects := range map[cache.Store][]any{s.examples: examples, s.configMapCache: configMaps} {
		if err := store.Replace(objects, ""); err != nil {
			panic(err)
		}
	}
}

// quiet is a context without a log.
func quiet(t *testing.T) context.Context { return klog.NewContext(t.Context(), klog.Logger{}) }

// sync runs Sync once and returns the requests that it made.
func (s *server) sync(t *testing.T) ([]string, time.Duration, error) {
	t.Helper()
	made := len(s.requests)
	after, err := s.Sync(quiet(t), key)
	return s.requests[made:], after, err
}

// settle runs Sync until there is nothing left to do.
func (s *server) settle(t *testing.T) *server {
	t.Helper()
	for range 5 {
		requests, _, err := s.sync(t)
		if err != nil {
			t.Fatal(err)
		}
		s.catchUp()
		if len(requests) == 0 {
			s.requests, _ = nil, s.sent()
			return s
		}
	}
	t.Fatal("it never settled")
	return nil
}

// sent returns the events that the controller has sent.
func (s *server) sent() []string {
	var events []string
	for {
		select {
		case event := <-s.events.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}
