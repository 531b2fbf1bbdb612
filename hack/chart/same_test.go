// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize returns the output of "kustomize build" for a directory below artifacts.
func kustomize(t *testing.T, dir string) objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(artifacts, dir))
	succeed(t, err)
	text, err := built.AsYaml()
	succeed(t, err)
	return parse(t, string(text))
}

// withoutHelm removes the fields that only the chart adds to objects, and checks that they exist.
func withoutHelm(t *testing.T, all objects) {
	t.Helper()
	for name, o := range all {
		labels, _ := o.field("metadata", "labels").(map[string]any)
		for label, want := range map[string]string{
			"helm.sh/chart": "glassback-", "app.kubernetes.io/instance": "glassback",
			"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": "",
		} {
			if value, _ := labels[label].(string); !strings.HasPrefix(value, want) || value == "" {
				t.Errorf("%s has the label %s=%q", name, label, value)
			}
			delete(labels, label)
		}
		if o.text("kind") != "CustomResourceDefinition" {
			continue
		}
		annotations, _ := o.field("metadata", "annotations").(map[string]any)
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s is deleted with the release", name)
		}
		delete(annotations, "helm.sh/resource-policy")
		if len(labels) == 1 { // controller-gen gives none, and one finds them by it
			delete(o["metadata"].(map[string]any), "labels")
		}
	}
}

// What the operator would make itself the chart has, so that no uninstall leaves it behind;
// kubectl deletes it with the namespace, which is Helm's own matter.
func TestTheChartInstallsWhatKustomizeDoes(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		dirs   []string
		own    []string // objects that the chart alone has
	}{
		"as they are": {
			"", []string{"default"}, []string{"Lease/glassback", "Secret/glassback-webhook-ca"},
		},
		"with certificates from cert-manager": {
			"webhooks: {certManager: {enabled: true}}", []string{"default-certmanager"}, []string{"Lease/glassback"},
		},
		"in one namespace": {
			"watchNamespaces: [default]", []string{"namespaced"}, []string{"Lease/glassback", "Secret/glassback-webhook-ca"},
		},
		"with the page": {
			"inspect: {enabled: true}", []string{"default-inspect"}, []string{"Lease/glassback", "Secret/glassback-webhook-ca"},
		},
		"with what the Prometheus operator needs": {
			"metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
			[]string{"default", "prometheus"}, []string{"Lease/glassback", "Secret/glassback-webhook-ca"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := objects{}
			for _, dir := range test.dirs {
				maps.Copy(want, kustomize(t, dir))
			}
			delete(want, "Namespace/"+namespace)
			delete(want, "ConfigMap/glassback-dashboard") // docs/metrics.md says how to import it
			got := render(t, test.values)
			for _, own := range test.own {
				if got[own] == nil {
					t.Errorf("there is no %s", own)
				}
				delete(got, own)
			}
			withoutHelm(t, got)
			for _, all := range []objects{got, want} {
				image := container(all, "Deployment/glassback-manager")
				image["image"], _, _ = strings.Cut(fmt.Sprint(image["image"]), ":")
				args := image["args"].([]any)
				args[0], _, _ = strings.Cut(fmt.Sprint(args[0]), ":") // --backup-image
			}
			for _, change := range changes(want, got) {
				t.Errorf("kustomize → Helm: %s", change)
			}
		})
	}
}

// container returns the only container of a Deployment.
func container(all objects, deployment string) map[string]any {
	list, _ := all[deployment].field("spec", "template", "spec", "containers").([]any)
	only, _ := list[0].(map[string]any)
	return only
}

// changes tells how one set of objects differs from another, a line for each field, sorted.
func changes(from, to objects) []string {
	var all []string
	for name, o := range from {
		if to[name] == nil {
			all = append(all, "- "+name)
			continue
		}
		before, after := map[string]string{}, map[string]string{}
		flatten(before, "", map[string]any(o))
		flatten(after, "", map[string]any(to[name]))
		for path, value := range before {
			switch now, still := after[path]; {
			case !still:
				all = append(all, fmt.Sprintf("~ %s %s: %s → none", name, path, value))
			case now != value:
				all = append(all, fmt.Sprintf("~ %s %s: %s → %s", name, path, value, now))
			}
		}
		for path, value := range after {
			if _, before := before[path]; !before {
				all = append(all, fmt.Sprintf("~ %s %s: none → %s", name, path, value))
			}
		}
	}
	for name := range to {
		if from[name] == nil {
			all = append(all, "+ "+name)
		}
	}
	slices.Sort(all)
	return all
}

// entry returns the identity of a list's entry: its name or port, if it has one. The identity of a rule is its resources.
func entry(i int, m map[string]any) any {
	if m["resources"] != nil && m["verbs"] != nil {
		return fmt.Sprint(m["apiGroups"], m["resources"], m["resourceNames"], m["verbs"])
	}
	if ports, ok := m["ports"].([]any); ok && m["name"] == nil {
		m, _ = ports[0].(map[string]any)
	}
	for _, by := range []string{"name", "port"} {
		if value, has := m[by]; has {
			return value
		}
	}
	return i
}

// flatten writes the fields of an object, by their paths.
func flatten(into map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			flatten(into, strings.TrimPrefix(path+"."+key, "."), v)
		}
		if len(value) == 0 {
			into[path] = "{}"
		}
	case []any:
		var plain []string
		for i, v := range value {
			m, isMap := v.(map[string]any)
			if !isMap {
				plain = append(plain, fmt.Sprint(v))
				continue
			}
			flatten(into, fmt.Sprintf("%s[%v]", path, entry(i, m)), m)
		}
		if plain != nil || len(value) == 0 {
			into[path] = "[" + strings.Join(plain, " ") + "]"
		}
	default:
		into[path] = fmt.Sprint(value)
	}
}
