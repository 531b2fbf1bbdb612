// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// cluster has a configuration of one of the two kinds, with the name "test", and a cache of it.
type cluster[T any, P configuration[T]] struct {
	resource string
	fake     *fake.Clientset
	client   client[T]
	store    cache.Store
	make     func(Endpoint, string) P
	configs  func(P) []*admissionregistrationv1.WebhookClientConfig
}

// eachKind runs a test for both kinds of configuration.
func eachKind(
	t *testing.T,
	mutating func(*testing.T, *cluster[mutatingConfig, *mutatingConfig]),
	validating func(*testing.T, *cluster[validatingConfig, *validatingConfig]),
) {
	t.Helper()
	store := func() cache.Store { return cache.NewStore(cache.MetaNamespaceKeyFunc) }
	t.Run("mutating", func(t *testing.T) {
		c := fake.NewClientset()
		mutating(t, &cluster[mutatingConfig, *mutatingConfig]{
			"mutatingwebhookconfigurations", c, c.AdmissionregistrationV1().MutatingWebhookConfigurations(), store(), Endpoint.MutatingConfiguration,
			func(m *mutatingConfig) (all []*admissionregistrationv1.WebhookClientConfig) {
				for i := range m.Webhooks {
					all = append(all, &m.Webhooks[i].ClientConfig)
				}
				return all
			},
		})
	})
	t.Run("validating", func(t *testing.T) {
		c := fake.NewClientset()
		validating(t, &cluster[validatingConfig, *validatingConfig]{
			"validatingwebhookconfigurations", c, c.AdmissionregistrationV1().ValidatingWebhookConfigurations(), store(),
			Endpoint.ValidatingConfiguration,
			func(v *validatingConfig) (all []*admissionregistrationv1.WebhookClientConfig) {
				for i := range v.Webhooks {
					all = append(all, &v.Webhooks[i].ClientConfig)
				}
				return all
			},
		})
	})
}

// put stores a configuration in the API server and in the cache.
func (c *cluster[T, P]) put(t *testing.T, config P) {
	t.Helper()
	config.SetUID("its-uid")
	config.SetResourceVersion("41")
	if _, err := c.client.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, c.store.Add(P(config.DeepCopy())))
	c.fake.ClearActions()
}

// stored returns the configuration from the API server, or nil.
func (c *cluster[T, P]) stored(t *testing.T) P {
	t.Helper()
	live, err := c.client.Get(context.Background(), "test", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.Succeed(t, err)
	got := P(live)
	got.SetManagedFields(nil)
	any(got).(runtime.Object).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return got
}

// did returns the verbs of the requests since the last put.
func (c *cluster[T, P]) did(t *testing.T) []string {
	t.Helper()
	var verbs []string
	for _, action := range c.fake.Actions() {
		if got := action.GetResource().Resource; got != c.resource {
			t.Errorf("got a request for %s, want only %s", got, c.resource)
		}
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}

// fail makes requests with a verb fail.
func (c *cluster[T, P]) fail(verb string, err error) {
	c.fake.PrependReactor(verb, c.resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func (c *cluster[T, P]) restore(chain []clienttesting.Reactor) { c.fake.ReactionChain = chain }

func TestInject(t *testing.T) {
	eachKind(t, injects, injects)
}

func injects[T any, P configuration[T]](t *testing.T, c *cluster[T, P]) {
	inject := func() Injected[T, P] { return Inject[T, P]("test", c.store, c.client, service) }
	expect := func(t *testing.T, caBundle string, upToDate bool, bundles ...string) {
		t.Helper()
		got, err := inject().UpToDate([]byte(caBundle))
		if got != upToDate || err != nil {
			t.Errorf("up to date with %s: %t, error %v, want %t", caBundle, got, err, upToDate)
		}
		held, err := inject().Bundles()
		if err != nil || len(held) != len(bundles) {
			t.Fatalf("bundles %q, error %v, want %q", held, err, bundles)
		}
		for i := range held {
			if string(held[i]) != bundles[i] {
				t.Errorf("bundle %q, want %q", held[i], bundles[i])
			}
		}
	}

	t.Run("without a configuration, no request", func(t *testing.T) {
		expect(t, "one", true)
		if err := inject().Trust(t.Context(), []byte("one")); err != nil {
			t.Error(err)
		}
		if did := c.did(t); len(did) > 0 {
			t.Errorf("requests %q", did)
		}
	})

	applied := c.make(ByService(service), "test")
	if len(c.configs(applied)) < 2 { // The test needs another webhook, since it changes the first one to another Service.
		switch a := any(applied).(type) {
		case *mutatingConfig:
			second := a.Webhooks[0].DeepCopy()
			second.Name = "second." + second.Name
			a.Webhooks = append(a.Webhooks, *second)
		default:
			t.Fatal("the configuration has only one webhook")
		}
	}
	configs := c.configs(applied)
	theirs := configs[0]
	theirs.Service.Namespace, theirs.CABundle = "elsewhere", []byte("theirs")
	own := len(configs) - 1
	c.put(t, applied)
	repeat := func(bundle string) []string { return slices.Repeat([]string{bundle}, own) }

	t.Run("the caBundle is written, and nothing else", func(t *testing.T) {
		expect(t, "one", false, repeat("")...)
		must.Succeed(t, inject().Trust(t.Context(), []byte("one")))
		if did := c.did(t); !slices.Equal(did, []string{"patch"}) {
			t.Fatalf("requests %q", did)
		}
		patch, ok := c.fake.Actions()[0].(clienttesting.PatchActionImpl)
		if !ok || patch.GetPatchType() != types.StrategicMergePatchType || patch.PatchOptions.FieldManager != glassback.Name ||
			patch.GetName() != "test" {
			t.Errorf("%+v", patch)
		}
		var got struct {
			Metadata map[string]string
			Webhooks []map[string]any
		}
		must.Succeed(t, stdjson.Unmarshal(patch.GetPatch(), &got))
		if want := map[string]string{"resourceVersion": "41", "uid": "its-uid"}; !reflect.DeepEqual(got.Metadata, want) {
			t.Errorf("the patch has the metadata %v, want %v", got.Metadata, want)
		}
		if len(got.Webhooks) != own {
			t.Errorf("the patch has %d webhooks, want %d: %s", len(got.Webhooks), own, patch.GetPatch())
		}
		want := P(applied.DeepCopy())
		for _, config := range c.configs(want)[1:] {
			config.CABundle = []byte("one")
		}
		if got := c.stored(t); !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("the stored configuration differs: %s", diff.Diff(want, got))
		}
	})

	t.Run("with a stale cache, not up to date", func(t *testing.T) {
		expect(t, "one", false, repeat("")...)
	})
	must.Succeed(t, c.store.Update(c.stored(t)))
	t.Run("settled", func(t *testing.T) { expect(t, "one", true, repeat("one")...) })
	t.Run("another caBundle is written over it", func(t *testing.T) {
		expect(t, "two", false, repeat("one")...)
		must.Succeed(t, inject().Trust(t.Context(), []byte("two")))
		for i, config := range c.configs(c.stored(t)) {
			want := "two"
			if i == 0 {
				want = "theirs"
			}
			if string(config.CABundle) != want {
				t.Errorf("webhook %d has %s, want %s", i, config.CABundle, want)
			}
		}
	})
	t.Run("with one outdated webhook, not up to date", func(t *testing.T) {
		behind := c.stored(t)
		c.configs(behind)[own].CABundle = nil
		must.Succeed(t, c.store.Update(behind))
		expect(t, "two", false, append(repeat("two")[:own-1], "")...)
	})
	t.Run("a conflict is an error", func(t *testing.T) {
		c.fail("patch", apierrors.NewConflict(admissionregistrationv1.Resource(c.resource), "test", errors.New("another resourceVersion")))
		if err := inject().Trust(t.Context(), []byte("two")); !apierrors.IsConflict(err) ||
			!strings.HasPrefix(err.Error(), "patch the caBundle of *v1.") {
			t.Errorf("error %v", err)
		}
	})
	for name, edit := range map[string]func(P){
		"a foreign configuration": func(p P) {
			for _, config := range c.configs(p) {
				config.Service.Name = "theirs"
			}
		},
		"one that calls URLs": func(p P) {
			for _, config := range c.configs(p) {
				config.Service = nil
			}
		},
		"one whose caBundle cert-manager writes": func(p P) { p.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": "a/b"}) },
		"one into which cert-manager writes the cluster's CA": func(p P) {
			p.SetAnnotations(map[string]string{"cert-manager.io/inject-apiserver-ca": "true"})
		},
	} {
		t.Run(name+" is left alone", func(t *testing.T) {
			foreign := c.stored(t)
			edit(foreign)
			must.Succeed(t, c.store.Update(foreign))
			c.fake.ClearActions()
			expect(t, "one", true)
			if err := inject().Trust(t.Context(), []byte("one")); err != nil {
				t.Error(err)
			}
			if did := c.did(t); len(did) > 0 {
				t.Errorf("requests %q", did)
			}
		})
	}
	t.Run("a cache of another kind is an error", func(t *testing.T) { fails(t, c.store, inject()) })
}

// fails checks that a registration returns errors if its cache holds another kind.
func fails(t *testing.T, store cache.Store, r certificate.Registration) {
	t.Helper()
	must.Succeed(t, store.Update(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "test"}}))
	_, bundlesErr := r.Bundles()
	_, upToDateErr := r.UpToDate(nil)
	for _, err := range []error{bundlesErr, upToDateErr, r.Trust(t.Context(), nil)} {
		if err == nil || err.Error() != "the cache of webhook configurations holds a *v1.ConfigMap" {
			t.Errorf("error %v", err)
		}
	}
}

func TestOwn(t *testing.T) {
	eachKind(t, owns, owns)
}

func owns[T any, P configuration[T]](t *testing.T, c *cluster[T, P]) {
	desired := func(caBundle []byte) P {
		return c.make(ByURL(parseURL(t, "https://[::1]:8443"), nil, caBundle), "test")
	}
	own := func() Owned[T, P] { return Own[T, P](c.store, c.client, desired) }
	trust := func(t *testing.T, caBundle string, want ...string) {
		t.Helper()
		c.fake.ClearActions()
		if err := own().Trust(t.Context(), []byte(caBundle)); err != nil {
			t.Error(err)
		}
		if did := c.did(t); !slices.Equal(did, want) {
			t.Errorf("requests %q, want %q", did, want)
		}
	}
	expect := func(t *testing.T, caBundle string, upToDate bool, bundle string) {
		t.Helper()
		got, err := own().UpToDate([]byte(caBundle))
		if got != upToDate || err != nil {
			t.Errorf("up to date with %s: %t, error %v, want %t", caBundle, got, err, upToDate)
		}
		bundles, err := own().Bundles()
		want := len(c.configs(desired(nil)))
		if bundle == "" {
			want = 0
		}
		if err != nil || len(bundles) != want || slices.ContainsFunc(bundles, func(b []byte) bool { return string(b) != bundle }) {
			t.Errorf("bundles %q, error %v, want %d times %s", bundles, err, want, bundle)
		}
	}
	catchUp := func(t *testing.T) {
		t.Helper()
		stored := c.stored(t)
		stored.SetUID("its-uid")
		stored.SetResourceVersion("41")
		must.Succeed(t, c.store.Update(stored))
	}

	t.Run("a missing configuration is created", func(t *testing.T) {
		expect(t, "one", false, "")
		trust(t, "one", "create")
		if got := c.stored(t); !reflect.DeepEqual(c.configs(got), c.configs(desired([]byte("one")))) || got.GetLabels()[LabelOwned] != "true" {
			t.Errorf("the stored configuration is %+v", got)
		}
	})
	t.Run("another replica created it in between: a quiet retry", func(t *testing.T) {
		if err := own().Trust(t.Context(), []byte("one")); !apierrors.IsConflict(err) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the creation fails", func(t *testing.T) {
		defer c.restore(slices.Clone(c.fake.ReactionChain))
		c.fail("create", errors.New("connection refused"))
		err := own().Trust(t.Context(), []byte("one"))
		if err == nil || !strings.HasPrefix(err.Error(), "create *v1.") || !strings.HasSuffix(err.Error(), " test: connection refused") {
			t.Errorf("error %v", err)
		}
	})
	catchUp(t)
	t.Run("settled", func(t *testing.T) { expect(t, "one", true, "one") })
	t.Run("another caBundle is written over it", func(t *testing.T) {
		expect(t, "two", false, "one")
		trust(t, "two", "update")
		update, ok := c.fake.Actions()[0].(clienttesting.UpdateActionImpl)
		if !ok {
			t.Fatalf("%T", c.fake.Actions()[0])
		}
		if got := update.GetObject().(P); got.GetUID() != "its-uid" || got.GetResourceVersion() != "41" ||
			update.UpdateOptions.FieldManager != glassback.Name {
			t.Errorf("the update has the UID %s, the version %s and the manager %s", got.GetUID(), got.GetResourceVersion(),
				update.UpdateOptions.FieldManager)
		}
		catchUp(t)
		expect(t, "two", true, "two")
	})
	for name, edit := range map[string]func(P){
		"its caBundle": func(p P) { c.configs(p)[0].CABundle = []byte("evil") },
		"its URL":      func(p P) { *c.configs(p)[0].URL = "https://evil.example.com" },
		"its rules": func(p P) {
			switch p := any(p).(type) {
			case *mutatingConfig:
				p.Webhooks[0].MatchConditions = nil
			case *validatingConfig:
				p.Webhooks = p.Webhooks[1:]
			}
		},
	} {
		t.Run("a user edited "+name, func(t *testing.T) {
			edited := c.stored(t)
			edit(edited)
			if _, err := c.client.Update(t.Context(), edited, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			catchUp(t)
			if upToDate, err := own().UpToDate([]byte("two")); upToDate || err != nil {
				t.Errorf("up to date: %t, error %v", upToDate, err)
			}
			trust(t, "two", "update")
			catchUp(t)
			expect(t, "two", true, "two")
		})
	}
	t.Run("a conflict is an error", func(t *testing.T) {
		defer c.restore(slices.Clone(c.fake.ReactionChain))
		c.fail("update", apierrors.NewConflict(admissionregistrationv1.Resource(c.resource), "test", errors.New("another resourceVersion")))
		if err := own().Trust(t.Context(), []byte("three")); !apierrors.IsConflict(err) || !strings.HasPrefix(err.Error(), "update *v1.") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a foreign configuration is left alone and reported", func(t *testing.T) {
		foreign := c.stored(t)
		foreign.SetLabels(map[string]string{LabelOwned: "false"})
		must.Succeed(t, c.store.Update(foreign))
		c.fake.ClearActions()
		err := own().Trust(t.Context(), []byte("three"))
		if err == nil || !strings.Contains(err.Error(), "test is not the operator's: it has no label "+LabelOwned) {
			t.Errorf("error %v", err)
		}
		if did := c.did(t); len(did) > 0 {
			t.Errorf("requests %q", did)
		}
	})
	t.Run("a cache of another kind is an error", func(t *testing.T) { fails(t, c.store, own()) })
}

func TestRemove(t *testing.T) {
	eachKind(t, removes, removes)
}

func removes[T any, P configuration[T]](t *testing.T, c *cluster[T, P]) {
	desired := func(caBundle []byte) P {
		return c.make(ByURL(parseURL(t, "https://[::1]:8443"), nil, caBundle), "test")
	}
	// The cache is empty: Remove reads from the API server.
	own := Own[T, P](cache.NewStore(cache.MetaNamespaceKeyFunc), c.client, desired)
	chain := slices.Clone(c.fake.ReactionChain)
	resource := admissionregistrationv1.Resource(c.resource)
	changed := apierrors.NewConflict(resource, "test", errors.New("another UID"))
	for _, test := range []struct {
		name  string
		label string // label of the existing configuration; "" if none exists
		verb  string // the verb of the request that fails
		with  error
		did   []string
		stays bool
		err   string
	}{
		{"an own configuration", "true", "", nil, []string{"get", "delete"}, false, ""},
		{"nothing", "", "", nil, []string{"get"}, false, ""},
		{"a foreign configuration", "false", "", nil, []string{"get"}, true, ""},
		{"the get fails", "true", "get", errors.New("connection refused"), []string{"get"}, true, " test: connection refused"},
		{
			"the delete fails", "true", "delete", errors.New("connection refused"), []string{"get", "delete"}, true,
			" test: connection refused",
		},
		{"one that is just being deleted", "true", "delete", apierrors.NewNotFound(resource, "test"), []string{"get", "delete"}, true, ""},
		{"one that is just being recreated", "true", "delete", changed, []string{"get", "delete"}, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.restore(slices.Clone(chain))
			if c.stored(t) != nil {
				must.Succeed(t, c.client.Delete(t.Context(), "test", metav1.DeleteOptions{}))
			}
			if test.label != "" {
				there := desired(nil)
				there.SetLabels(map[string]string{LabelOwned: test.label})
				c.put(t, there)
			}
			c.fake.ClearActions()
			if test.verb != "" {
				c.fail(test.verb, test.with)
			}
			err := own.Remove(t.Context())
			if (err == nil) != (test.err == "") ||
				err != nil && !(strings.HasSuffix(err.Error(), test.err) && strings.HasPrefix(err.Error(), test.verb+" *v1.")) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if did := c.did(t); !slices.Equal(did, test.did) {
				t.Errorf("requests %q, want %q", did, test.did)
			}
			for _, action := range c.fake.Actions() {
				if d, ok := action.(clienttesting.DeleteActionImpl); ok {
					if p := d.DeleteOptions.Preconditions; p == nil || p.UID == nil || *p.UID != "its-uid" || p.ResourceVersion != nil {
						t.Errorf("the preconditions of the delete are %+v", p)
					}
				}
			}
			c.restore(slices.Clone(chain))
			if stays := c.stored(t) != nil; stays != test.stays {
				t.Errorf("the configuration exists: %t, want %t", stays, test.stays)
			}
		})
	}
}
