// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/url"
	"strings"
	"unicode"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/kinds"
)

// timeoutSeconds is how long the API server waits for an answer.
const timeoutSeconds = 5

// The conditions under which the API server calls a webhook. They leave out calls that cannot matter, so that no finalizer, label or
// deletion waits for an unavailable webhook.
var (
	specChanges = admissionregistrationv1.MatchCondition{
		Name: "spec-changes",
		Expression: "request.operation != 'UPDATE' || !has(object.spec) || !has(oldObject.spec) || " +
			"object.spec != oldObject.spec",
	}
	isProtected = admissionregistrationv1.MatchCondition{
		Name: "is-protected",
		Expression: "has(oldObject.metadata.annotations) && '" + glassback.AnnotationDeletionProtection +
			"' in oldObject.metadata.annotations && oldObject.metadata.annotations['" + glassback.AnnotationDeletionProtection + "'] == 'true'",
	}
)

// Endpoint is the address of the webhooks for API servers.
type Endpoint struct {
	// Client returns the client configuration of the webhook at a path.
	Client func(path string) admissionregistrationv1.WebhookClientConfig
	// Namespaces are the namespaces of the objects; none for all.
	Namespaces []string
}

// MutatingConfiguration returns the configuration of the webhooks that set defaults. It includes the API server's defaults, so that
// UpToDate can compare it with the stored configuration.
func (e Endpoint) MutatingConfiguration(name string) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: owned(name), Webhooks: e.mutating()}
}

// ValidatingConfiguration returns the configuration of the webhooks that validate, like MutatingConfiguration.
func (e Endpoint) ValidatingConfiguration(name string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: owned(name), Webhooks: e.validating()}
}

func owned(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": glassback.Name, LabelOwned: "true"}}
}

func (e Endpoint) mutating() []admissionregistrationv1.MutatingWebhook {
	var all []admissionregistrationv1.MutatingWebhook
	for d := range kinds.Custom() {
		asks := &d.Custom.Webhook
		if !asks.Defaults {
			continue
		}
		resources := []string{d.Custom.Plural}
		if asks.Replicas != nil {
			resources = append(resources, d.Custom.Plural+"/scale")
		}
		all = append(all, admissionregistrationv1.MutatingWebhook{
			Name:                    "default." + d.Custom.Plural + "." + d.Group,
			ClientConfig:            e.Client(Path("mutate", d.GroupVersionKind)),
			Rules:                   rules(d.GroupVersionKind, resources, admissionregistrationv1.Create, admissionregistrationv1.Update),
			FailurePolicy:           &asks.FailurePolicy,
			MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
			NamespaceSelector:       e.namespaces(),
			ObjectSelector:          &metav1.LabelSelector{},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
			AdmissionReviewVersions: []string{"v1"},
			ReinvocationPolicy:      ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
			MatchConditions:         []admissionregistrationv1.MatchCondition{specChanges},
		})
	}
	return all
}

func (e Endpoint) validating() []admissionregistrationv1.ValidatingWebhook {
	var all []admissionregistrationv1.ValidatingWebhook
	for d := range kinds.Custom() {
		if d.Custom.Webhook.Validates {
			all = append(all, e.validatingOne(d, "validate", d.Custom.Webhook.FailurePolicy, specChanges, admissionregistrationv1.Create,
				admissionregistrationv1.Update))
		}
		// Fail, so that the protection holds while the operator is down. No other deletion waits.
		all = append(all, e.validatingOne(d, "protect", admissionregistrationv1.Fail, isProtected, admissionregistrationv1.Delete))
	}
	return all
}

func (e Endpoint) validatingOne(
	d *descriptor.Descriptor, verb string, policy admissionregistrationv1.FailurePolicyType, when admissionregistrationv1.MatchCondition,
	operations ...admissionregistrationv1.OperationType,
) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    verb + "." + d.Custom.Plural + "." + d.Group,
		ClientConfig:            e.Client(Path("validate", d.GroupVersionKind)),
		Rules:                   rules(d.GroupVersionKind, []string{d.Custom.Plural}, operations...),
		FailurePolicy:           &policy,
		MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
		NamespaceSelector:       e.namespaces(),
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions:         []admissionregistrationv1.MatchCondition{when},
	}
}

func rules(
	gvk schema.GroupVersionKind, resources []string, operations ...admissionregistrationv1.OperationType,
) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{gvk.Group},
			APIVersions: []string{gvk.Version},
			Resources:   resources,
			Scope:       ptr.To(admissionregistrationv1.NamespacedScope),
		},
	}}
}

func (e Endpoint) namespaces() *metav1.LabelSelector {
	if len(e.Namespaces) == 0 {
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: e.Namespaces,
	}}}
}

// NameByURL returns the name of the webhook configurations of an operator at a URL. Two operators
// with different URLs do not share a configuration.
func NameByURL(u *url.URL) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return unicode.ToLower(r)
		default:
			return '-'
		}
	}, ConfigurationName+"-"+u.Hostname()+"-"+u.Port()), "-")
	// A label between dots neither begins nor ends with "-".
	return strings.NewReplacer("-.", "--", ".-", "--").Replace(name)
}

// ByURL returns the endpoint of an operator outside of a cluster, at a URL without a path.
func ByURL(u *url.URL, namespaces []string, caBundle []byte) Endpoint {
	return Endpoint{Namespaces: namespaces, Client: func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://" + u.Host + path), CABundle: caBundle}
	}}
}

// ByService returns the endpoint of artifacts/webhook: the port 443 of a Service. Injected writes the caBundle.
func ByService(service types.NamespacedName) Endpoint {
	return Endpoint{Client: func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: service.Namespace, Name: service.Name, Path: ptr.To(path), Port: ptr.To[int32](443),
		}}
	}}
}
