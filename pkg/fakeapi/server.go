// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	gatewayscheme "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"

	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
)

// firstVersion is the resourceVersion of an empty server.
const firstVersion = 100

// Scheme has the types of Kubernetes and of Glassback.
var Scheme = func() *runtime.Scheme {
	all := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(all))
	utilruntime.Must(glassbackscheme.AddToScheme(all))
	utilruntime.Must(gatewayscheme.AddToScheme(all))
	return all
}()

// Object is an object of any kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Event is one change of one object. Tests must not change Was and Now: the server shares them.
type Event struct {
	Version  int64
	Resource string
	Was      Object // nil after a creation
	Now      Object // nil after a deletion
	// Request is the request of a client that made the change, and nil if the test itself made it.
	Request *Request
}

// key returns the name of the object.
func (e Event) key() cache.ObjectName {
	if e.Now != nil {
		return cache.MetaObjectToName(e.Now)
	}
	return cache.MetaObjectToName(e.Was)
}

// Server is a fake API server. Tests set its fields before they use the server, or while no operator runs.
//
// A resource is named by its plural alone, such as "deployments". Objects that the server returns are shared: tests must not change them.
type Server struct {
	// Clock gives the time of creations and deletions.
	Clock clock.PassiveClock
	// Before is called before each request of a client; its error is the answer, and the request has no effect. After is called after each
	// request of a clientset that succeeded; its error replaces the answer. Both may sleep, panic, and change objects.
	Before, After func(Request) error
	// Admit completes an object that a client creates or changes, as defaulting and mutating webhooks do. It is called with the lock
	// of the server, and must not call the server. The stored object, was, is nil for a creation.
	Admit func(was, now Object)
	// Lag returns the delay of the next event of a watch. The delay counts from the arrival of the previous event, or from now if that is
	// later. watch is the name of the Source, or the resource.
	Lag func(watch string) time.Duration

	mu        sync.Mutex
	version   int64
	compacted int64 // A watch cannot start before this version.
	objects   map[string]map[cache.ObjectName]Object
	created   map[string]int // how many objects of a resource and a name the server has created
	events    []Event
	requests  []Request
	streams   []*stream
	managers  map[schema.GroupVersionKind]*managedfields.FieldManager
}

// New returns a server without objects.
func New() *Server {
	return &Server{
		Clock: clock.RealClock{}, version: firstVersion, compacted: firstVersion,
		objects: map[string]map[cache.ObjectName]Object{}, created: map[string]int{},
		managers: map[schema.GroupVersionKind]*managedfields.FieldManager{},
	}
}

// Get returns an object, and nil if there is none.
func (s *Server) Get(resource string, key cache.ObjectName) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[resource][key]
}

// Get returns an object of type T, and nil if there is none.
func Get[T Object](s *Server, key cache.ObjectName) T {
	obj, _ := s.Get(resourceFor[T](), key).(T)
	return obj
}

// List returns all objects of type T, in the order of their names.
func List[T Object](s *Server) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []T
	for _, obj := range s.sorted(resourceFor[T]()) {
		all = append(all, obj.(T))
	}
	return all
}

// All returns all objects, in the order of their resources and names.
func (s *Server) All() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Object
	for _, resource := range slices.Sorted(maps.Keys(s.objects)) {
		all = append(all, s.sorted(resource)...)
	}
	return all
}

// sorted returns the objects of a resource in the order of their names. The caller holds mu.
func (s *Server) sorted(resource string) []Object {
	return slices.SortedFunc(maps.Values(s.objects[resource]), func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// Version returns the resourceVersion of the last change.
func (s *Server) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Events returns all changes since the server was made.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.events)
}

// Requests returns the requests of all clients, without watches, since the last call of Forget.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.requests)
}

// Forget forgets the requests so far.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// Put creates objects on behalf of the test. It replaces an existing object of the same name by a new object. The new object keeps the UID,
// the generation and the creation time that the test has set.
func (s *Server) Put(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range objects {
		resource := ResourceOf(obj)
		if was := s.objects[resource][cache.MetaObjectToName(obj)]; was != nil {
			s.store(nil, resource, was, nil)
		}
		s.create(nil, resource, clone(obj))
	}
}

// Edit changes an object as another client does, with its field manager. It panics if the object does not exist. Without a field
// manager, Edit does not track managedFields.
func (s *Server) Edit(resource string, key cache.ObjectName, manager string, change func(Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.objects[resource][key]
	if was == nil {
		panic(fmt.Sprintf("there is no %s %s to edit", resource, key))
	}
	now := clone(was)
	change(now)
	if manager != "" && len(was.GetManagedFields()) > 0 {
		now = s.track(was, now, manager)
	}
	s.replace(nil, resource, was, now)
}

// Edit changes an object of type T: see Server.Edit.
func Edit[T Object](s *Server, key cache.ObjectName, manager string, change func(T)) {
	s.Edit(resourceFor[T](), key, manager, func(obj Object) { change(obj.(T)) })
}

// Delete deletes an object as another client does. An object with a finalizer stays until an edit removes the finalizer.
func (s *Server) Delete(resource string, key cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.objects[resource][key]; was != nil {
		s.delete(nil, resource, was)
	}
}

// Remove removes an object at once, also one with a finalizer.
func (s *Server) Remove(resource string, key cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.objects[resource][key]; was != nil {
		s.store(nil, resource, was, nil)
	}
}

// CollectGarbage deletes all objects whose controller does not exist any more.
func (s *Server) CollectGarbage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := map[types.UID]bool{}
	for _, objects := range s.objects {
		for _, obj := range objects {
			live[obj.GetUID()] = true
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(s.objects)) {
		for _, obj := range s.sorted(resource) {
			if owner := metav1.GetControllerOfNoCopy(obj); owner != nil && !live[owner.UID] {
				s.delete(nil, resource, obj)
			}
		}
	}
}

// create stores a new object, which the server owns from then on. The caller holds mu.
func (s *Server) create(by *Request, resource string, obj Object) Object {
	made := resource + "-" + obj.GetName()
	s.created[made]++
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("uid-of-%s-%d", made, s.created[made])))
	}
	if specOf(obj) != nil && obj.GetGeneration() == 0 {
		obj.SetGeneration(1)
	}
	if obj.GetCreationTimestamp().Time.IsZero() {
		obj.SetCreationTimestamp(metav1.NewTime(s.Clock.Now().Truncate(time.Second)))
	}
	if s.Admit != nil && by != nil {
		s.Admit(nil, obj)
	}
	return s.store(by, resource, nil, obj)
}

// replace stores a changed object, which the server owns from then on, and deletes it if no finalizer keeps it any more. It returns
// the stored object. The caller holds mu.
func (s *Server) replace(by *Request, resource string, was, now Object) Object {
	if now.GetDeletionTimestamp() != nil && len(now.GetFinalizers()) == 0 {
		s.store(by, resource, was, nil)
		return now
	}
	now.SetUID(was.GetUID())
	now.SetCreationTimestamp(was.GetCreationTimestamp())
	now.SetResourceVersion(was.GetResourceVersion())
	if s.Admit != nil && by != nil {
		s.Admit(was, now)
	}
	normalize(now)
	if equality.Semantic.DeepEqual(was, now) {
		return was
	}
	if was.GetGeneration() == now.GetGeneration() && raisesGeneration(was, now) {
		now.SetGeneration(was.GetGeneration() + 1)
	}
	return s.store(by, resource, was, now)
}

// delete deletes an object, or marks it as being deleted if a finalizer keeps it. The caller holds mu.
func (s *Server) delete(by *Request, resource string, was Object) {
	switch {
	case len(was.GetFinalizers()) == 0:
		s.store(by, resource, was, nil)
	case was.GetDeletionTimestamp() == nil:
		now := clone(was)
		now.SetDeletionTimestamp(ptr.To(metav1.NewTime(s.Clock.Now().Truncate(time.Second))))
		if now.GetGeneration() > 0 {
			now.SetGeneration(now.GetGeneration() + 1)
		}
		s.store(by, resource, was, now)
	}
}

// store makes a version of a change, and sends it to all watches. One of was and now may be nil. The caller holds mu.
func (s *Server) store(by *Request, resource string, was, now Object) Object {
	s.version++
	event := Event{Version: s.version, Resource: resource, Was: was, Now: now, Request: by}
	if now == nil {
		delete(s.objects[resource], event.key())
	} else {
		normalize(now)
		now.SetResourceVersion(strconv.FormatInt(s.version, 10))
		if s.objects[resource] == nil {
			s.objects[resource] = map[cache.ObjectName]Object{}
		}
		s.objects[resource][event.key()] = now
	}
	s.events = append(s.events, event)
	for _, w := range s.streams {
		w.send(event)
	}
	return now
}

// normalize removes the fields in which two equal objects may differ: the type, and the real times in managedFields.
func normalize(obj Object) {
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	for i := range obj.GetManagedFields() {
		obj.GetManagedFields()[i].Time = nil
	}
}

// raisesGeneration returns whether a change raises the generation. For Deployments, a change of annotations does, too.
func raisesGeneration(was, now Object) bool {
	if _, ok := was.(*appsv1.Deployment); ok && !equality.Semantic.DeepEqual(was.GetAnnotations(), now.GetAnnotations()) {
		return true
	}
	return !equality.Semantic.DeepEqual(specOf(was), specOf(now))
}

// specOf returns the spec of an object, and nil for a kind without a spec.
func specOf(obj Object) any {
	if spec := reflect.ValueOf(obj).Elem().FieldByName("Spec"); spec.IsValid() {
		return spec.Interface()
	}
	return nil
}

func clone(obj Object) Object { return obj.DeepCopyObject().(Object) }

// resources caches the resource of each type.
var resources sync.Map

// ResourceOf returns the resource of an object, such as "configmaps".
func ResourceOf(obj runtime.Object) string {
	kind := reflect.TypeOf(obj)
	if known, ok := resources.Load(kind); ok {
		return known.(string)
	}
	gvr, _ := meta.UnsafeGuessKindToResource(kindOf(obj))
	resources.Store(kind, gvr.Resource)
	return gvr.Resource
}

func resourceFor[T Object]() string {
	return ResourceOf(reflect.New(reflect.TypeFor[T]().Elem()).Interface().(runtime.Object))
}

func kindOf(obj runtime.Object) schema.GroupVersionKind {
	kinds, _, err := Scheme.ObjectKinds(obj)
	if err != nil {
		panic(err)
	}
	return kinds[0]
}
