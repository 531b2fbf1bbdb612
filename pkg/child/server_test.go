/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import (
	"cmp"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// server is what an API server does with one name: it merges what is applied, by
// the same code, gives versions, and refuses writes by stale ones.
type server struct {
	object   *corev1.ConfigMap // nil if there is none
	version  int
	requests []string
	// before, if set, is called before each request is carried out; an error is the
	// answer.
	before func(request string) error
}

var (
	greeter  = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Greeter"}
	gvk      = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	resource = corev1.Resource("configmaps")
	manager  = sync.OnceValue(func() *managedfields.FieldManager {
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

// note records a request, and returns the error that it is answered with.
func (s *server) note(format string, args ...any) error {
	request := fmt.Sprintf(format, args...)
	s.requests = append(s.requests, request)
	if s.before != nil {
		return s.before(request)
	}
	return nil
}

func (s *server) Apply(_ context.Context, configuration *configuration, options metav1.ApplyOptions) (*corev1.ConfigMap, error) {
	data, err := json.Marshal(configuration)
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &patch.Object); err != nil {
		return nil, err
	}
	version := patch.GetResourceVersion()
	uid := cmp.Or(patch.GetUID(), "any")
	if err := s.note("apply %s uid %s version %s as %s, force %t", patch.GetName(), uid, version, options.FieldManager,
		options.Force); err != nil {
		return nil, err
	}
	if uid != "any" && (s.object == nil || uid != s.object.UID) {
		return nil, apierrors.NewConflict(resource, patch.GetName(), errors.New("the UID is another"))
	}
	if s.object == nil {
		empty := &corev1.ConfigMap{}
		empty.SetGroupVersionKind(gvk)
		return s.merge(empty, patch, options)
	}
	if version != "" && version != s.object.ResourceVersion {
		return nil, apierrors.NewConflict(resource, patch.GetName(), errors.New("the version is another"))
	}
	return s.merge(s.object.DeepCopy(), patch, options)
}

func (s *server) merge(live *corev1.ConfigMap, patch runtime.Object, options metav1.ApplyOptions) (*corev1.ConfigMap, error) {
	merged, err := manager().Apply(live, patch, options.FieldManager, options.Force)
	if err != nil {
		return nil, err
	}
	s.store(merged.(*corev1.ConfigMap).DeepCopy())
	return s.object.DeepCopy(), nil
}

func (s *server) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	if err := s.note("get %s", name); err != nil {
		return nil, err
	}
	if s.object == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return s.object.DeepCopy(), nil
}

func (s *server) Delete(_ context.Context, name string, options metav1.DeleteOptions) error {
	only := ptr.Deref(options.Preconditions, metav1.Preconditions{})
	uid, version := ptr.Deref(only.UID, "any"), ptr.Deref(only.ResourceVersion, "any")
	if err := s.note("delete %s uid %s version %s, %s", name, uid, version, *options.PropagationPolicy); err != nil {
		return err
	}
	if s.object == nil {
		return apierrors.NewNotFound(resource, name)
	}
	if uid != "any" && uid != s.object.UID {
		return apierrors.NewConflict(resource, name, errors.New("the UID is another"))
	}
	if version != "any" && version != s.object.ResourceVersion {
		return apierrors.NewConflict(resource, name, errors.New("the version is another"))
	}
	s.object = nil
	return nil
}

// store stores an object. If it is as before, it keeps its version.
func (s *server) store(object *corev1.ConfigMap) {
	for i := range object.ManagedFields {
		object.ManagedFields[i].Time = nil
	}
	if s.object != nil {
		object.UID, object.ResourceVersion = s.object.UID, s.object.ResourceVersion
		if equality.Semantic.DeepEqual(object, s.object) {
			return
		}
	}
	s.version++
	object.ResourceVersion = strconv.Itoa(100 + s.version)
	if object.UID == "" {
		object.UID = types.UID(fmt.Sprintf("uid-%d", s.version))
	}
	s.object = object
}

// edit is what another client does to the object, whose name is who.
func (s *server) edit(who string, change func(*corev1.ConfigMap)) {
	changed := s.object.DeepCopy()
	change(changed)
	merged, err := manager().Update(s.object.DeepCopy(), changed, who)
	if err != nil {
		panic(err)
	}
	s.store(merged.(*corev1.ConfigMap))
}

// put replaces whatever there is by another object.
func (s *server) put(object *corev1.ConfigMap) {
	s.object = nil
	s.store(object)
}

// fixture is a Kind whose client is a server, and whose cache shows what it is told
// to.
type fixture struct {
	*Kind[*corev1.ConfigMap, *configuration]
	server  *server
	owner   *metav1.ObjectMeta
	written *loop.Written
	clock   *clocktesting.FakePassiveClock
	trace   *trace.Recorder
}

type configuration = corev1ac.ConfigMapApplyConfiguration

func newFixture() *fixture {
	f := &fixture{server: &server{}, owner: owner.DeepCopy(), clock: clocktesting.NewFakePassiveClock(t0), trace: trace.NewRecorder(10)}
	f.written = loop.NewWritten("test", "Owner", f.clock, f.trace)
	client := func(namespace string) *server {
		if namespace != owner.Namespace {
			panic("the client is for namespace " + namespace)
		}
		return f.server
	}
	f.Kind = New(NewOwners("Greeter", "of", f.written, f.clock), "ConfigMap", "configmaps", cache.NewStore(cache.MetaNamespaceKeyFunc),
		client, corev1ac.ExtractConfigMap)
	return f
}

// catchUp makes the cache show what the server has, with the managedFields that the
// informers leave.
func (f *fixture) catchUp() {
	var objects []any
	if f.server.object != nil {
		object := f.server.object.DeepCopy()
		object.ManagedFields = nil
		for _, entry := range f.server.object.ManagedFields {
			if entry.Manager == glassback.Name && entry.Operation == metav1.ManagedFieldsOperationApply {
				object.ManagedFields = append(object.ManagedFields, entry)
			}
		}
		objects = append(objects, object)
	}
	if err := f.cache.Replace(objects, ""); err != nil {
		panic(err)
	}
}

// exactly is the Desired of a copy, which Reconcile may change. There is none of nil.
func exactly(wanted *configuration) Desired[*configuration] {
	if wanted == nil {
		return nil
	}
	data, err := json.Marshal(wanted)
	if err != nil {
		panic(err)
	}
	same := &configuration{}
	if err := json.Unmarshal(data, same); err != nil {
		panic(err)
	}
	return Exactly(same)
}

// reconcile carries out the change that Reconcile returns.
func (f *fixture) reconcile(t *testing.T, listed bool, want Desired[*configuration]) (Verb, Outcome, error) {
	t.Helper()
	change := f.Reconcile(f.owner, name, f.Observe(f.owner, name), listed, want)
	if change.Kind != "ConfigMap" || change.Name != name {
		t.Errorf("the change is about %s %s, want ConfigMap %s", change.Kind, change.Name, name)
	}
	f.server.requests = nil
	out, err := change.Do(t.Context())
	return change.Verb, out, err
}

const name = "sample-greeting"

var (
	t0    = time.Unix(1641736200, 0)
	owner = &metav1.ObjectMeta{Name: "sample", Namespace: "default", UID: "owner", Generation: 3}
)

// greeting is what is wanted, with the data as keys and values in turn.
func greeting(data ...string) *configuration {
	values := map[string]string{}
	for i := 0; i < len(data); i += 2 {
		values[data[i]] = data[i+1]
	}
	return corev1ac.ConfigMap(name, owner.Namespace).WithLabels(map[string]string{"of": owner.Name}).
		WithOwnerReferences(Reference(owner, greeter)).WithData(values)
}

// foreign is an object that the owner does not control, but perhaps another owner.
func foreign(controller *metav1.OwnerReference) *corev1.ConfigMap {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.Namespace, UID: "foreign", Labels: map[string]string{"of": owner.Name}},
		Data:       map[string]string{"a": "theirs"},
	}
	object.SetGroupVersionKind(gvk)
	if controller != nil {
		object.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	return object
}
