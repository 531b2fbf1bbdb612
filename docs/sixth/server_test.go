/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package sixth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// manager merges what is applied, as an API server does.
var manager = sync.OnceValue(func() *managedfields.FieldManager {
	m, err := managedfields.NewDefaultFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme,
		undefaulted{}, scheme.Scheme, corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion, "", nil)
	if err != nil {
		panic(err)
	}
	return m
})

// undefaulted sets no defaults: a ConfigMap has none.
type undefaulted struct{}

func (undefaulted) Default(runtime.Object) {}

// server makes a fake clientset answer like an API server, as far as this controller needs it. It sets resourceVersions,
// refuses writes with a stale one, checks the preconditions of a delete, merges server-side applies, and selects by label
// in lists and watches.
type server struct {
	mu       sync.Mutex
	version  int
	services map[string]*corev1.Service
	maps     map[string]*corev1.ConfigMap
	history  []change // for watches that begin at an older resourceVersion
	watches  map[*watch.RaceFreeFakeWatcher]watching
	requests []string // gets of the controller, and writes: "create web-address"
	// before and after, if set, are called with each of these; an error is the answer,
	// and after it the server has done what was asked.
	before, after func(request string) error
}

// change is one state of an object that another one followed. Either may be nil.
type change struct {
	version  int
	was, now metav1.Object
}

type watching struct {
	resource string
	selector labels.Selector
}

func newServer() *server {
	return &server{
		version:  100,
		services: map[string]*corev1.Service{},
		maps:     map[string]*corev1.ConfigMap{},
		watches:  map[*watch.RaceFreeFakeWatcher]watching{},
	}
}

// client returns the clientset of an operator that ends with ctx: later requests do not reach the server.
func (s *server) client(ctx context.Context) *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if ctx.Err() != nil {
			return true, nil, ctx.Err()
		}
		return s.handle(action)
	})
	client.AddWatchReactor("*", s.watch)
	return client
}

// serve stores a Service as another client does; nil deletes it.
func (s *server) serve(name string, service *corev1.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	was := s.services[name]
	c := change{version: s.version}
	if was != nil {
		c.was = was
	}
	if service == nil {
		delete(s.services, name)
	} else {
		service = service.DeepCopy()
		service.ResourceVersion = strconv.Itoa(s.version)
		s.services[name] = service
		c.now = service
	}
	s.notify(c)
}

// alter changes a ConfigMap as another client does.
func (s *server) alter(name string, with func(*corev1.ConfigMap)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.maps[name].DeepCopy()
	with(changed)
	merged, err := manager().Update(s.maps[name].DeepCopy(), changed, "other-client")
	if err != nil {
		panic(err)
	}
	s.store(merged.(*corev1.ConfigMap))
}

// put stores a ConfigMap of another owner, and drop deletes one.
func (s *server) put(object *corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(object)
}

func (s *server) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(name)
}

func (s *server) remove(name string) {
	s.version++
	was := s.maps[name]
	delete(s.maps, name)
	s.notify(change{version: s.version, was: was})
}

// store stores a ConfigMap. If it is as before, it keeps its version.
func (s *server) store(object *corev1.ConfigMap) {
	for i := range object.ManagedFields {
		object.ManagedFields[i].Time = nil
	}
	c := change{now: object}
	if was := s.maps[object.Name]; was != nil {
		object.UID, object.ResourceVersion = was.UID, was.ResourceVersion
		if equality.Semantic.DeepEqual(object, was) {
			return
		}
		c.was = was
	}
	s.version++
	c.version, object.ResourceVersion = s.version, strconv.Itoa(s.version)
	if object.UID == "" {
		object.UID = types.UID(fmt.Sprintf("uid-%d", s.version))
	}
	s.maps[object.Name] = object
	s.notify(c)
}

// notify sends a change to all watches.
func (s *server) notify(c change) {
	s.history = append(s.history, c)
	for w, of := range s.watches {
		of.send(w, c)
	}
}

// send sends a change to a watch. For the watch, an object that is no longer selected is deleted.
func (of watching) send(to *watch.RaceFreeFakeWatcher, c change) {
	resource := func(o metav1.Object) string {
		if _, ok := o.(*corev1.Service); ok {
			return "services"
		}
		return "configmaps"
	}
	shows := func(o metav1.Object) bool {
		return o != nil && resource(o) == of.resource && of.selector.Matches(labels.Set(o.GetLabels()))
	}
	switch was, now := shows(c.was), shows(c.now); {
	case was && now:
		to.Modify(copied(c.now))
	case now:
		to.Add(copied(c.now))
	case was:
		gone := copied(c.was)
		gone.(metav1.Object).SetResourceVersion(strconv.Itoa(c.version))
		to.Delete(gone)
	}
}

func copied(o metav1.Object) runtime.Object { return o.(runtime.Object).DeepCopyObject() }

func (s *server) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	asked := action.(clienttesting.WatchActionImpl)
	s.mu.Lock()
	defer s.mu.Unlock()
	w, of := watch.NewRaceFreeFake(), watching{asked.Resource.Resource, asked.WatchRestrictions.Labels}
	since, err := strconv.Atoi(asked.ListOptions.ResourceVersion)
	if err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	for _, c := range s.history {
		if c.version > since {
			of.send(w, c)
		}
	}
	s.watches[w] = of
	return true, w, nil
}

// handle answers a request of the clientset, other than a watch.
func (s *server) handle(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch a := action.(type) {
	case clienttesting.ListActionImpl:
		return true, s.list(a.Resource.Resource), nil
	case clienttesting.GetActionImpl:
		s.requests = append(s.requests, "get "+a.Name)
		if s.maps[a.Name] == nil {
			return true, nil, apierrors.NewNotFound(a.Resource.GroupResource(), a.Name)
		}
		return true, s.maps[a.Name].DeepCopy(), nil
	case clienttesting.PatchActionImpl:
		return s.write(verbOf(a), a.Name, func() (runtime.Object, error) { return s.apply(a) })
	case clienttesting.DeleteActionImpl:
		return s.write("delete", a.Name, func() (runtime.Object, error) { return nil, s.delete(a) })
	}
	panic(fmt.Sprintf("the controller made a request that the test does not know: %v", action))
}

func (s *server) list(resource string) runtime.Object {
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}
	if resource == "services" {
		list := &corev1.ServiceList{ListMeta: meta}
		for _, service := range s.services {
			list.Items = append(list.Items, *service.DeepCopy())
		}
		return list
	}
	list := &corev1.ConfigMapList{ListMeta: meta}
	for _, configMap := range s.maps {
		list.Items = append(list.Items, *configMap.DeepCopy())
	}
	return list // The clientset selects.
}

// write carries out a request, between before and after.
func (s *server) write(verb, name string, do func() (runtime.Object, error)) (bool, runtime.Object, error) {
	request := verb + " " + name
	s.requests = append(s.requests, request)
	if s.before != nil {
		if err := s.before(request); err != nil {
			return true, nil, err
		}
	}
	obj, err := do()
	if err == nil && s.after != nil {
		err = s.after(request)
	}
	return true, obj, err
}

// patched returns the body of an apply.
func patched(action clienttesting.PatchActionImpl) *unstructured.Unstructured {
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(action.Patch, &patch.Object); err != nil {
		panic(err)
	}
	return patch
}

// verbOf distinguishes an apply that can only create, an apply that can only update, and an apply that can do both. The
// last one could take over an object of another owner.
func verbOf(action clienttesting.PatchActionImpl) string {
	switch patched(action).GetResourceVersion() {
	case "":
		return "unguarded apply"
	case "1":
		return "create"
	}
	return "apply"
}

func (s *server) apply(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	if action.PatchType != types.ApplyPatchType || action.PatchOptions.FieldManager != glassback.Name || !*action.PatchOptions.Force {
		panic(fmt.Sprintf("not a forced apply by %s: %s %+v", glassback.Name, action.PatchType, action.PatchOptions))
	}
	patch, live := patched(action), &corev1.ConfigMap{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if was := s.maps[action.Name]; was != nil {
		live = was.DeepCopy()
	}
	if uid := patch.GetUID(); uid != "" && uid != live.UID {
		return nil, apierrors.NewConflict(corev1.Resource("configmaps"), action.Name, errors.New("the UID is another"))
	}
	if live.UID != "" && patch.GetResourceVersion() != live.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource("configmaps"), action.Name, errors.New("the version is another"))
	}
	merged, err := manager().Apply(live, patch, glassback.Name, true)
	if err != nil {
		return nil, err
	}
	s.store(merged.(*corev1.ConfigMap).DeepCopy())
	return s.maps[action.Name].DeepCopy(), nil
}

func (s *server) delete(action clienttesting.DeleteActionImpl) error {
	live, only := s.maps[action.Name], action.DeleteOptions.Preconditions
	switch {
	case only == nil || only.UID == nil || only.ResourceVersion == nil:
		panic("a delete without preconditions")
	case live == nil:
		return apierrors.NewNotFound(corev1.Resource("configmaps"), action.Name)
	case live.UID != *only.UID || live.ResourceVersion != *only.ResourceVersion:
		return apierrors.NewConflict(corev1.Resource("configmaps"), action.Name, errors.New("it is another one"))
	}
	s.remove(action.Name)
	return nil
}

// collect deletes the ConfigMaps of deleted Services, as the garbage collector does.
func (s *server) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, configMap := range s.maps {
		owner := metav1.GetControllerOfNoCopy(configMap)
		if owner != nil && (s.services[owner.Name] == nil || s.services[owner.Name].UID != owner.UID) {
			s.remove(name)
		}
	}
}

// asked returns the requests since the last call.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// data returns the data of a ConfigMap; nil if it does not exist.
func (s *server) data(name string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ptr.Deref(s.maps[name], corev1.ConfigMap{}).Data
}
