// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/webhook"
)

func TestWebhooksThatAreRegistered(t *testing.T) {
	service := types.NamespacedName{Namespace: "glassback-system", Name: webhook.ServiceName}
	type (
		mutating   = admissionregistrationv1.MutatingWebhookConfiguration
		validating = admissionregistrationv1.ValidatingWebhookConfiguration
	)
	register := func(change func(*mutating, *validating)) []runtime.Object {
		endpoint := webhook.ByService(service)
		m, v := endpoint.MutatingConfiguration(webhook.ConfigurationName), endpoint.ValidatingConfiguration(webhook.ConfigurationName)
		m.Labels, v.Labels = nil, nil
		change(m, v)
		return []runtime.Object{m, v}
	}
	for name, test := range map[string]struct {
		objects []runtime.Object
		id      string
		want    State
		reason  string
	}{
		"none, and no operator either":      {nil, "webhooks/registered", Skipped, "it knows of none"},
		"none, though there is an operator": {[]runtime.Object{managerOf(2, 2)}, "webhooks/registered", Warning, "there is no configuration"},
		"as they should be":                 {register(func(*mutating, *validating) {}), "webhooks/glassback/complete", OK, "10 webhooks"},
		"one is missing": {register(func(_ *mutating, v *validating) {
			v.Webhooks = v.Webhooks[1:]
		}), "webhooks/glassback/complete", Warning, "it has not got protect.apiexampleas"},
		"one calls another service": {register(func(m *mutating, _ *validating) {
			m.Webhooks[0].ClientConfig.Service.Namespace = "other"
		}), "webhooks/glassback/complete", Failed, "calls other/glassback-webhook, and not the Service glassback-system/glassback-webhook"},
		"the caBundle is empty": {register(func(*mutating, *validating) {}), "webhooks/glassback/trust", Failed, "has no caBundle"},
		"there is no Service":   {register(func(*mutating, *validating) {}), "webhooks/glassback/endpoints", Failed, "there is no Service"},
	} {
		t.Run(name, func(t *testing.T) {
			got := outcome(t, without(t, checkOf(t, nil, nil, test.objects...)), test.id)
			if got.State != test.want || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}

func TestWhatADryRunShows(t *testing.T) {
	const mine = `"validate.redisclusters.bytewang123-redis.wzj.kubebuilder.io"`
	calling := `Internal error occurred: failed calling webhook "default.x": failed to call webhook: ` +
		`Post "https://127.0.0.1:9443/mutate?timeout=5s": `
	resource := schema.GroupResource{Group: "bytewang123-redis.wzj.kubebuilder.io", Resource: "redisclusters"}
	for name, test := range map[string]struct {
		err    error
		want   State
		remedy string
	}{
		"they refuse": {
			errors.New(`admission webhook ` + mine + ` denied the request: RedisCluster "x" is invalid: spec.addr`), OK, "",
		},
		"no webhook was called":   {nil, Failed, "apply artifacts/webhook; see that it is for the namespace default"},
		"they are not trusted":    {errors.New(calling + "tls: failed to verify certificate: x509: unknown authority"), Failed, "caBundle"},
		"they do not answer":      {errors.New(calling + "context deadline exceeded"), Failed, "NetworkPolicies"},
		"connection refused":      {errors.New(calling + "dial tcp 127.0.0.1:9443: connect: connection refused"), Failed, "a replica is ready"},
		"another webhook refuses": {errors.New(`admission webhook "kyverno" denied the request: no`), Warning, "see what"},
		"this account may not try": {
			apierrors.NewForbidden(resource, "", errors.New(`User "me" cannot create resource "redisclusters"`)), Skipped, "",
		},
		"no such namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), Skipped, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(test.err, "default"); got.State != test.want || !strings.Contains(got.Remedy, test.remedy) {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.remedy)
			}
		})
	}
}

func TestTheValidityOfACertificate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		before, after time.Duration
		want          State
		reason        string
	}{
		"young":                {-24 * time.Hour, 364 * 24 * time.Hour, OK, "until 2026-12-31, for 364 days"},
		"old, and not renewed": {-300 * 24 * time.Hour, 60 * 24 * time.Hour, Warning, "it expires on 2026-03-02, in 60 days"},
		"old, for hours":       {-100 * time.Hour, 5 * time.Hour, Warning, "it expires on 2026-01-01, in 5 hours"},
		"expired":              {-100 * time.Hour, -24 * time.Hour, Failed, "it has expired on 2025-12-31"},
		"not valid yet":        {time.Hour, 100 * time.Hour, Failed, "it is not valid before 2026-01-01T01:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			got := validity(&x509.Certificate{NotBefore: now.Add(test.before), NotAfter: now.Add(test.after)}, now)
			if got.State != test.want || got.Reason != test.reason {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}
