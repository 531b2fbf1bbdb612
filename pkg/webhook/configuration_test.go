// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/pem"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	admissionwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/cel/environment"
	webhookvalidation "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/artifacts/crd"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
)

func TestPath(t *testing.T) {
	for name, test := range map[string]struct {
		verb string
		gvk  schema.GroupVersionKind
		want string
	}{
		"to default": {
			"mutate", redisv1.SchemeGroupVersion.WithKind("RedisCluster"), "/mutate-bytewang123-redis-wzj-kubebuilder-io-v1-rediscluster",
		},
		"to validate": {"validate", appv1.SchemeGroupVersion.WithKind("Application"), "/validate-app-aiops-org-v1-application"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Path(test.verb, test.gvk); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestEveryDefinitionHasItsKind: objects of a definition without a kind would get no defaults, and no error would report it.
func TestEveryDefinitionHasItsKind(t *testing.T) {
	crds, err := crd.All()
	must.Succeed(t, err)
	var defined, known []string
	for _, c := range crds {
		for _, version := range c.Spec.Versions {
			scales := version.Subresources != nil && version.Subresources.Scale != nil
			for _, k := range kinds {
				if k.resource == c.Spec.Names.Plural && k.scales && !scales {
					t.Errorf("%s has no subresource scale", c.Name)
				}
			}
			defined = append(defined, fmt.Sprintf("%s/%s %s %s", c.Spec.Group, version.Name, c.Spec.Names.Kind, c.Spec.Names.Plural))
		}
	}
	for _, k := range kinds {
		known = append(known, fmt.Sprintf("%s %s %s", k.GroupVersion(), k.Kind, k.resource))
	}
	if !slices.IsSortedFunc(kinds, func(a, b kind) int { return strings.Compare(a.resource, b.resource) }) {
		t.Error("the kinds are not sorted by resource")
	}
	slices.Sort(defined)
	slices.Sort(known)
	if !slices.Equal(defined, known) {
		t.Errorf("the definitions are %q, but the kinds are %q", defined, known)
	}
}

func TestNameByURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://192.168.1.10:8443":           "glassback-192.168.1.10-8443",
		"https://127.0.0.1:9443":              "glassback-127.0.0.1-9443",
		"https://[::1]:8443":                  "glassback---1-8443",
		"https://[2001:db8::]:8443":           "glassback-2001-db8---8443",
		"https://[::ffff:1.2.3.4]:8443":       "glassback---ffff-1.2.3.4-8443",
		"https://[fe80::1%25eth0.1]:8443":     "glassback-fe80--1-eth0.1-8443",
		"https://localhost:8443":              "glassback-localhost-8443",
		"https://Webhook.Example.COM:8443":    "glassback-webhook.example.com-8443",
		"https://webhook.example.com.:8443":   "glassback-webhook.example.com--8443",
		"https://my_host:8443":                "glassback-my-host-8443",
		"https://a_._b.example.com:8443":      "glassback-a---b.example.com-8443",
		"https://webhook.example.com":         "glassback-webhook.example.com",
		"https://xn--bcher-kva.example:1":     "glassback-xn--bcher-kva.example-1",
		"https://b%C3%BCcher.example.com:443": "glassback-b-cher.example.com-443",
	} {
		t.Run(url, func(t *testing.T) {
			got := NameByURL(parseURL(t, url))
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if problems := utilvalidation.IsDNS1123Subdomain(got); len(problems) > 0 {
				t.Errorf("%s is not a valid name: %s", got, problems)
			}
		})
	}
}

func parseURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	must.Succeed(t, err)
	return u
}

// caPEM returns a caBundle.
func caPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: selfSigned().Certificate[0]})
}

var service = types.NamespacedName{Namespace: "glassback-system", Name: "glassback-webhook"}

// hook has the methods that the webhooks of both kinds of configuration have in common.
type hook struct {
	admissionwebhook.WebhookAccessor
	client   admissionregistrationv1.WebhookClientConfig
	original any
}

// hooks returns the webhooks of both configurations.
func hooks(e Endpoint) (mutating, validating []hook) {
	for _, w := range e.MutatingConfiguration("test").Webhooks {
		mutating = append(mutating, hook{admissionwebhook.NewMutatingWebhookAccessor(w.Name, "test", &w), w.ClientConfig, w})
	}
	for _, w := range e.ValidatingConfiguration("test").Webhooks {
		validating = append(validating, hook{admissionwebhook.NewValidatingWebhookAccessor(w.Name, "test", &w), w.ClientConfig, w})
	}
	return mutating, validating
}

func TestConfigurations(t *testing.T) {
	const (
		spec    = " CREATE,UPDATE %[1]s %[2]s if spec-changes at https://192.168.1.10:8443/validate-%[3]s"
		protect = " DELETE %[1]s Fail if is-protected at https://192.168.1.10:8443/validate-%[3]s"
	)
	mutating, validating := hooks(ByURL(parseURL(t, "https://192.168.1.10:8443"), nil, caPEM()))
	say := func(hooks []hook) []string {
		var said []string
		for _, w := range hooks {
			rule := w.GetRules()[0]
			var operations []string
			for _, operation := range rule.Operations {
				operations = append(operations, string(operation))
			}
			said = append(said, fmt.Sprintf("%s: %s %s %s if %s at %s", w.GetName(), strings.Join(operations, ","),
				strings.Join(rule.Resources, ","), *w.GetFailurePolicy(), w.GetMatchConditions()[0].Name, *w.client.URL))
		}
		return said
	}
	if got, want := say(mutating), []string{
		"default.redisclusters.bytewang123-redis.wzj.kubebuilder.io: CREATE,UPDATE redisclusters,redisclusters/scale Fail if spec-changes " +
			"at https://192.168.1.10:8443/mutate-bytewang123-redis-wzj-kubebuilder-io-v1-rediscluster",
	}; !slices.Equal(got, want) {
		t.Errorf("defaulted:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := say(validating), []string{
		fmt.Sprintf("protect.apiexampleas.groupa.k8s.zhuang.com:"+protect, "apiexampleas", "", "groupa-k8s-zhuang-com-v1-apiexamplea"),
		fmt.Sprintf("validate.applications.app.aiops.org:"+spec, "applications", "Ignore", "app-aiops-org-v1-application"),
		fmt.Sprintf("protect.applications.app.aiops.org:"+protect, "applications", "", "app-aiops-org-v1-application"),
		fmt.Sprintf("validate.ecsinstances.alibabacloud.zhouzhengxi.com:"+spec, "ecsinstances", "Ignore",
			"alibabacloud-zhouzhengxi-com-v1alpha1-ecsinstance"),
		fmt.Sprintf("protect.ecsinstances.alibabacloud.zhouzhengxi.com:"+protect, "ecsinstances", "",
			"alibabacloud-zhouzhengxi-com-v1alpha1-ecsinstance"),
		fmt.Sprintf("validate.mycronjobs.batch.wzj.kubebuilder.io:"+spec, "mycronjobs", "Ignore", "batch-wzj-kubebuilder-io-v1-mycronjob"),
		fmt.Sprintf("protect.mycronjobs.batch.wzj.kubebuilder.io:"+protect, "mycronjobs", "", "batch-wzj-kubebuilder-io-v1-mycronjob"),
		fmt.Sprintf("validate.redisclusters.bytewang123-redis.wzj.kubebuilder.io:"+spec, "redisclusters", "Fail",
			"bytewang123-redis-wzj-kubebuilder-io-v1-rediscluster"),
		fmt.Sprintf("protect.redisclusters.bytewang123-redis.wzj.kubebuilder.io:"+protect, "redisclusters", "",
			"bytewang123-redis-wzj-kubebuilder-io-v1-rediscluster"),
	}; !slices.Equal(got, want) {
		t.Errorf("validated:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAnAPIServerAcceptsTheConfigurations checks the rules of pkg/apis/admissionregistration/validation in Kubernetes, as far as this is
// possible without that package.
func TestAnAPIServerAcceptsTheConfigurations(t *testing.T) {
	for name, endpoint := range map[string]Endpoint{
		"by the address of this machine": ByURL(parseURL(t, "https://127.0.0.1:9443"), nil, caPEM()),
		"by IPv6, for some namespaces":   ByURL(parseURL(t, "https://[::1]:8443"), []string{"a", "b"}, caPEM()),
		"by a Service":                   ByService(service),
	} {
		t.Run(name, func(t *testing.T) {
			for _, labels := range []map[string]string{
				endpoint.MutatingConfiguration("test").Labels, endpoint.ValidatingConfiguration("test").Labels,
			} {
				if labels[LabelOwned] != "true" {
					t.Errorf("labels %v", labels)
				}
			}
			mutating, validating := hooks(endpoint)
			names := map[string]bool{}
			for _, w := range slices.Concat(mutating, validating) {
				path := field.NewPath("webhooks").Key(w.GetName())
				errs := utilvalidation.IsFullyQualifiedName(path.Child("name"), w.GetName())
				errs = append(errs, metav1validation.ValidateLabelSelector(w.GetNamespaceSelector(),
					metav1validation.LabelSelectorValidationOptions{}, path)...)
				if c := w.client; c.URL != nil {
					errs = append(errs, webhookvalidation.ValidateWebhookURL(path, *c.URL, true)...)
					errs = append(errs, webhookvalidation.ValidateCABundle(path, c.CABundle)...)
				} else {
					errs = append(errs, webhookvalidation.ValidateWebhookService(path, c.Service.Namespace, c.Service.Name, c.Service.Path,
						*c.Service.Port)...)
				}
				for _, condition := range w.GetMatchConditions() {
					if problems := utilvalidation.IsQualifiedName(condition.Name); len(problems) > 0 {
						t.Errorf("the condition %s: %s", condition.Name, problems)
					}
				}
				if len(errs) > 0 {
					t.Error(errs.ToAggregate())
				}
				if names[w.GetName()] {
					t.Errorf("the configuration has the webhook %s twice", w.GetName())
				}
				names[w.GetName()] = true
				if *w.GetTimeoutSeconds() > 30 || *w.GetSideEffects() != admissionregistrationv1.SideEffectClassNone ||
					!slices.Equal(w.GetAdmissionReviewVersions(), []string{"v1"}) {
					t.Errorf("%+v", w.original)
				}
				// An API server would set a default for an empty field.
				for field, value := range reflect.ValueOf(w.original).Fields() {
					if value.IsZero() {
						t.Errorf("%s of %s is not set", field.Name, w.GetName())
					}
				}
				for _, rule := range w.GetRules() {
					if *rule.Scope != admissionregistrationv1.NamespacedScope {
						t.Errorf("the scope of %s is %s", w.GetName(), *rule.Scope)
					}
				}
			}
		})
	}
}

func TestTheWebhooksAreForTheNamespacesOfTheOperator(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces []string
		want       map[string]bool
	}{
		"all":  {nil, map[string]bool{"a": true, "b": true, "c": true}},
		"one":  {[]string{"a"}, map[string]bool{"a": true, "b": false, "c": false}},
		"some": {[]string{"a", "b"}, map[string]bool{"a": true, "b": true, "c": false}},
	} {
		t.Run(name, func(t *testing.T) {
			mutating, validating := hooks(ByURL(parseURL(t, "https://[::1]:8443"), test.namespaces, nil))
			for _, w := range slices.Concat(mutating, validating) {
				selector, err := w.GetParsedNamespaceSelector()
				must.Succeed(t, err)
				for namespace, want := range test.want {
					if got := selector.Matches(labels.Set{corev1.LabelMetadataName: namespace}); got != want {
						t.Errorf("%s for namespace %s: %t, want %t", w.GetName(), namespace, got, want)
					}
				}
			}
		})
	}
}

func TestEndpoints(t *testing.T) {
	t.Run("by a URL", func(t *testing.T) {
		mutating, _ := hooks(ByURL(parseURL(t, "https://[::1]:8443"), nil, []byte("ca")))
		want := admissionregistrationv1.WebhookClientConfig{
			URL: ptr.To("https://[::1]:8443/mutate-bytewang123-redis-wzj-kubebuilder-io-v1-rediscluster"), CABundle: []byte("ca"),
		}
		if got := mutating[0].client; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("by a Service", func(t *testing.T) {
		mutating, _ := hooks(ByService(service))
		want := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: "glassback-system", Name: "glassback-webhook", Port: ptr.To[int32](443),
			Path: ptr.To("/mutate-bytewang123-redis-wzj-kubebuilder-io-v1-rediscluster"),
		}}
		if got := mutating[0].client; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// TestMatchConditions evaluates the match conditions as an API server does.
func TestMatchConditions(t *testing.T) {
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	mutating, validating := hooks(ByService(service))
	cluster := func(spec, protection string) runtime.Object {
		u := &unstructured.Unstructured{}
		must.Succeed(t, json.Unmarshal([]byte(annotated(t, "RedisCluster", spec, protection)), &u.Object))
		if spec == "" {
			unstructured.RemoveNestedField(u.Object, "spec")
		}
		return u
	}
	bare := cluster("{}", "")
	unstructured.RemoveNestedField(bare.(*unstructured.Unstructured).Object, "spec")
	finalized := cluster(`{"size":6}`, "").(*unstructured.Unstructured)
	finalized.SetFinalizers([]string{"a"})
	labelled := cluster(`{"size":6}`, "").(*unstructured.Unstructured)
	labelled.SetAnnotations(map[string]string{"a": "b"})
	scale := func(replicas int32) runtime.Object {
		return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	}
	for name, test := range map[string]struct {
		operation   admission.Operation
		object, old runtime.Object
		subresource string
		want        bool
	}{
		"a create":                     {admission.Create, cluster(`{"size":6}`, ""), nil, "", true},
		"a create without a spec":      {admission.Create, bare, nil, "", true},
		"a change of the spec":         {admission.Update, cluster(`{"size":7}`, ""), cluster(`{"size":6}`, ""), "", true},
		"a new field in the spec":      {admission.Update, cluster(`{"size":6,"addr":"a"}`, ""), cluster(`{"size":6}`, ""), "", true},
		"a new spec":                   {admission.Update, cluster(`{}`, ""), bare, "", true},
		"a removed spec":               {admission.Update, bare, cluster(`{}`, ""), "", true},
		"no change":                    {admission.Update, cluster(`{"size":6}`, ""), cluster(`{"size":6}`, ""), "", false},
		"a removed finalizer":          {admission.Update, cluster(`{"size":6}`, ""), finalized, "", false},
		"an added protection":          {admission.Update, cluster(`{"size":6}`, "true"), cluster(`{"size":6}`, ""), "", false},
		"a change of scale":            {admission.Update, scale(3), scale(6), "scale", true},
		"a change of scale to 0":       {admission.Update, scale(0), scale(6), "scale", true},
		"no change of scale":           {admission.Update, scale(6), scale(6), "scale", false},
		"a delete without annotations": {admission.Delete, nil, cluster(`{}`, ""), "", false},
		"a delete with other ones":     {admission.Delete, nil, labelled, "", false},
		"a delete of a protected one":  {admission.Delete, nil, cluster(`{}`, "true"), "", true},
		"a delete after protection":    {admission.Delete, nil, cluster(`{}`, "false"), "", false},
		"a delete without a spec":      {admission.Delete, nil, bare, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			k := kindOf(t, "RedisCluster")
			gvk := k.GroupVersionKind
			if test.subresource != "" {
				gvk = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
			}
			attributes := admission.NewAttributesRecord(test.object, test.old, gvk, "default", "rediscluster-sample",
				k.GroupVersion().WithResource(k.resource), test.subresource, test.operation, nil, false, nil)
			versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk,
				VersionedObject: admission.NewLazyObject(test.object), VersionedOldObject: admission.NewLazyObject(test.old)}
			asked := false
			for _, w := range slices.Concat(mutating, validating) {
				if !strings.HasSuffix(w.GetName(), k.Group) ||
					!slices.Contains(w.GetRules()[0].Operations, admissionregistrationv1.OperationType(test.operation)) {
					continue
				}
				asked = true
				result := w.GetCompiledMatcher(compiler).Match(t.Context(), versioned, nil, nil)
				if result.Error != nil || result.Matches != test.want {
					t.Errorf("%s: %t with error %v, want %t", w.GetName(), result.Matches, result.Error, test.want)
				}
			}
			if !asked {
				t.Error("no webhook has a rule for the request")
			}
		})
	}
}

// TestConditionsAcceptAnySpec: a condition must not fail for an object whose spec has another type. The schema rejects such an object.
func TestConditionsAcceptAnySpec(t *testing.T) {
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	mutating, _ := hooks(ByService(service))
	k := kindOf(t, "RedisCluster")
	for _, spec := range []any{nil, "text", int64(1), []any{}, map[string]any{"size": nil}} {
		t.Run(fmt.Sprint(spec), func(t *testing.T) {
			object := func(spec any) runtime.Object {
				return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": spec}}
			}
			for _, pair := range [][2]runtime.Object{
				{object(spec), nil}, {object(spec), object(map[string]any{})}, {object(map[string]any{}), object(spec)},
			} {
				operation := admission.Update
				if pair[1] == nil {
					operation = admission.Create
				}
				attributes := admission.NewAttributesRecord(pair[0], pair[1], k.GroupVersionKind, "default", "a",
					k.GroupVersion().WithResource(k.resource), "", operation, &metav1.UpdateOptions{}, false, nil)
				versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: k.GroupVersionKind,
					VersionedObject: admission.NewLazyObject(pair[0]), VersionedOldObject: admission.NewLazyObject(pair[1])}
				if result := mutating[0].GetCompiledMatcher(compiler).Match(t.Context(), versioned, nil, nil); result.Error != nil || !result.Matches {
					t.Errorf("%s: %t with error %v", operation, result.Matches, result.Error)
				}
			}
		})
	}
}
