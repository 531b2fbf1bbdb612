// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/must"
)

var (
	key = cache.NewObjectName("default", "sample")
	own = metav1.ApplyOptions{FieldManager: glassback.Name, Force: true}
)

func configMap(change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string]string{"a": "1"},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func example() *groupav1.ApiExampleA {
	return &groupav1.ApiExampleA{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: groupav1.ApiExampleASpec{FirstName: "Jimmy"},
	}
}

// wanted returns a configuration. Its arguments are keys and values in turn.
func wanted(data ...string) *corev1ac.ConfigMapApplyConfiguration {
	values := map[string]string{}
	for i := 0; i < len(data); i += 2 {
		values[data[i]] = data[i+1]
	}
	return corev1ac.ConfigMap(key.Name, key.Namespace).WithData(values)
}

func apply(s *Server, configuration *corev1ac.ConfigMapApplyConfiguration, options metav1.ApplyOptions) error {
	_, err := s.Kube().CoreV1().ConfigMaps(key.Namespace).Apply(context.Background(), configuration, options)
	return err
}

func held(obj Object)     { obj.SetFinalizers([]string{"example.com/held"}) }
func released(obj Object) { obj.SetFinalizers(nil) }

// TestApply compares the data and the error of the last apply.
func TestApply(t *testing.T) {
	other := metav1.ApplyOptions{FieldManager: "other"}
	type step struct {
		configuration *corev1ac.ConfigMapApplyConfiguration
		options       metav1.ApplyOptions
	}
	for sentence, test := range map[string]struct {
		given []step
		since func(*Server) // what another client does then
		last  step
		want  map[string]string
		err   func(error) bool
	}{
		"an apply removes a field that its manager does not want any more": {
			given: []step{{wanted("a", "1", "b", "1"), own}}, last: step{wanted("a", "1"), own}, want: map[string]string{"a": "1"},
		},
		"an apply leaves a field of another manager": {
			given: []step{{wanted("b", "1"), other}}, last: step{wanted("a", "1"), own}, want: map[string]string{"a": "1", "b": "1"},
		},
		"an apply with force takes a field over": {
			given: []step{{wanted("a", "1"), other}}, last: step{wanted("a", "2"), own}, want: map[string]string{"a": "2"},
		},
		"an apply without force gets a conflict for a field of another manager": {
			given: []step{{wanted("a", "1"), own}}, last: step{wanted("a", "2"), other},
			want: map[string]string{"a": "1"}, err: apierrors.IsConflict,
		},
		"a field that an edit changed belongs to the editor: an apply without it leaves it": {
			given: []step{{wanted("a", "1", "b", "1"), own}},
			since: func(s *Server) { Edit(s, key, "editor", func(c *corev1.ConfigMap) { c.Data["b"] = "2" }) },
			last:  step{wanted("a", "1"), own}, want: map[string]string{"a": "1", "b": "2"},
		},
		"an apply for an earlier version gets a conflict": {
			given: []step{{wanted("a", "1"), own}, {wanted("a", "2"), own}}, last: step{wanted("a", "3").WithResourceVersion("101"), own},
			want: map[string]string{"a": "2"}, err: apierrors.IsConflict,
		},
		"an apply for a version creates an object that does not exist": {
			last: step{wanted("a", "1").WithResourceVersion(neverVersion), own}, want: map[string]string{"a": "1"},
		},
		"an apply for another UID gets a conflict": {
			given: []step{{wanted("a", "1"), own}}, last: step{wanted("a", "2").WithUID("other"), own},
			want: map[string]string{"a": "1"}, err: apierrors.IsConflict,
		},
		"an apply for a UID does not create an object": {last: step{wanted("a", "1").WithUID("other"), own}, err: apierrors.IsConflict},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := New()
			for _, step := range test.given {
				must.Succeed(t, apply(s, step.configuration, step.options))
			}
			if test.since != nil {
				test.since(s)
			}
			err := apply(s, test.last.configuration, test.last.options)
			if test.err == nil && err != nil || test.err != nil && !test.err(err) {
				t.Errorf("error %v", err)
			}
			data := map[string]string(nil)
			if c := Get[*corev1.ConfigMap](s, key); c != nil {
				data = c.Data
			}
			if !maps.Equal(data, test.want) {
				t.Errorf("data %v, want %v", data, test.want)
			}
		})
	}
}

func TestWriteThatChangesNothingMakesNoVersion(t *testing.T) {
	s := New()
	must.Succeed(t, apply(s, wanted("a", "1"), own))
	s.Put(example())
	version, examples := s.Version(), s.Glassback().GroupaV1().ApiExampleAs(key.Namespace)
	if err := apply(s, wanted("a", "1"), own); err != nil {
		t.Error(err)
	}
	if _, err := examples.UpdateStatus(t.Context(), Get[*groupav1.ApiExampleA](s, key), metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	Edit(s, key, "editor", func(*corev1.ConfigMap) {})
	if s.Version() != version || int64(len(s.Events())) != version-firstVersion {
		t.Errorf("version %d and %d events, want version %d", s.Version(), len(s.Events()), version)
	}
}

func TestAnnotationsOfDeploymentsRaiseTheGeneration(t *testing.T) {
	s := New()
	s.Put(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, example())
	annotate := func(obj Object) { obj.SetAnnotations(map[string]string{"a": "1"}) }
	s.Edit("deployments", key, "editor", annotate)
	s.Edit("apiexampleas", key, "editor", annotate)
	if d, e := s.Get("deployments", key), s.Get("apiexampleas", key); d.GetGeneration() != 2 || e.GetGeneration() != 1 {
		t.Errorf("generations %d and %d, want 2 of the Deployment and 1 of the ApiExampleA", d.GetGeneration(), e.GetGeneration())
	}
}

func TestMergePatch(t *testing.T) {
	s := New()
	s.Put(configMap(func(c *corev1.ConfigMap) { c.Data["b"] = "1" }))
	client := s.Kube().CoreV1().ConfigMaps(key.Namespace)
	patch := func(text string) error {
		_, err := client.Patch(t.Context(), key.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	for _, precondition := range []string{`"resourceVersion":"99"`, `"uid":"other"`} {
		if err := patch(`{"metadata":{` + precondition + `},"data":{"a":"2"}}`); !apierrors.IsConflict(err) {
			t.Errorf("%s: error %v, want a conflict", precondition, err)
		}
	}
	must.Succeed(t, patch(`{"metadata":{"resourceVersion":"101","finalizers":["example.com/held"]},"data":{"a":"2","b":null}}`))
	c := Get[*corev1.ConfigMap](s, key)
	if !maps.Equal(c.Data, map[string]string{"a": "2"}) || len(c.Finalizers) != 1 || c.ResourceVersion != "102" {
		t.Errorf("the patched object is %+v", c)
	}
}

func TestCreate(t *testing.T) {
	s, clock := New(), clocktesting.NewFakePassiveClock(time.Unix(1641736200, 0))
	s.Clock = clock
	s.Admit = func(was, now Object) {
		if was == nil {
			now.SetLabels(map[string]string{"admitted": "true"})
		}
	}
	client := s.Kube().CoreV1().ConfigMaps(key.Namespace)
	made, err := client.Create(t.Context(), configMap(), metav1.CreateOptions{})
	must.Succeed(t, err)
	if made.UID != "uid-of-configmaps-sample-1" || made.ResourceVersion != "101" || !made.CreationTimestamp.Time.Equal(clock.Now()) ||
		made.Labels["admitted"] == "" {
		t.Errorf("made %+v", made.ObjectMeta)
	}
	if _, err := client.Create(t.Context(), configMap(), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("error %v, want AlreadyExists", err)
	}
	must.Succeed(t, client.Delete(t.Context(), key.Name, metav1.DeleteOptions{}))
	if again, err := client.Create(t.Context(), configMap(), metav1.CreateOptions{}); err != nil || again.UID != "uid-of-configmaps-sample-2" {
		t.Errorf("made again with UID %s, error %v; want another UID", again.UID, err)
	}
}

// TestEvictionDeletesAPod evicts with the typed client, and with the RESTClient of Evicting.
func TestEvictionDeletesAPod(t *testing.T) {
	eviction := func(uid types.UID, version string) *policyv1.Eviction {
		return &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}},
		}
	}
	for sentence, evict := range map[string]func(*Server, *policyv1.Eviction) error{
		"by the typed client": func(s *Server, e *policyv1.Eviction) error {
			return s.Kube().CoreV1().Pods(key.Namespace).EvictV1(t.Context(), e)
		},
		"by the RESTClient": func(s *Server, e *policyv1.Eviction) error {
			return Evicting(s.Kube()).CoreV1().RESTClient().Post().Namespace(key.Namespace).Resource("pods").Name(key.Name).
				SubResource("eviction").Body(e).Do(t.Context()).Error()
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := New()
			s.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
			for _, other := range []*policyv1.Eviction{eviction("other", "101"), eviction("uid-of-pods-sample-1", "100")} {
				if err := evict(s, other); !apierrors.IsConflict(err) || s.Get("pods", key) == nil {
					t.Errorf("error %v, want a conflict", err)
				}
			}
			if err := evict(s, eviction("uid-of-pods-sample-1", "101")); err != nil || s.Get("pods", key) != nil {
				t.Errorf("error %v, want that the Pod is gone", err)
			}
		})
	}
}

func TestCollectGarbageDeletesObjectsWithoutTheirController(t *testing.T) {
	s := New()
	owner := example()
	owner.UID = "owner"
	s.Put(owner, configMap(func(c *corev1.ConfigMap) {
		c.OwnerReferences = []metav1.OwnerReference{{Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}}
	}), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	s.CollectGarbage()
	if n := len(s.All()); n != 3 {
		t.Fatalf("%d objects are left while the owner exists, want 3", n)
	}
	s.Remove("apiexampleas", key)
	s.CollectGarbage()
	if left := s.All(); len(left) != 1 || ResourceOf(left[0]) != "secrets" {
		t.Errorf("left are %v, want the Secret", left)
	}
}

func TestRequests(t *testing.T) {
	s := New()
	client := s.Kube().CoreV1().ConfigMaps(key.Namespace)
	for _, c := range []*corev1ac.ConfigMapApplyConfiguration{
		wanted("a", "1").WithResourceVersion(neverVersion), wanted("a", "2"), wanted("a", "3").WithResourceVersion("102"),
	} {
		must.Succeed(t, apply(s, c, own))
	}
	_ = apply(s, wanted("b", "1"), metav1.ApplyOptions{FieldManager: glassback.Name})
	_ = apply(s, wanted("b", "1"), metav1.ApplyOptions{FieldManager: "other", Force: true})
	s.Put(example())
	e := Get[*groupav1.ApiExampleA](s, key).DeepCopy()
	_, _ = client.Get(t.Context(), key.Name, metav1.GetOptions{})
	_, _ = client.List(t.Context(), metav1.ListOptions{})
	_, _ = s.Glassback().GroupaV1().ApiExampleAs(key.Namespace).UpdateStatus(t.Context(), e, metav1.UpdateOptions{})
	_, _ = client.Update(t.Context(), configMap(), metav1.UpdateOptions{})
	_, _ = client.Patch(t.Context(), key.Name, types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"}}`), metav1.PatchOptions{})
	_, _ = client.Patch(t.Context(), key.Name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	uid, version := ptr.To[types.UID]("other"), ptr.To("100")
	_ = client.Delete(t.Context(), key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: uid, ResourceVersion: version}})
	_ = client.Delete(t.Context(), key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: uid}})
	_ = client.Delete(t.Context(), key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: version}})
	_ = client.Delete(t.Context(), key.Name, metav1.DeleteOptions{})
	evicted := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_ = s.Kube().CoreV1().Pods(key.Namespace).EvictV1(t.Context(), evicted)
	want := []string{
		"create configmaps sample", "unguarded apply configmaps sample", "apply configmaps sample", "unforced apply configmaps sample",
		"apply by other configmaps sample", "get configmaps sample", "list configmaps", "update apiexampleas/status sample",
		"unguarded update configmaps sample", "patch configmaps sample", "unguarded patch configmaps sample", "delete configmaps sample",
		"delete any version of configmaps sample", "unguarded delete configmaps sample", "unguarded delete configmaps sample",
		"unguarded evict pods sample",
	}
	if got := Strings(s.Requests()); !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
	if s.Forget(); len(s.Requests()) > 0 {
		t.Errorf("requests %q, want none after Forget", Strings(s.Requests()))
	}
}

// TestCacheShowsAnyState moves a cache back and forth.
func TestCacheShowsAnyState(t *testing.T) {
	s := New()
	if err := apply(s, wanted("a", "1").WithLabels(map[string]string{"of": "sample"}), own); err != nil { // version 101
		t.Fatal(err)
	}
	Edit(s, key, "editor", func(c *corev1.ConfigMap) { c.Data["b"] = "2" })      // 102
	Edit(s, key, "editor", func(c *corev1.ConfigMap) { delete(c.Labels, "of") }) // 103
	s.Remove("configmaps", key)                                                  // 104
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	c := s.Cache("configmaps", store, Labelled("of"))
	for _, step := range []struct {
		version int64
		want    map[string]string
	}{
		{104, nil},
		{101, map[string]string{"a": "1"}},
		{102, map[string]string{"a": "1", "b": "2"}},
		{103, nil}, // The informer does not read it without the label.
		{100, nil},
	} {
		c.See(step.version)
		got := map[string]string(nil)
		if obj, exists, _ := store.GetByKey(key.String()); exists {
			shown := obj.(*corev1.ConfigMap)
			if got = shown.Data; len(shown.ManagedFields) != 1 || shown.ManagedFields[0].Manager != glassback.Name {
				t.Errorf("version %d has managedFields %v, want those of the operator", step.version, shown.ManagedFields)
			}
		}
		if !maps.Equal(got, step.want) || c.At() != step.version {
			t.Errorf("version %d shows %v, want %v", step.version, got, step.want)
		}
	}
}

// TestUpdate updates the spec and the status of an object. want has the first name, the greeting in the status, and the generation.
func TestUpdate(t *testing.T) {
	for sentence, test := range map[string]struct {
		status bool // whether it is an update of the status
		change func(*groupav1.ApiExampleA)
		err    func(error) bool
		want   string
	}{
		"an update changes the spec, raises the generation and leaves the status": {want: "Ada//2"},
		"an update of the status changes the status alone":                        {status: true, want: "Jimmy/Hello/1"},
		"an update of any version is invalid": {
			status: true, change: func(e *groupav1.ApiExampleA) { e.ResourceVersion = "" }, err: apierrors.IsInvalid, want: "Jimmy//1",
		},
		"an update of an earlier version gets a conflict": {
			change: func(e *groupav1.ApiExampleA) { e.ResourceVersion = "99" }, err: apierrors.IsConflict, want: "Jimmy//1",
		},
		"an update of another UID gets a conflict": {
			status: true, change: func(e *groupav1.ApiExampleA) { e.UID = "other" }, err: apierrors.IsConflict, want: "Jimmy//1",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := New()
			s.Put(example())
			sent := Get[*groupav1.ApiExampleA](s, key).DeepCopy()
			sent.Spec.FirstName, sent.Status.Greeting = "Ada", "Hello"
			if test.change != nil {
				test.change(sent)
			}
			client := s.Glassback().GroupaV1().ApiExampleAs(key.Namespace)
			update := client.Update
			if test.status {
				update = client.UpdateStatus
			}
			_, err := update(t.Context(), sent, metav1.UpdateOptions{})
			if test.err == nil && err != nil || test.err != nil && !test.err(err) {
				t.Errorf("error %v", err)
			}
			e := Get[*groupav1.ApiExampleA](s, key)
			if got := fmt.Sprintf("%s/%s/%d", e.Spec.FirstName, e.Status.Greeting, e.Generation); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	s := New()
	client := s.Kube().CoreV1().ConfigMaps(key.Namespace)
	s.Put(configMap())
	for _, other := range []metav1.Preconditions{
		{UID: ptr.To[types.UID]("other"), ResourceVersion: ptr.To("101")}, {ResourceVersion: ptr.To("100")},
	} {
		if err := client.Delete(t.Context(), key.Name, metav1.DeleteOptions{Preconditions: &other}); !apierrors.IsConflict(err) {
			t.Errorf("error %v, want a conflict", err)
		}
	}
	must.Succeed(t, client.Delete(t.Context(), key.Name, metav1.DeleteOptions{}))
	if obj := s.Get("configmaps", key); obj != nil {
		t.Errorf("there still is %v", obj)
	}
	if err := client.Delete(t.Context(), key.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want NotFound", err)
	}

	s.Put(configMap())
	s.Edit("configmaps", key, "editor", held)
	s.Delete("configmaps", key)
	if obj := s.Get("configmaps", key); obj == nil || obj.GetDeletionTimestamp() == nil {
		t.Errorf("with a finalizer, there is %v", obj)
	}
	s.Edit("configmaps", key, "editor", released)
	if obj := s.Get("configmaps", key); obj != nil {
		t.Errorf("without its last finalizer, there still is %v", obj)
	}
}

// TestInterrupt gives a fault to the second of three writes.
func TestInterrupt(t *testing.T) {
	for sentence, test := range map[string]struct {
		fault   Fault
		want    string // the data of the versions, in their order
		failed  bool   // whether the second write returns an error
		crashed bool
	}{
		"no fault: all writes have an effect":         {NoFault, "123", false, false},
		"a refused write has no effect":               {Refused, "13", true, false},
		"a lost answer: the write has its effect":     {AnswerLost, "123", true, false},
		"a crash: nothing is written after the write": {Crash, "12", false, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := New()
			var failed []int
			crashed := s.Interrupt(func(write int) Fault {
				if write == 1 {
					return test.fault
				}
				return NoFault
			}, func() {
				for n := range 3 {
					if err := apply(s, wanted("a", fmt.Sprint(n+1)), own); err != nil {
						failed = append(failed, n)
					}
				}
			})
			got := ""
			for _, event := range s.Events() {
				got += event.Now.(*corev1.ConfigMap).Data["a"]
			}
			if got != test.want || crashed != test.crashed || slices.Equal(failed, []int{1}) != test.failed {
				t.Errorf("versions %s, failed %v, crashed %t; want %s, failed: %t, crashed %t", got, failed, crashed, test.want, test.failed,
					test.crashed)
			}
			if s.Before != nil || s.After != nil {
				t.Error("the faults are still set")
			}
		})
	}
}
