// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	admissionwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/cel/environment"
	webhookvalidation "k8s.io/apiserver/pkg/util/webhook"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
)

func TestNameByURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://127.0.0.1:9443":              "glassback-127.0.0.1-9443",
		"https://[fe80::1%25eth0.1]:8443":     "glassback-fe80--1-eth0.1-8443",
		"https://Webhook.Example.COM:8443":    "glassback-webhook.example.com-8443",
		"https://a_._b.example.com:8443":      "glassback-a---b.example.com-8443",
		"https://webhook.example.com":         "glassback-webhook.example.com",
		"https://b%C3%BCcher.example.com:443": "glassback-b-cher.example.com-443",
	} {
		got := NameByURL(parseURL(t, url))
		if problems := utilvalidation.IsDNS1123Subdomain(got); got != want || len(problems) > 0 {
			t.Errorf("%s: got %s, want %s; as a name: %s", url, got, want, problems)
		}
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

// TestAnAPIServerAcceptsTheConfigurations checks the rules of pkg/apis/admissionregistration/validation in Kubernetes, as far as this is
// possible without that package.
func TestAnAPIServerAcceptsTheConfigurations(t *testing.T) {
	for name, endpoint := range map[string]Endpoint{
		"by the address of this machine": ByURL(parseURL(t, "https://127.0.0.1:9443"), nil, caPEM()),
		"by IPv6, for some namespaces":   ByURL(parseURL(t, "https://[::1]:8443"), []string{"a", "b"}, caPEM()),
		"by a Service":                   ByService(service),
	} {
		t.Run(name, func(t *testing.T) {
			mutating, validating := hooks(endpoint)
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
			}
		})
	}
}

func TestTheWebhooksAreForTheNamespacesOfTheOperator(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces, want []string
	}{
		"all":  {nil, []string{"a", "b", "c"}},
		"some": {[]string{"a", "b"}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			mutating, validating := hooks(ByURL(parseURL(t, "https://[::1]:8443"), test.namespaces, nil))
			for _, w := range slices.Concat(mutating, validating) {
				selector, err := w.GetParsedNamespaceSelector()
				must.Succeed(t, err)
				for _, namespace := range []string{"a", "b", "c"} {
					want := slices.Contains(test.want, namespace)
					if got := selector.Matches(labels.Set{corev1.LabelMetadataName: namespace}); got != want {
						t.Errorf("%s for namespace %s: %t, want %t", w.GetName(), namespace, got, want)
					}
				}
			}
		})
	}
}

// TestMatchConditions evaluates the match conditions as an API server does.
func TestMatchConditions(t *testing.T) {
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	mutating, validating := hooks(ByService(service))
	cluster := func(spec any, edits ...func(*unstructured.Unstructured)) runtime.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "rediscluster-sample"}, "spec": spec}}
		for _, edit := range edits {
			edit(u)
		}
		return u
	}
	six := map[string]any{"size": int64(6)}
	none := map[string]any{}
	bare := cluster(nil, func(u *unstructured.Unstructured) { delete(u.Object, "spec") })
	finalized := cluster(six, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"a"}) })
	annotated := func(key, value string) runtime.Object {
		return cluster(six, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{key: value}) })
	}
	const protection = "glassback.dev/deletion-protection"
	scale := func(replicas int32) runtime.Object {
		return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	}
	type row struct {
		operation   admission.Operation
		object, old runtime.Object
		subresource string
		want        bool
	}
	rows := map[string]row{
		"a create":                     {admission.Create, cluster(six), nil, "", true},
		"a create without a spec":      {admission.Create, bare, nil, "", true},
		"a change of the spec":         {admission.Update, cluster(map[string]any{"size": int64(7)}), cluster(six), "", true},
		"a new spec":                   {admission.Update, cluster(none), bare, "", true},
		"a removed spec":               {admission.Update, bare, cluster(none), "", true},
		"a removed finalizer":          {admission.Update, cluster(six), finalized, "", false},
		"an added protection":          {admission.Update, annotated(protection, "true"), cluster(six), "", false},
		"a change of scale to 0":       {admission.Update, scale(0), scale(6), "scale", true},
		"no change of scale":           {admission.Update, scale(6), scale(6), "scale", false},
		"a delete without annotations": {admission.Delete, nil, cluster(none), "", false},
		"a delete with other ones":     {admission.Delete, nil, annotated("a", "b"), "", false},
		"a delete of a protected one":  {admission.Delete, nil, annotated(protection, "true"), "", true},
		"a delete after protection":    {admission.Delete, nil, annotated(protection, "false"), "", false},
	}
	// A condition must not fail for an object whose spec has another type. The schema rejects such an object.
	for _, spec := range []any{nil, "text", int64(1), []any{}} {
		rows[fmt.Sprintf("a create with the spec %#v", spec)] = row{admission.Create, cluster(spec), nil, "", true}
		rows[fmt.Sprintf("an update to the spec %#v", spec)] = row{admission.Update, cluster(spec), cluster(none), "", true}
		rows[fmt.Sprintf("an update from the spec %#v", spec)] = row{admission.Update, cluster(none), cluster(spec), "", true}
	}
	for name, test := range rows {
		t.Run(name, func(t *testing.T) {
			k := kindOf(t, "RedisCluster")
			gvk := k.GroupVersionKind
			if test.subresource != "" {
				gvk = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
			}
			attributes := admission.NewAttributesRecord(test.object, test.old, gvk, "default", "rediscluster-sample",
				k.GroupVersion().WithResource(k.Custom.Plural), test.subresource, test.operation, nil, false, nil)
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

func manifest(t *testing.T, into any, path ...string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "artifacts"}, path...)...))
	must.Succeed(t, err)
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("parse %s: %v", filepath.Join(path...), err)
	}
}

// TestTheManifestsRegisterWhatTheOperatorWould: the configurations of artifacts/webhook are the same as those of an operator with a URL,
// except for the address.
func TestTheManifestsRegisterWhatTheOperatorWould(t *testing.T) {
	endpoint := ByService(types.NamespacedName{Namespace: "glassback-system", Name: "glassback-webhook"})
	meta := metav1.ObjectMeta{Name: ConfigurationName, Labels: map[string]string{"app.kubernetes.io/name": "glassback"}}

	mutating := endpoint.MutatingConfiguration(ConfigurationName)
	mutating.ObjectMeta = meta
	mutating.TypeMeta = metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"}
	gotMutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	manifest(t, gotMutating, "webhook", "mutating.yaml")
	if d := diff.Diff(gotMutating, mutating); d != "" {
		t.Errorf("mutating.yaml: %s", d)
	}

	validating := endpoint.ValidatingConfiguration(ConfigurationName)
	validating.ObjectMeta = meta
	validating.TypeMeta = metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"}
	gotValidating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	manifest(t, gotValidating, "webhook", "validating.yaml")
	if d := diff.Diff(gotValidating, validating); d != "" {
		t.Errorf("validating.yaml: %s", d)
	}
}

// TestTheManifestsAgreeOnTheService: the API server calls a name. The Service and the certificate of cert-manager have this name.
func TestTheManifestsAgreeOnTheService(t *testing.T) {
	service := &corev1.Service{}
	manifest(t, service, "webhook", "service.yaml")
	if service.Namespace != "glassback-system" || service.Name != "glassback-webhook" || service.Spec.Ports[0].Port != 443 ||
		service.Spec.Ports[0].TargetPort.IntValue() != 9443 {
		t.Errorf("the Service is %s/%s with the ports %v", service.Namespace, service.Name, service.Spec.Ports)
	}
	var certificate struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			DNSNames []string `json:"dnsNames"`
			Usages   []string `json:"usages"`
		} `json:"spec"`
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "certmanager", "certificate.yaml"))
	must.Succeed(t, err)
	must.Succeed(t, yaml.Unmarshal(data, &certificate))
	if want := service.Name + "." + service.Namespace + ".svc"; !slices.Equal(certificate.Spec.DNSNames, []string{want}) ||
		!slices.Contains(certificate.Spec.Usages, "server auth") {
		t.Errorf("the certificate has the names %q and the usages %q, want %q", certificate.Spec.DNSNames, certificate.Spec.Usages, want)
	}
	kustomization, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "certmanager", "kustomization.yaml"))
	must.Succeed(t, err)
	want := AnnotationCertManager + "ca-from: " + certificate.Namespace + "/" + certificate.Name + "\n"
	if !bytes.Contains(kustomization, []byte(want)) {
		t.Errorf("the kustomization lacks %q", want)
	}
}
