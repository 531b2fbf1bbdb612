// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

type (
	mutatingConfig   = admissionregistrationv1.MutatingWebhookConfiguration
	validatingConfig = admissionregistrationv1.ValidatingWebhookConfiguration
)

var (
	_ certificate.Registration = Injected[mutatingConfig, *mutatingConfig]{}
	_ certificate.Registration = Owned[validatingConfig, *validatingConfig]{}
)

// registry has the validating configuration "test", and a cache of it.
type registry struct {
	*testing.T

	*fake.Clientset
	store cache.Store
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	return &registry{t, fake.NewClientset(), cache.NewStore(cache.MetaNamespaceKeyFunc)}
}

func (r *registry) client() client[validatingConfig] {
	return r.AdmissionregistrationV1().ValidatingWebhookConfigurations()
}

// put stores a configuration in the API server and in the cache.
func (r *registry) put(config *validatingConfig) {
	r.Helper()
	config.UID, config.ResourceVersion = "its-uid", "41"
	_, err := r.client().Create(r.Context(), config, metav1.CreateOptions{})
	must.Succeed(r, err)
	r.cache(config)
	r.ClearActions()
}

func (r *registry) cache(config *validatingConfig) {
	r.Helper()
	config = config.DeepCopy()
	config.UID, config.ResourceVersion = "its-uid", "41"
	must.Succeed(r, r.store.Update(config))
}

// stored returns the configuration from the API server, or nil.
func (r *registry) stored() *validatingConfig {
	r.Helper()
	live, err := r.client().Get(r.Context(), "test", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.Succeed(r, err)
	live.ManagedFields, live.TypeMeta = nil, metav1.TypeMeta{}
	return live
}

// requested compares the verbs of the requests since the last call, or the last put.
func (r *registry) requested(want ...string) []clienttesting.Action {
	r.Helper()
	var verbs []string
	actions := r.Actions()
	for _, action := range actions {
		verbs = append(verbs, action.GetVerb())
	}
	if !slices.Equal(verbs, want) {
		r.Errorf("requests %q, want %q", verbs, want)
	}
	r.ClearActions()
	return actions
}

// fail makes requests with a verb fail until the returned function is called.
func (r *registry) fail(verb string, err error) (restore func()) {
	chain := slices.Clone(r.ReactionChain)
	r.PrependReactor(verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	return func() { r.ReactionChain = chain }
}

// expect checks what a registration reads from its cache.
func (r *registry) expect(registration certificate.Registration, caBundle string, upToDate bool, bundles ...string) {
	r.Helper()
	if got, err := registration.UpToDate([]byte(caBundle)); got != upToDate || err != nil {
		r.Errorf("up to date with %s: %t, error %v, want %t", caBundle, got, err, upToDate)
	}
	var held []string
	got, err := registration.Bundles()
	for _, bundle := range got {
		held = append(held, string(bundle))
	}
	if !slices.Equal(held, bundles) || err != nil {
		r.Errorf("bundles %q, error %v, want %q", held, err, bundles)
	}
}

var conflict = apierrors.NewConflict(admissionregistrationv1.Resource("validatingwebhookconfigurations"), "test", errors.New("changed"))

// fails checks that a registration returns errors if its cache holds another kind.
func (r *registry) fails(registration certificate.Registration) {
	r.Helper()
	must.Succeed(r, r.store.Update(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "test"}}))
	_, bundlesErr := registration.Bundles()
	_, upToDateErr := registration.UpToDate(nil)
	for _, err := range []error{bundlesErr, upToDateErr, registration.Trust(r.Context(), nil)} {
		if err == nil || !strings.Contains(err.Error(), "ConfigMap") {
			r.Errorf("error %v", err)
		}
	}
}

func TestInject(t *testing.T) {
	r := newRegistry(t)
	inject := Inject("test", r.store, r.client(), service)
	r.expect(inject, "one", true)
	must.Succeed(t, inject.Trust(t.Context(), []byte("one")))
	r.requested() // none without a configuration

	applied := ByService(service).ValidatingConfiguration("test")
	applied.Webhooks = applied.Webhooks[:3]
	theirs := &applied.Webhooks[0].ClientConfig
	theirs.Service.Namespace, theirs.CABundle = "elsewhere", []byte("theirs")
	r.put(applied)
	r.expect(inject, "one", false, "", "")
	must.Succeed(t, inject.Trust(t.Context(), []byte("one")))
	patch := r.requested("patch")[0].(clienttesting.PatchActionImpl)
	var got struct {
		Metadata map[string]string
		Webhooks []map[string]any
	}
	must.Succeed(t, stdjson.Unmarshal(patch.GetPatch(), &got))
	if want := map[string]string{"resourceVersion": "41", "uid": "its-uid"}; !reflect.DeepEqual(got.Metadata, want) ||
		len(got.Webhooks) != 2 || patch.PatchOptions.FieldManager != glassback.Name {
		t.Errorf("the patch is %s by %s", patch.GetPatch(), patch.PatchOptions.FieldManager)
	}
	want := applied.DeepCopy()
	want.Webhooks[1].ClientConfig.CABundle, want.Webhooks[2].ClientConfig.CABundle = []byte("one"), []byte("one")
	if got := r.stored(); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("more than the caBundle has changed: %s", diff.Diff(want, got))
	}

	r.expect(inject, "one", false, "", "") // The cache is stale.
	r.cache(r.stored())
	r.expect(inject, "one", true, "one", "one")
	r.expect(inject, "two", false, "one", "one")
	must.Succeed(t, inject.Trust(t.Context(), []byte("two")))
	behind := r.stored()
	for i, want := range []string{"theirs", "two", "two"} {
		if got := behind.Webhooks[i].ClientConfig.CABundle; string(got) != want {
			t.Errorf("webhook %d has %s, want %s", i, got, want)
		}
	}
	behind.Webhooks[2].ClientConfig.CABundle = nil
	r.cache(behind)
	r.expect(inject, "two", false, "two", "")
	restore := r.fail("patch", conflict)
	if err := inject.Trust(t.Context(), []byte("two")); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	restore()

	for name, edit := range map[string]func(*validatingConfig){
		"a foreign configuration": func(c *validatingConfig) {
			for i := range c.Webhooks {
				c.Webhooks[i].ClientConfig.Service.Name = "theirs"
			}
		},
		"one that calls URLs": func(c *validatingConfig) {
			for i := range c.Webhooks {
				c.Webhooks[i].ClientConfig.Service = nil
			}
		},
		"one whose caBundle cert-manager writes": func(c *validatingConfig) {
			c.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "a/b"}
		},
		"one into which cert-manager writes the cluster's CA": func(c *validatingConfig) {
			c.Annotations = map[string]string{"cert-manager.io/inject-apiserver-ca": "true"}
		},
	} {
		t.Run(name+" is left alone", func(t *testing.T) {
			foreign := r.stored()
			edit(foreign)
			r.cache(foreign)
			r.ClearActions()
			r.expect(inject, "one", true)
			must.Succeed(t, inject.Trust(t.Context(), []byte("one")))
			r.requested()
		})
	}
	r.fails(inject)
}

func TestOwn(t *testing.T) {
	r := newRegistry(t)
	desired := func(caBundle []byte) *validatingConfig {
		return ByURL(parseURL(t, "https://[::1]:8443"), nil, caBundle).ValidatingConfiguration("test")
	}
	own := Own(r.store, r.client(), desired)
	all := func(bundle string) []string { return slices.Repeat([]string{bundle}, len(desired(nil).Webhooks)) }

	r.expect(own, "one", false)
	restore := r.fail("create", errors.New("connection refused"))
	if err := own.Trust(t.Context(), []byte("one")); err == nil {
		t.Error("a creation that failed has no error")
	}
	restore()
	r.ClearActions()
	must.Succeed(t, own.Trust(t.Context(), []byte("one")))
	r.requested("create")
	if got := r.stored(); !reflect.DeepEqual(got.Webhooks, desired([]byte("one")).Webhooks) || got.Labels[LabelOwned] != "true" {
		t.Errorf("the stored configuration is %+v", got)
	}
	// Another replica has created it in between: a quiet retry.
	if err := own.Trust(t.Context(), []byte("one")); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}

	r.cache(r.stored())
	r.expect(own, "one", true, all("one")...)
	r.expect(own, "two", false, all("one")...)
	for name, edit := range map[string]func(*validatingConfig){
		"nothing":      func(*validatingConfig) {},
		"its caBundle": func(c *validatingConfig) { c.Webhooks[0].ClientConfig.CABundle = []byte("evil") },
		"its URL":      func(c *validatingConfig) { *c.Webhooks[0].ClientConfig.URL = "https://evil.example.com" },
		"its rules":    func(c *validatingConfig) { c.Webhooks = c.Webhooks[1:] },
	} {
		t.Run("a user edited "+name, func(t *testing.T) {
			edited := r.stored()
			edit(edited)
			_, err := r.client().Update(t.Context(), edited, metav1.UpdateOptions{})
			must.Succeed(t, err)
			r.cache(edited)
			if upToDate, err := own.UpToDate([]byte(name)); upToDate || err != nil {
				t.Errorf("up to date: %t, error %v", upToDate, err)
			}
			r.ClearActions()
			must.Succeed(t, own.Trust(t.Context(), []byte(name)))
			update := r.requested("update")[0].(clienttesting.UpdateActionImpl)
			if got := update.GetObject().(*validatingConfig); got.UID != "its-uid" || got.ResourceVersion != "41" ||
				update.UpdateOptions.FieldManager != glassback.Name {
				t.Errorf("the update of %s has the UID %s and the version %s", update.UpdateOptions.FieldManager, got.UID, got.ResourceVersion)
			}
			r.cache(r.stored())
			r.expect(own, name, true, all(name)...)
		})
	}
	restore = r.fail("update", conflict)
	if err := own.Trust(t.Context(), []byte("three")); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	restore()

	foreign := r.stored()
	foreign.Labels[LabelOwned] = "false"
	r.cache(foreign)
	r.ClearActions()
	if err := own.Trust(t.Context(), []byte("three")); err == nil || !strings.Contains(err.Error(), "it has no label "+LabelOwned) {
		t.Errorf("error %v of a foreign configuration", err)
	}
	r.requested()
	r.fails(own)
}

func TestRemove(t *testing.T) {
	desired := func(caBundle []byte) *validatingConfig {
		return ByURL(parseURL(t, "https://[::1]:8443"), nil, caBundle).ValidatingConfiguration("test")
	}
	refused := errors.New("connection refused")
	for name, test := range map[string]struct {
		label string // label of the existing configuration; "" if none exists
		verb  string // the verb of the request that fails
		with  error
		did   []string
		stays bool
		err   error
	}{
		"an own configuration":    {"true", "", nil, []string{"get", "delete"}, false, nil},
		"nothing":                 {"", "", nil, []string{"get"}, false, nil},
		"a foreign configuration": {"false", "", nil, []string{"get"}, true, nil},
		"the get fails":           {"true", "get", refused, []string{"get"}, true, refused},
		"the delete fails":        {"true", "delete", refused, []string{"get", "delete"}, true, refused},
		"one that is just being deleted": {
			"true", "delete", apierrors.NewNotFound(corev1.Resource("x"), ""), []string{"get", "delete"}, true, nil,
		},
		"one that is just being recreated": {"true", "delete", conflict, []string{"get", "delete"}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			if test.label != "" {
				there := desired(nil)
				there.Labels = map[string]string{LabelOwned: test.label}
				r.put(there)
			}
			restore := func() {}
			if test.verb != "" {
				restore = r.fail(test.verb, test.with)
			}
			// The cache is empty: Remove reads from the API server.
			err := Own(cache.NewStore(cache.MetaNamespaceKeyFunc), r.client(), desired).Remove(t.Context())
			if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			for _, action := range r.requested(test.did...) {
				if d, ok := action.(clienttesting.DeleteActionImpl); ok {
					if p := d.DeleteOptions.Preconditions; p == nil || p.UID == nil || *p.UID != "its-uid" || p.ResourceVersion != nil {
						t.Errorf("the preconditions of the delete are %+v", p)
					}
				}
			}
			restore()
			if stays := r.stored() != nil; stays != test.stays {
				t.Errorf("the configuration exists: %t, want %t", stays, test.stays)
			}
		})
	}
}
