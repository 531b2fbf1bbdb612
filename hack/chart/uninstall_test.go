// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// uninstalled returns the names of the objects that an uninstall deletes, in the order of their deletion.
func uninstalled(t *testing.T, values string) []string {
	t.Helper()
	r, err := install(t, values)
	succeed(t, err)
	_, manifests, err := releaseutil.SortManifests(releaseutil.SplitManifests(r.Manifest), nil, releaseutil.UninstallOrder)
	succeed(t, err)
	var names []string
	for _, m := range manifests {
		if m.Head.Metadata.Annotations["helm.sh/resource-policy"] != "keep" {
			names = append(names, decode(t, m.Content).name())
		}
	}
	return names
}

func TestAnUninstallKeepsOnlyTheDefinitions(t *testing.T) {
	deleted := uninstalled(t, "")
	for name := range render(t, "") {
		if kept := !slices.Contains(deleted, name); kept != strings.HasPrefix(name, "CustomResourceDefinition/") {
			t.Errorf("%s is kept: %t", name, kept)
		}
	}
	if len(uninstalled(t, "crds: {keep: false}")) != len(render(t, "")) {
		t.Error("with crds.keep=false, an uninstall keeps objects")
	}
}

// An uninstall deletes the webhook configurations before the operator, so that the API server calls no webhook that does not answer. It
// deletes the RoleBindings before the Secret and the Lease. Otherwise the operator, which still runs, could create these objects again.
func TestTheOrderOfAnUninstall(t *testing.T) {
	order := uninstalled(t, "")
	for _, pair := range [][2]string{
		{"ValidatingWebhookConfiguration/glassback", "Deployment/glassback-manager"},
		{"MutatingWebhookConfiguration/glassback", "Deployment/glassback-manager"},
		{"Deployment/glassback-manager", "RoleBinding/glassback-webhook"},
		{"RoleBinding/glassback-webhook", "Secret/glassback-webhook-ca"},
		{"RoleBinding/glassback-leader-election", "Lease/glassback"},
	} {
		first, second := slices.Index(order, pair[0]), slices.Index(order, pair[1])
		if first < 0 || second < 0 || first > second {
			t.Errorf("%s is deleted at position %d, %s at %d; want the first one before the second one", pair[0], first, pair[1], second)
		}
	}
}

// No version of the chart contains the fields that the operator writes, so no upgrade removes them.
func TestTheChartLeavesOutTheFieldsOfTheOperator(t *testing.T) {
	all := render(t, "")
	for _, kind := range []string{"Mutating", "Validating"} {
		webhooks, _ := all[kind+"WebhookConfiguration/glassback"].field("webhooks").([]any)
		if len(webhooks) == 0 {
			t.Errorf("the chart has no %sWebhookConfiguration with webhooks", kind)
		}
		for _, w := range webhooks {
			if bundle, exists := object(w.(map[string]any)).field("clientConfig").(map[string]any)["caBundle"]; exists {
				t.Errorf("a %s webhook has the caBundle %v", kind, bundle)
			}
		}
	}
	if data := all["Secret/glassback-webhook-ca"].field("data"); data != nil {
		t.Errorf("the Secret has the data %v", data)
	}
	if spec, _ := all["Lease/glassback"].field("spec").(map[string]any); len(spec) > 0 {
		t.Errorf("the Lease has the spec %v", spec)
	}
}

// Helm stores each release in a Secret. A Secret can have 1 MiB.
func TestTheReleaseFitsIntoASecret(t *testing.T) {
	r, err := install(t, everything)
	succeed(t, err)
	data, err := json.Marshal(r)
	succeed(t, err)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	succeed(t, w.Close())
	if size := base64.StdEncoding.EncodedLen(zipped.Len()); size > 512<<10 {
		t.Errorf("a release has %d bytes, want %d at most", size, 512<<10)
	}
}

func TestTheNotesWarnOfDisabledParts(t *testing.T) {
	for values, want := range map[string][]string{
		"": nil,
		"{crds: {keep: false}, metrics: {secure: false}, replicas: 0}": {"crds.keep is false", "metrics.secure is false", "replicas is 0"},
		minimalValues: {"crds.install is false", "webhooks.enabled is false"},
	} {
		r, err := install(t, values)
		succeed(t, err)
		notes := r.Info.Notes
		if got := strings.Count(notes, "WARNING: "); got != len(want) {
			t.Errorf("with %q there are %d warnings:\n%s", values, got, notes)
		}
		for _, warning := range want {
			if !strings.Contains(notes, "WARNING: "+warning) {
				t.Errorf("with %q, no warning says that %s:\n%s", values, warning, notes)
			}
		}
		if !strings.Contains(notes, "/glassback check") || strings.Contains(notes, "<no value>") {
			t.Errorf("with %q the notes are\n%s", values, notes)
		}
	}
}
