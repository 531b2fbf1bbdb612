// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	gatewayfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	"github.com/glassback/glassback/pkg/apis/glassback"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	glassbackscheme "github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
	"github.com/glassback/glassback/pkg/loop"
)

// neverVersion is a resourceVersion that no object has. An apply with it creates the object, or fails if the object exists.
const neverVersion = "1"

// Request is a request of a client.
type Request struct {
	Verb        string // get, list, watch, create, update, apply, patch, delete or evict
	Resource    string // such as "configmaps"
	Subresource string
	Namespace   string
	Name        string
	Version     string    // the resourceVersion that the stored object must have; "" allows any
	UID         types.UID // the UID that the stored object must have; "" allows any
	Manager     string    // the field manager of a create, update, apply or patch
	Force       bool      // whether an apply takes over fields of other managers
	DryRun      bool      // whether a create is a dry run
	Propagation metav1.DeletionPropagation

	Object runtime.Object // of a create or an update
	Patch  []byte         // of an apply or a patch
	Live   Object         // the stored object when the request arrived; nil if the object did not exist
}

// Key returns the name of the object.
func (r Request) Key() cache.ObjectName { return cache.NewObjectName(r.Namespace, r.Name) }

// Writes returns whether the request can change an object.
func (r Request) Writes() bool {
	return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" && !r.DryRun
}

// Unguarded returns whether a write has no precondition, so that it can hit an object that the client has not read: an update, apply or
// patch without a resourceVersion, or a delete or an eviction without a UID.
func (r Request) Unguarded() bool {
	switch r.Verb {
	case "update", "apply", "patch":
		return r.Version == ""
	case "delete", "evict":
		return r.UID == ""
	}
	return false
}

// Action returns the verb as tests write it. An apply with neverVersion is a "create". Special texts mark a dry run, an apply of another
// field manager or without force, an unguarded write, and a delete without a resourceVersion.
func (r Request) Action() string {
	switch {
	case r.DryRun:
		return "try to " + r.Verb
	case r.Verb == "apply" && r.Manager != glassback.Name:
		return "apply by " + r.Manager
	case r.Verb == "apply" && !r.Force:
		return "unforced apply"
	case r.Verb == "apply" && r.Version == neverVersion:
		return "create"
	case r.Unguarded():
		return "unguarded " + r.Verb
	case r.Verb == "delete" && r.Version == "":
		return "delete any version of"
	}
	return r.Verb
}

// Path returns the resource and the subresource, such as "applications/status".
func (r Request) Path() string {
	if r.Subresource != "" {
		return r.Resource + "/" + r.Subresource
	}
	return r.Resource
}

// String returns the request as tests compare it, such as "create configmaps sample".
func (r Request) String() string {
	if r.Name == "" {
		return r.Action() + " " + r.Path()
	}
	return r.Action() + " " + r.Path() + " " + r.Name
}

// Strings returns the text of each request.
func Strings(requests []Request) []string {
	var texts []string
	for _, r := range requests {
		texts = append(texts, r.String())
	}
	return texts
}

// Kube returns a clientset for the kinds of Kubernetes. Like the clientset of package fake, it carries out one request at a time.
func (s *Server) Kube() *kubefake.Clientset {
	client := &kubefake.Clientset{}
	s.answerAll(&client.Fake)
	return client
}

// ReadVersion implements loop.ReadVersion.
func (s *Server) ReadVersion(_ context.Context, source loop.Source) (loop.Version, error) {
	resource, _ := meta.UnsafeGuessKindToResource(corev1.SchemeGroupVersion.WithKind(source.Kind))
	obj, err := s.Kube().Invokes(clienttesting.NewGetAction(resource, source.Namespace, source.Name), &corev1.Secret{})
	switch {
	case apierrors.IsNotFound(err):
		return loop.Version{}, nil
	case err != nil:
		return loop.Version{}, err
	}
	return loop.VersionOf(obj.(Object)), nil
}

// Glassback returns a clientset for the kinds of Glassback: see Kube.
func (s *Server) Glassback() *glassbackfake.Clientset {
	client := &glassbackfake.Clientset{}
	s.answerAll(&client.Fake)
	return client
}

// Gateway returns a clientset for the kinds of the Gateway API: see Kube.
func (s *Server) Gateway() *gatewayfake.Clientset {
	client := &gatewayfake.Clientset{}
	s.answerAll(&client.Fake)
	return client
}

func (s *Server) answerAll(fake *clienttesting.Fake) {
	fake.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := s.answer(action)
		if err != nil || obj == nil {
			return true, nil, err
		}
		return true, obj, nil
	})
	fake.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		a := action.(clienttesting.WatchActionImpl)
		request := Request{Verb: "watch", Resource: a.Resource.Resource, Namespace: a.Namespace}
		w, err := s.watch(request, request.Resource, nil, matcher(a.WatchRestrictions.Labels, a.Namespace), a.ListOptions)
		return true, w, err
	})
}

// matcher returns a function that reports whether an object has the namespace and matches the selector. The namespace "" allows all.
func matcher(selector labels.Selector, namespace string) func(Object) bool {
	return func(obj Object) bool {
		return (namespace == "" || obj.GetNamespace() == namespace) && (selector == nil || selector.Matches(labels.Set(obj.GetLabels())))
	}
}

// answer calls Before, then executes a request of a clientset, and calls After if the request succeeded.
func (s *Server) answer(action clienttesting.Action) (runtime.Object, error) {
	request, err := requestOf(action)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	request.Live = s.objects[request.Resource][request.Key()]
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	if s.Before != nil {
		if err := s.Before(request); err != nil {
			return nil, err
		}
	}
	obj, err := s.carryOut(&request, action)
	if err == nil && s.After != nil {
		err = s.After(request)
	}
	return obj, err
}

// requestOf converts an action of a clientset to a Request.
func requestOf(action clienttesting.Action) (Request, error) {
	r := Request{
		Verb: action.GetVerb(), Resource: action.GetResource().Resource, Subresource: action.GetSubresource(), Namespace: action.GetNamespace(),
	}
	preconditions := func(options *metav1.DeleteOptions) {
		required := ptr.Deref(options.Preconditions, metav1.Preconditions{})
		r.Version, r.UID = ptr.Deref(required.ResourceVersion, ""), ptr.Deref(required.UID, "")
		r.Propagation = ptr.Deref(options.PropagationPolicy, "")
	}
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		r.Name = a.Name
	case clienttesting.CreateActionImpl:
		r.Name, r.Object, r.Manager = a.Object.(metav1.Object).GetName(), a.Object, a.CreateOptions.FieldManager
		r.DryRun = len(a.CreateOptions.DryRun) > 0
		if eviction, ok := a.Object.(*policyv1.Eviction); ok {
			r.Verb, r.Subresource = "evict", ""
			preconditions(ptr.To(ptr.Deref(eviction.DeleteOptions, metav1.DeleteOptions{})))
		}
	case clienttesting.UpdateActionImpl:
		obj := a.Object.(metav1.Object)
		r.Name, r.Object, r.Manager = obj.GetName(), a.Object, a.UpdateOptions.FieldManager
		r.Version, r.UID = obj.GetResourceVersion(), obj.GetUID()
	case clienttesting.PatchActionImpl:
		r.Name, r.Patch, r.Manager, r.Force = a.Name, a.Patch, a.PatchOptions.FieldManager, ptr.Deref(a.PatchOptions.Force, false)
		if a.PatchType == types.ApplyPatchType {
			r.Verb = "apply"
		}
		patch := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(a.Patch, patch); err != nil {
			return r, apierrors.NewBadRequest(err.Error())
		}
		r.Version, r.UID = patch.ResourceVersion, patch.UID
	case clienttesting.DeleteActionImpl:
		r.Name = a.Name
		preconditions(&a.DeleteOptions)
	case clienttesting.ListActionImpl:
	default:
		panic(fmt.Sprintf("the fake API server does not know this request: %v", action))
	}
	return r, nil
}

// carryOut reads or changes objects. It returns nil after a deletion.
func (s *Server) carryOut(r *Request, action clienttesting.Action) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	group := action.GetResource().GroupResource()
	if a, ok := action.(clienttesting.ListActionImpl); ok {
		return s.list(a.Kind, r.Resource, matcher(a.ListRestrictions.Labels, r.Namespace)), nil
	}
	live := s.objects[r.Resource][r.Key()]
	if a, ok := action.(clienttesting.CreateActionImpl); ok && r.Verb == "create" {
		if live != nil {
			return nil, apierrors.NewAlreadyExists(group, r.Name)
		}
		obj := clone(a.Object.(Object))
		obj.SetNamespace(r.Namespace)
		if r.DryRun {
			return obj, nil
		}
		return clone(s.create(r, r.Resource, obj)), nil
	}
	if live == nil && r.Verb != "apply" {
		return nil, apierrors.NewNotFound(group, r.Name)
	}
	if r.Writes() {
		if err := checkPreconditions(group, r, live); err != nil {
			return nil, err
		}
	}
	var now Object
	var err error
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		return clone(live), nil
	case clienttesting.CreateActionImpl, clienttesting.DeleteActionImpl: // A create that gets here is an eviction.
		s.delete(r, r.Resource, live)
		return nil, nil
	case clienttesting.UpdateActionImpl:
		now = updated(live, clone(a.Object.(Object)), a.Subresource)
	case clienttesting.PatchActionImpl:
		if now, err = s.patched(live, a); err != nil {
			return nil, err
		}
	}
	if live == nil {
		return clone(s.create(r, r.Resource, now)), nil
	}
	return clone(s.replace(r, r.Resource, live, now)), nil
}

// checkPreconditions returns a Conflict if the live object does not have the version and the UID of a write. It returns Invalid for an
// update of a custom resource without a version.
func checkPreconditions(group schema.GroupResource, r *Request, live Object) error {
	switch {
	case r.UID != "" && (live == nil || live.GetUID() != r.UID):
		return apierrors.NewConflict(group, r.Name, errors.New("the object has another UID"))
	case r.Verb == "update" && r.Version == "" && glassbackscheme.Scheme.Recognizes(kindOf(live)):
		return apierrors.NewInvalid(schema.GroupKind{Group: group.Group, Kind: group.Resource}, r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	case r.Version != "" && live != nil && live.GetResourceVersion() != r.Version:
		return apierrors.NewConflict(group, r.Name, errors.New("the object has another version"))
	}
	return nil
}

// list returns a list of the objects for which match returns true. The caller holds mu.
func (s *Server) list(kind schema.GroupVersionKind, resource string, match func(Object) bool) runtime.Object {
	kind.Kind += "List"
	list, err := Scheme.New(kind)
	if err != nil {
		panic(err)
	}
	var items []runtime.Object
	for _, obj := range s.sorted(resource) {
		if match(obj) {
			items = append(items, clone(obj))
		}
	}
	if err := meta.SetList(list, items); err != nil {
		panic(err)
	}
	list.(metav1.ListInterface).SetResourceVersion(strconv.FormatInt(s.version, 10))
	return list
}

// updated returns the result of an update. An update of subresource status changes only the status. Other updates change all but the
// status.
func updated(live, sent Object, subresource string) Object {
	status := func(obj Object) reflect.Value { return reflect.ValueOf(obj).Elem().FieldByName("Status") }
	switch {
	case subresource == "status":
		now := clone(live)
		status(now).Set(status(sent))
		return now
	case status(live).IsValid():
		status(sent).Set(status(clone(live)))
	}
	sent.SetGeneration(live.GetGeneration())
	return sent
}

// patched returns the result of an apply or a merge patch. live is nil if the object does not exist.
func (s *Server) patched(live Object, a clienttesting.PatchActionImpl) (Object, error) {
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(a.Patch, &patch.Object); err != nil {
		return nil, err
	}
	patch.SetResourceVersion("")
	patch.SetUID("")
	switch a.PatchType {
	case types.ApplyPatchType:
		patch.SetNamespace(a.Namespace)
		return s.apply(live, patch, a.PatchOptions.FieldManager, ptr.Deref(a.PatchOptions.Force, false))
	case types.MergePatchType:
		return merged(live, patch.Object)
	}
	panic("the fake API server does not know " + string(a.PatchType))
}

// RecordedEvents returns the Kubernetes Events that a controller has recorded since the last call, and removes them from recorder.
func RecordedEvents(recorder *record.FakeRecorder) []string {
	var events []string
	for len(recorder.Events) > 0 {
		events = append(events, <-recorder.Events)
	}
	return events
}
