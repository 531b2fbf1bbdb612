/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package application

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
)

var (
	t0  = time.Date(2022, 1, 9, 13, 50, 0, 0, time.UTC)
	key = cache.NewObjectName("default", "sample")

	// kinds are the kinds of the children, by resource.
	kinds = map[string]schema.GroupVersionKind{
		"deployments":              appsv1.SchemeGroupVersion.WithKind("Deployment"),
		"services":                 corev1.SchemeGroupVersion.WithKind("Service"),
		"ingresses":                networkingv1.SchemeGroupVersion.WithKind("Ingress"),
		"horizontalpodautoscalers": autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		"poddisruptionbudgets":     policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	}
	resourceNames = slices.Sorted(maps.Keys(kinds))

	// managers merge what is applied, as an API server does.
	managers = sync.OnceValue(func() map[string]*managedfields.FieldManager {
		made, converter := map[string]*managedfields.FieldManager{}, applyconfigurations.NewTypeConverter(scheme.Scheme)
		for resource, gvk := range kinds {
			m, err := managedfields.NewDefaultFieldManager(converter, scheme.Scheme, defaulter{}, scheme.Scheme, gvk, gvk.GroupVersion(), "", nil)
			if err != nil {
				panic(err)
			}
			made[resource] = m
		}
		return made
	})
)

// defaulter sets what matters here of an API server's defaults.
type defaulter struct{}

func (defaulter) Default(obj runtime.Object) {
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		return
	}
	if d.Spec.Replicas == nil {
		d.Spec.Replicas = ptr.To[int32](1)
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.APIVersion == "" {
				e.ValueFrom.FieldRef.APIVersion = "v1"
			}
		}
	}
}

// application is the sample, as the API server has it.
func application(change ...func(*v1.Application)) *v1.Application {
	app := &v1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "default", UID: "app", Generation: 1},
		Spec:       v1.ApplicationSpec{Image: "nginx:1.29"},
	}
	app.Default()
	for _, f := range change {
		f(app)
	}
	return app
}

// object is a child, of whatever kind.
type object interface {
	runtime.Object
	metav1.Object
}

// server is what an API server does for this controller: it stores one Application
// and its children, merges what is applied, gives versions, refuses writes by stale
// ones, and keeps every state that it was in, so that a cache may lag.
type server struct {
	clock *clocktesting.FakeClock
	state
	history []state
	// requests are what was asked for. An apply is a "create" if it is for an object
	// that does not exist, and an "unguarded apply" if it is for whatever there is.
	requests []string
	// before and after, if set, are called around each write; an error is the
	// answer, and a panic is a crash of the one who wrote.
	before, after func(request string) error
	uids          int
	// blind is a resource that no cache shows anything of.
	blind string
}

// state is what is stored, and is never changed in place.
type state struct {
	version  int
	app      *v1.Application   // nil if there is none
	children map[string]object // by resource
}

func newServer(app *v1.Application) *server {
	s := &server{clock: clocktesting.NewFakeClock(t0)}
	s.version = 100
	s.change(func(now *state) { now.app = app })
	return s
}

// change makes a new state from the present one.
func (s *server) change(f func(*state)) {
	next := state{version: s.version + 1, app: s.app, children: maps.Clone(s.children)}
	if next.children == nil {
		next.children = map[string]object{}
	}
	f(&next)
	if next.app != nil && next.app != s.app {
		next.app = next.app.DeepCopy()
		next.app.ResourceVersion = strconv.Itoa(next.version)
	}
	for resource, child := range next.children {
		if child != s.children[resource] {
			child = child.DeepCopyObject().(object)
			child.SetResourceVersion(strconv.Itoa(next.version))
			for i := range child.GetManagedFields() {
				child.GetManagedFields()[i].Time = nil // It is the real time.
			}
			next.children[resource] = child
		}
	}
	s.state = next
	s.history = append(s.history, next)
}

// edit changes the Application as another client does.
func (s *server) edit(change func(*v1.Application)) {
	s.change(func(now *state) {
		now.app = now.app.DeepCopy()
		now.app.Generation++
		change(now.app)
	})
}

// alter changes a child as another client does.
func alter[T object](s *server, resource, who string, change func(T)) {
	changed := s.children[resource].DeepCopyObject().(object)
	change(changed.(T))
	s.put(resource, who, changed)
}

// put stores a child on behalf of who.
func (s *server) put(resource, who string, child object) {
	live := s.children[resource]
	if live == nil {
		live = empty(resource)
	}
	merged, err := managers()[resource].Update(live.DeepCopyObject(), child, who)
	if err != nil {
		panic(err)
	}
	s.change(func(now *state) { now.children[resource] = generation(live, merged.(object)) })
}

// remove takes a child away, whatever it has of finalizers.
func (s *server) remove(resource string) {
	s.change(func(now *state) { delete(now.children, resource) })
}

// destroy deletes a child as the API server does: one with a finalizer stays, on its
// way out, until that is taken away.
func (s *server) destroy(resource string) {
	switch child := s.children[resource]; {
	case len(child.GetFinalizers()) == 0:
		s.remove(resource)
	case child.GetDeletionTimestamp() == nil:
		s.change(func(now *state) {
			going := child.DeepCopyObject().(object)
			going.SetDeletionTimestamp(ptr.To(metav1.NewTime(s.clock.Now())))
			now.children[resource] = going
		})
	}
}

// hold gives a child a finalizer, and release takes it away.
func (s *server) hold(resource string) {
	alter(s, resource, "other-client", func(child object) { child.SetFinalizers([]string{"example.com/held"}) })
}

func (s *server) release(resource string) {
	if going := s.children[resource].GetDeletionTimestamp() != nil; going {
		s.remove(resource)
		return
	}
	alter(s, resource, "other-client", func(child object) { child.SetFinalizers(nil) })
}

// empty is an object of which nothing is known but the kind.
func empty(resource string) object {
	obj, err := scheme.Scheme.New(kinds[resource])
	if err != nil {
		panic(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kinds[resource])
	return obj.(object)
}

// foreign is an object that the Application does not control, but perhaps another owner
// else. With the label, the caches show it.
func foreign(resource string, labelled bool, controller *metav1.OwnerReference) object {
	child := empty(resource)
	child.SetNamespace(key.Namespace)
	child.SetName(key.Name)
	child.SetUID("foreign")
	if labelled {
		child.SetLabels(map[string]string{v1.LabelApplication: key.Name})
	}
	if controller != nil {
		child.SetOwnerReferences([]metav1.OwnerReference{*controller})
	}
	return child
}

// generation counts the versions of a Deployment's spec, and of its annotations, as
// the API server does.
func generation(was, is object) object {
	before, ok := was.(*appsv1.Deployment)
	if now, is := is.(*appsv1.Deployment); ok && is &&
		(!equality.Semantic.DeepEqual(before.Spec, now.Spec) || !equality.Semantic.DeepEqual(before.Annotations, now.Annotations)) {
		now.Generation = before.Generation + 1
	}
	return is
}

// write carries out one write, between before and after.
func (s *server) write(request string, f func()) error {
	if s.before != nil {
		if err := s.before(request); err != nil {
			return err
		}
	}
	if f != nil {
		f()
	}
	if s.after != nil {
		return s.after(request)
	}
	return nil
}

// handle answers a request of a clientset.
func (s *server) handle(action clienttesting.Action) (bool, runtime.Object, error) {
	resource := action.GetResource().Resource
	var obj runtime.Object
	var err error
	switch a := action.(type) {
	case clienttesting.PatchActionImpl:
		obj, err = s.apply(resource, a)
	case clienttesting.GetActionImpl:
		s.requests = append(s.requests, "get "+resource)
		if s.children[resource] == nil {
			return true, nil, apierrors.NewNotFound(a.Resource.GroupResource(), a.Name)
		}
		obj = s.children[resource].DeepCopyObject()
	case clienttesting.DeleteActionImpl:
		err = s.delete(resource, a)
	case clienttesting.UpdateActionImpl:
		obj, err = s.updateStatus(a)
	default:
		panic(fmt.Sprintf("the controller made a request that the test does not know: %v", action))
	}
	return true, obj, err
}

func (s *server) apply(resource string, action clienttesting.PatchActionImpl) (runtime.Object, error) {
	if action.PatchType != types.ApplyPatchType || action.PatchOptions.FieldManager != glassback.Name || !*action.PatchOptions.Force {
		panic(fmt.Sprintf("not a forced apply by %s: %s %+v", glassback.Name, action.PatchType, action.PatchOptions))
	}
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(action.Patch, &patch.Object); err != nil {
		return nil, err
	}
	version := patch.GetResourceVersion()
	request := map[string]string{"": "unguarded apply ", "1": "create "}[version]
	if request == "" {
		request = "apply "
	}
	request += resource
	s.requests = append(s.requests, request)
	live, exists := s.children[resource]
	if uid := patch.GetUID(); exists && uid != "" && uid != live.GetUID() {
		return nil, apierrors.NewConflict(action.Resource.GroupResource(), action.Name, errors.New("the UID is another"))
	}
	if exists && version != "" && version != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(action.Resource.GroupResource(), action.Name, errors.New("the version is another"))
	}
	if !exists {
		live = empty(resource)
		if uid := patch.GetUID(); uid != "" {
			return nil, apierrors.NewConflict(action.Resource.GroupResource(), action.Name, fmt.Errorf("uid mismatch: %s does not exist", uid))
		}
	}
	merged, err := managers()[resource].Apply(live.DeepCopyObject(), patch, glassback.Name, true)
	if err != nil {
		return nil, err
	}
	next := generation(live, merged.(object))
	next.SetResourceVersion(live.GetResourceVersion())
	if s.blind == resource {
		withoutLabel(next)
	}
	for i := range next.GetManagedFields() {
		next.GetManagedFields()[i].Time = nil
	}
	if !exists {
		s.uids++
		next.SetUID(types.UID(fmt.Sprintf("%s#%d", resource, s.uids)))
	} else if equality.Semantic.DeepEqual(next, live) {
		return live.DeepCopyObject(), s.write(request, nil)
	}
	err = s.write(request, func() { s.change(func(now *state) { now.children[resource] = next }) })
	if err != nil {
		return nil, err
	}
	return s.children[resource].DeepCopyObject(), nil
}

func (s *server) delete(resource string, action clienttesting.DeleteActionImpl) error {
	request := "delete " + resource
	var uid types.UID
	var version string
	if p := action.DeleteOptions.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
		request = "unguarded " + request
	} else {
		uid, version = *p.UID, *p.ResourceVersion
	}
	if policy := action.DeleteOptions.PropagationPolicy; policy == nil || *policy != metav1.DeletePropagationBackground {
		request += ", not in the background"
	}
	s.requests = append(s.requests, request)
	live := s.children[resource]
	if live == nil {
		return apierrors.NewNotFound(action.Resource.GroupResource(), action.Name)
	}
	if uid != "" && uid != live.GetUID() {
		return apierrors.NewConflict(action.Resource.GroupResource(), action.Name, errors.New("the UID is another"))
	}
	if version != "" && version != live.GetResourceVersion() {
		return apierrors.NewConflict(action.Resource.GroupResource(), action.Name, errors.New("the version is another"))
	}
	return s.write(request, func() { s.destroy(resource) })
}

func (s *server) updateStatus(action clienttesting.UpdateActionImpl) (runtime.Object, error) {
	request := "update " + action.Resource.Resource + "/" + action.Subresource
	s.requests = append(s.requests, request)
	updated := action.Object.(*v1.Application)
	if s.app == nil {
		return nil, apierrors.NewNotFound(v1.Resource("applications"), updated.Name)
	}
	if updated.ResourceVersion != s.app.ResourceVersion || updated.UID != s.app.UID {
		return nil, apierrors.NewConflict(v1.Resource("applications"), updated.Name, errors.New("the version is another"))
	}
	err := s.write(request, func() {
		s.change(func(now *state) {
			now.app = s.app.DeepCopy()
			now.app.Status = *updated.Status.DeepCopy()
		})
	})
	return s.app.DeepCopy(), err
}

// rollOut is what the Deployment's controller does: it brings the Deployment to
// where all is done.
func (s *server) rollOut() {
	alter(s, "deployments", "kube-controller-manager", func(d *appsv1.Deployment) {
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: "It is available"},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", Message: "It has progressed"},
			},
		}
	})
}

// settle lets an operator and the Deployment's controller do all that there is to
// do.
func (s *server) settle(t testing.TB) *server {
	t.Helper()
	for range 10 {
		requests, _, err := s.connect().sync(t)
		if err != nil {
			t.Fatal(err)
		}
		d, ok := s.children["deployments"].(*appsv1.Deployment)
		switch complete := !ok || (d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == *d.Spec.Replicas); {
		case !complete:
			s.rollOut()
		case len(requests) == 0:
			s.requests = nil
			return s
		}
	}
	t.Fatal("it never settled")
	return nil
}

// operator is one that runs: its controller and its caches.
type operator struct {
	*Controller
	server *server
	stores map[string]cache.Store // by resource
	at     map[string]int         // which of the server's states each cache shows
	events *record.FakeRecorder
}

// connect starts an operator whose caches show the present.
func (s *server) connect() *operator {
	o := &operator{server: s, at: map[string]int{}}
	config := s.config()
	o.events = config.Recorder.(*record.FakeRecorder)
	o.Controller = newController(config)
	o.stores = map[string]cache.Store{
		"applications":             config.Applications.Informer().GetStore(),
		"deployments":              config.Deployments.Informer().GetStore(),
		"services":                 config.Services.Informer().GetStore(),
		"ingresses":                config.Ingresses.Informer().GetStore(),
		"horizontalpodautoscalers": config.Autoscalers.Informer().GetStore(),
		"poddisruptionbudgets":     config.Budgets.Informer().GetStore(),
	}
	o.catchUp()
	return o
}

// config has informers that are never started, unless prepare makes others.
func (s *server) config(prepare ...func(kubeinformers.SharedInformerFactory, externalversions.SharedInformerFactory)) Config {
	kube, client := &kubefake.Clientset{}, &glassbackfake.Clientset{}
	kube.AddReactor("*", "*", s.handle)
	client.AddReactor("*", "*", s.handle)
	kubeFactory, factory := kubeinformers.NewSharedInformerFactory(kube, 0), externalversions.NewSharedInformerFactory(client, 0)
	for _, f := range prepare {
		f(kubeFactory, factory)
	}
	return Config{
		Kube: kube, Client: client,
		Applications: factory.App().V1().Applications(),
		Deployments:  kubeFactory.Apps().V1().Deployments(),
		Services:     kubeFactory.Core().V1().Services(),
		Ingresses:    kubeFactory.Networking().V1().Ingresses(),
		Autoscalers:  kubeFactory.Autoscaling().V2().HorizontalPodAutoscalers(),
		Budgets:      kubeFactory.Policy().V1().PodDisruptionBudgets(),
		Recorder:     record.NewFakeRecorder(10_000),
		Clock:        s.clock,
	}
}

// catchUp brings all caches to the present.
func (o *operator) catchUp() {
	for resource := range o.stores {
		o.see(resource, len(o.server.history)-1)
	}
}

// see brings one cache to a state of the server, as the informers show it.
func (o *operator) see(resource string, at int) {
	o.at[resource] = at
	then := o.server.history[at]
	var objects []any
	if resource == "applications" {
		if then.app != nil {
			objects = append(objects, then.app)
		}
	} else if child := then.children[resource]; child != nil && resource != o.server.blind && child.GetLabels()[v1.LabelApplication] != "" {
		objects = append(objects, cached(child))
	}
	if err := o.stores[resource].Replace(objects, strconv.Itoa(then.version)); err != nil {
		panic(err)
	}
}

// cached is a child as an informer has it: with the managedFields of this operator
// alone.
func cached(child object) object {
	child = child.DeepCopyObject().(object)
	var own []metav1.ManagedFieldsEntry
	for _, entry := range child.GetManagedFields() {
		if entry.Manager == glassback.Name && entry.Operation == metav1.ManagedFieldsOperationApply {
			own = append(own, entry)
		}
	}
	child.SetManagedFields(own)
	return child
}

// sync runs Sync once and returns the requests that it made.
func (o *operator) sync(t testing.TB) ([]string, time.Duration, error) {
	t.Helper()
	made := len(o.server.requests)
	after, err := o.Sync(t.Context(), key)
	return o.server.requests[made:], after, err
}

// written is a write of an operator's.
type written struct {
	at      time.Duration // since the beginning
	request string
}

// run lets the operator sync for so long as its loop does: at once after a change,
// and else when the sync before has asked for it. After each write to a child, then
// is what others do.
func (o *operator) run(t testing.TB, long time.Duration, then func()) []written {
	t.Helper()
	var all []written
	s := o.server
	start := s.clock.Now()
	for range 10_000 {
		o.catchUp()
		was, at := len(s.history), s.clock.Since(start)
		requests, after, err := o.sync(t)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.history) > was {
			request := requests[len(requests)-1]
			all = append(all, written{at, request})
			if request != statusRequest {
				then()
			}
			continue
		}
		if after == 0 || at+after > long {
			s.clock.SetTime(start.Add(long))
			return all
		}
		s.clock.SetTime(s.clock.Now().Add(after))
	}
	t.Fatal("it never rests")
	return nil
}

// sent returns the events that the controller has sent.
func (o *operator) sent() []string {
	var events []string
	for {
		select {
		case event := <-o.events.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

// failing answers the writes that begin so with err.
func failing(prefix string, err error) func(string) error {
	return func(request string) error {
		if strings.HasPrefix(request, prefix) {
			return err
		}
		return nil
	}
}

// hide has something take the label away from the children of a kind, so that no
// cache shows them.
func hide(resource string) func(*server) {
	return func(s *server) {
		s.blind = resource
		s.change(func(now *state) {
			hidden := now.children[resource].DeepCopyObject().(object)
			withoutLabel(hidden)
			now.children[resource] = hidden
		})
	}
}

func withoutLabel(child object) {
	labels := child.GetLabels()
	delete(labels, v1.LabelApplication)
	child.SetLabels(labels)
}
