// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
)

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
