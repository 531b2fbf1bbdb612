/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package golden

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/applyconfigurations"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
)

// object is any object of an API.
type object interface {
	runtime.Object
	metav1.Object
}

// server is a fake API server for one scenario. It stores objects, gives them UIDs and versions,
// merges what is applied, rejects writes that name another version or UID, and notes each write.
// Its clientsets are kube and own.
type server struct {
	kube *kubefake.Clientset
	own  *glassbackfake.Clientset
	// created, if set, completes an object that the controller has created, as a kubelet
	// does.
	created func(object)

	mu      sync.Mutex
	notes   notes
	version int
	made    map[string]int // how many objects of that resource and name there were
	stores  []*store       // of kube, of own
}

// store holds the objects of one clientset.
type store struct {
	clienttesting.ObjectTracker

	scheme  *runtime.Scheme
	decoder runtime.Decoder
}

func newServer() *server {
	s := &server{kube: &kubefake.Clientset{}, own: &glassbackfake.Clientset{}, version: 100, made: map[string]int{}}
	s.serve(&s.kube.Fake, scheme.Scheme, scheme.Codecs)
	s.serve(&s.own.Fake, glassbackscheme.Scheme, glassbackscheme.Codecs)
	return s
}

// serve has a clientset answered by this server.
func (s *server) serve(fake *clienttesting.Fake, of *runtime.Scheme, codecs serializer.CodecFactory) {
	decoder := codecs.UniversalDeserializer()
	st := &store{clienttesting.NewObjectTracker(of, decoder), of, decoder}
	s.stores = append(s.stores, st)
	fake.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		obj, err := s.answer(st, action)
		if err != nil {
			return true, nil, err
		}
		return true, obj, nil
	})
	fake.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		options := action.(clienttesting.WatchActionImpl).ListOptions
		w, err := st.Watch(action.GetResource(), action.GetNamespace(), options)
		return true, w, err
	})
}

// answer carries out one request. The caller holds mu.
func (s *server) answer(st *store, action clienttesting.Action) (runtime.Object, error) {
	gvr, ns := action.GetResource(), action.GetNamespace()
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		return st.Get(gvr, ns, a.Name)
	case clienttesting.ListActionImpl:
		return st.List(gvr, a.Kind, ns)
	case clienttesting.CreateActionImpl:
		if eviction, ok := a.Object.(*policyv1.Eviction); ok {
			return nil, s.remove(st, "evict", clienttesting.NewDeleteActionWithOptions(gvr, ns, eviction.Name, *eviction.DeleteOptions))
		}
		s.notes.add(note{
			verb: "create", resource: gvr.Resource, name: a.Object.(object).GetName(), manager: a.CreateOptions.FieldManager,
			body: fieldsOf(a.Object),
		})
		return s.create(st, gvr, clone(a.Object), true)
	case clienttesting.UpdateActionImpl:
		return s.update(st, a)
	case clienttesting.DeleteActionImpl:
		return nil, s.remove(st, "delete", a)
	case clienttesting.PatchActionImpl:
		if a.PatchType == types.ApplyPatchType {
			return s.apply(st, a)
		}
		return s.patch(st, a)
	}
	panic(fmt.Sprintf("the controller made a request that the fake API server does not know: %v", action))
}

// create stores a new object.
func (s *server) create(st *store, gvr schema.GroupVersionResource, obj object, byController bool) (object, error) {
	key := gvr.Resource + "/" + obj.GetName()
	s.made[key]++
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("uid-of-%s-%s-%d", gvr.Resource, obj.GetName(), s.made[key])))
	}
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(time.Now()))
	s.stamp(obj)
	if s.created != nil && byController {
		s.created(obj)
	}
	if err := st.Create(gvr, obj, obj.GetNamespace()); err != nil {
		return nil, err
	}
	return clone(obj), nil
}

// stamp gives obj the next version. It leaves out times of managedFields.
func (s *server) stamp(obj object) {
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	for i := range obj.GetManagedFields() {
		obj.GetManagedFields()[i].Time = nil
	}
}

// store stores a changed object, or deletes it if no finalizer keeps it.
func (s *server) store(st *store, gvr schema.GroupVersionResource, was, obj object) (object, error) {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		return clone(obj), st.Delete(gvr, obj.GetNamespace(), obj.GetName())
	}
	obj.SetUID(was.GetUID())
	obj.SetCreationTimestamp(was.GetCreationTimestamp())
	obj.SetGeneration(was.GetGeneration())
	obj.SetResourceVersion(was.GetResourceVersion())
	if equality.Semantic.DeepEqual(was, obj) {
		return clone(obj), nil
	}
	if !equality.Semantic.DeepEqual(fieldsOf(was)["spec"], fieldsOf(obj)["spec"]) {
		obj.SetGeneration(was.GetGeneration() + 1)
	}
	s.stamp(obj)
	return clone(obj), st.Update(gvr, obj, obj.GetNamespace())
}

// live returns the stored object.
func (st *store) live(gvr schema.GroupVersionResource, ns, name string) (object, error) {
	obj, err := st.Get(gvr, ns, name)
	if err != nil {
		return nil, err
	}
	return obj.(object), nil
}

// exactly returns a conflict if a write is for another version or UID than that of live.
func exactly(gvr schema.GroupVersionResource, live object, version string, uid types.UID) error {
	if (version != "" && version != live.GetResourceVersion()) || (uid != "" && uid != live.GetUID()) {
		return apierrors.NewConflict(gvr.GroupResource(), live.GetName(), errors.New("the version or the UID is another"))
	}
	return nil
}

func (s *server) update(st *store, a clienttesting.UpdateActionImpl) (object, error) {
	obj := clone(a.Object)
	live, err := st.live(a.Resource, a.Namespace, obj.GetName())
	if err != nil {
		return nil, err
	}
	body := fieldsOf(obj)
	if a.Subresource == "status" {
		body = map[string]any{"status": body["status"]}
	}
	n := note{
		verb: "update", resource: a.Resource.Resource, subresource: a.Subresource, name: obj.GetName(),
		manager: a.UpdateOptions.FieldManager, body: body,
	}
	n.against(live, obj.GetResourceVersion(), "")
	s.notes.add(n)
	if err := exactly(a.Resource, live, obj.GetResourceVersion(), ""); err != nil {
		return nil, err
	}
	return s.store(st, a.Resource, live, obj)
}

func (s *server) remove(st *store, verb string, a clienttesting.DeleteActionImpl) error {
	live, err := st.live(a.Resource, a.Namespace, a.Name)
	if err != nil {
		return err
	}
	n := note{verb: verb, resource: a.Resource.Resource, name: a.Name}
	condition := ptr.Deref(a.DeleteOptions.Preconditions, metav1.Preconditions{})
	n.against(live, ptr.Deref(condition.ResourceVersion, ""), ptr.Deref(condition.UID, ""))
	s.notes.add(n)
	if err := exactly(a.Resource, live, ptr.Deref(condition.ResourceVersion, ""), ptr.Deref(condition.UID, "")); err != nil {
		return err
	}
	if live.GetDeletionTimestamp() == nil {
		live.SetDeletionTimestamp(ptr.To(metav1.NewTime(time.Now())))
	}
	_, err = s.store(st, a.Resource, live, live)
	return err
}

// neverVersion is the version that no object has: an apply that carries it only creates.
const neverVersion = "1"

func (s *server) apply(st *store, a clienttesting.PatchActionImpl) (object, error) {
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(a.Patch, &patch.Object); err != nil {
		return nil, err
	}
	n := note{
		verb: "apply", resource: a.Resource.Resource, name: a.Name, manager: a.PatchOptions.FieldManager,
		forced: ptr.Deref(a.PatchOptions.Force, false),
	}
	version, uid := patch.GetResourceVersion(), patch.GetUID()
	live, err := st.live(a.Resource, a.Namespace, a.Name)
	missing := apierrors.IsNotFound(err)
	switch {
	case missing && uid != "":
		return nil, apierrors.NewConflict(a.Resource.GroupResource(), a.Name, errors.New("the object does not exist"))
	case missing:
		gvk := patch.GroupVersionKind()
		blank, err := st.scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		live = blank.(object)
		live.GetObjectKind().SetGroupVersionKind(gvk)
		n.onlyCreates = version == neverVersion
	case err != nil:
		return nil, err
	default:
		n.against(live, version, uid)
		if err := exactly(a.Resource, live, version, uid); err != nil {
			return nil, err
		}
	}
	patch.SetResourceVersion("")
	patch.SetUID("")
	n.body = runtime.DeepCopyJSON(patch.Object)
	s.notes.add(n)
	merged, err := managerOf(patch.GroupVersionKind()).Apply(clone(live), patch, a.PatchOptions.FieldManager, n.forced)
	if err != nil {
		return nil, err
	}
	obj := merged.(object)
	if missing {
		obj.SetNamespace(a.Namespace)
		return s.create(st, a.Resource, obj, true)
	}
	return s.store(st, a.Resource, live, obj)
}

func (s *server) patch(st *store, a clienttesting.PatchActionImpl) (object, error) {
	live, err := st.live(a.Resource, a.Namespace, a.Name)
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(a.Patch, &patch.Object); err != nil {
		return nil, err
	}
	version, uid := patch.GetResourceVersion(), patch.GetUID()
	n := note{verb: "patch", resource: a.Resource.Resource, subresource: a.Subresource, name: a.Name, manager: a.PatchOptions.FieldManager}
	n.against(live, version, uid)
	if a.PatchType != types.MergePatchType {
		panic("the fake API server does not know " + string(a.PatchType))
	}
	changed, err := json.Marshal(merge(fieldsOf(live), patch.Object))
	if err != nil {
		return nil, err
	}
	patch.SetResourceVersion("")
	patch.SetUID("")
	n.body = patch.Object
	s.notes.add(n)
	if err := exactly(a.Resource, live, version, uid); err != nil {
		return nil, err
	}
	obj, err := st.scheme.New(patchedKind(st.scheme, live))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(changed, obj); err != nil {
		return nil, err
	}
	return s.store(st, a.Resource, live, obj.(object))
}

// merge applies a JSON merge patch (RFC 7396) to fields, which it changes.
func merge(fields, patch map[string]any) map[string]any {
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(fields, key)
		case map[string]any:
			inner, ok := fields[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
			}
			fields[key] = merge(inner, value)
		default:
			fields[key] = value
		}
	}
	return fields
}

func patchedKind(of *runtime.Scheme, obj runtime.Object) schema.GroupVersionKind {
	kinds, _, err := of.ObjectKinds(obj)
	if err != nil {
		panic(err)
	}
	return kinds[0]
}

func clone(obj runtime.Object) object { return obj.DeepCopyObject().(object) }

// undefaulted sets no defaults.
type undefaulted struct{}

func (undefaulted) Default(runtime.Object) {}

var (
	converter = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })
	managers  sync.Map // by kind
)

// managerOf returns what merges applied objects of a kind, as an API server does.
func managerOf(gvk schema.GroupVersionKind) *managedfields.FieldManager {
	if known, ok := managers.Load(gvk); ok {
		return known.(*managedfields.FieldManager)
	}
	made, err := managedfields.NewDefaultFieldManager(converter(), scheme.Scheme, undefaulted{}, scheme.Scheme,
		gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		panic(err)
	}
	managers.Store(gvk, made)
	return made
}
