/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

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
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

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
	gvk      = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	resource = corev1.Resource("configmaps")
	manager  = sync.OnceValue(func() *managedfields.FieldManager {
		m, err := managedfields.NewDefaultFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme, undefaulted{}, scheme.Scheme,
			gvk, gvk.GroupVersion(), "", nil)
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

func (s *server) Apply(_ context.Context, configuration *corev1ac.ConfigMapApplyConfiguration, options metav1.ApplyOptions) (*corev1.ConfigMap, error) {
	data, err := json.Marshal(configuration)
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &patch.Object); err != nil {
		return nil, err
	}
	version := patch.GetResourceVersion()
	if err := s.note("apply %s version %s as %s, force %t", patch.GetName(), version, options.FieldManager, options.Force); err != nil {
		return nil, err
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
	uid := types.UID("any")
	if options.Preconditions != nil && options.Preconditions.UID != nil {
		uid = *options.Preconditions.UID
	}
	if err := s.note("delete %s uid %s, %s", name, uid, *options.PropagationPolicy); err != nil {
		return err
	}
	if s.object == nil {
		return apierrors.NewNotFound(resource, name)
	}
	if uid != "any" && uid != s.object.UID {
		return apierrors.NewConflict(resource, name, errors.New("the UID is another"))
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

// edit is what somebody else does to the object, whose name is who.
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
	*Kind[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]
	server  *server
	written *loop.Written
	clock   *clocktesting.FakePassiveClock
	trace   *trace.Recorder
}

func newFixture() *fixture {
	f := &fixture{server: &server{}, clock: clocktesting.NewFakePassiveClock(time.Unix(1641736200, 0)), trace: trace.NewRecorder(10)}
	f.written = loop.NewWritten("test", f.clock, f.trace)
	f.Kind = &Kind[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]{
		Name: "ConfigMap", Owner: "Greeter", Resource: "configmaps", Cache: cache.NewStore(cache.MetaNamespaceKeyFunc),
		Client: func(namespace string) Client[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration] {
			if namespace != owner.Namespace {
				panic("the client is for namespace " + namespace)
			}
			return f.server
		},
		Extract: corev1ac.ExtractConfigMap,
		Written: f.written,
	}
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
	if err := f.Cache.Replace(objects, ""); err != nil {
		panic(err)
	}
}

// copyOf returns a copy, which Bring may change.
func copyOf(configuration *corev1ac.ConfigMapApplyConfiguration) *corev1ac.ConfigMapApplyConfiguration {
	if configuration == nil {
		return nil
	}
	data, err := json.Marshal(configuration)
	if err != nil {
		panic(err)
	}
	same := &corev1ac.ConfigMapApplyConfiguration{}
	if err := json.Unmarshal(data, same); err != nil {
		panic(err)
	}
	return same
}

// bring carries out what Bring says.
func (f *fixture) bring(t *testing.T, wanted *corev1ac.ConfigMapApplyConfiguration) (Verb, Outcome, error) {
	t.Helper()
	seen, err := f.Observe(owner, name)
	if err != nil {
		t.Fatal(err)
	}
	change := f.Bring(owner, name, seen, copyOf(wanted))
	if change.Kind != "ConfigMap" || change.Name != name {
		t.Errorf("the change is about %s %s, want ConfigMap %s", change.Kind, change.Name, name)
	}
	f.server.requests = nil
	out, err := change.Do(t.Context())
	return change.Verb, out, err
}

const name = "sample-greeting"

var owner = &metav1.ObjectMeta{Name: "sample", Namespace: "default", UID: "owner"}

// greeting is what is wanted, with the data as keys and values in turn.
func greeting(data ...string) *corev1ac.ConfigMapApplyConfiguration {
	values := map[string]string{}
	for i := 0; i < len(data); i += 2 {
		values[data[i]] = data[i+1]
	}
	return corev1ac.ConfigMap(name, owner.Namespace).WithLabels(map[string]string{"of": owner.Name}).
		WithOwnerReferences(ControllerReference(owner, "test/v1", "Greeter")).WithData(values)
}

// foreign is an object that the owner does not control, but perhaps somebody else.
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
