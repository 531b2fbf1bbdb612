/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// beyondControllers is what the app itself does, and no controller.
var beyondControllers = []permission{
	{group: "apiextensions.k8s.io", resource: "customresourcedefinitions", verbs: []string{"get"}}, // ensureCRDs
}

func TestTheRoleGrantsWhatIsNeededAndNothingElse(t *testing.T) {
	role := &rbacv1.ClusterRole{}
	readManifest(t, "role.yaml", role)
	granted := sets.New[string]()
	for _, rule := range role.Rules {
		if len(rule.ResourceNames) > 0 || len(rule.NonResourceURLs) > 0 {
			t.Errorf("rule %v: this test knows neither resourceNames nor nonResourceURLs", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				granted.Insert(grants(group, resource, rule.Verbs)...)
			}
		}
	}
	needed := sets.New[string]()
	for _, p := range append(needs(controllerNames()), beyondControllers...) {
		resource := p.resource
		if p.subresource != "" {
			resource += "/" + p.subresource
		}
		needed.Insert(grants(p.group, resource, p.verbs)...)
	}
	for _, missing := range sets.List(needed.Difference(granted)) {
		t.Errorf("artifacts/rbac/role.yaml does not grant %s", missing)
	}
	for _, unused := range sets.List(granted.Difference(needed)) {
		t.Errorf("artifacts/rbac/role.yaml grants %s, which nobody needs", unused)
	}
}

func grants(group, resource string, verbs []string) []string {
	var all []string
	for _, verb := range verbs {
		all = append(all, fmt.Sprintf("%s %s in group %q", verb, resource, group))
	}
	return all
}

func TestTheRoleIsBoundToTheServiceAccount(t *testing.T) {
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	readManifest(t, "role.yaml", role)
	readManifest(t, "role_binding.yaml", binding)
	want := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	if binding.RoleRef != want {
		t.Errorf("role_binding.yaml binds %v, want %v", binding.RoleRef, want)
	}
	if len(binding.Subjects) != 1 || binding.Subjects[0] != (rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Name: "glassback", Namespace: "glassback-system",
	}) {
		t.Errorf("role_binding.yaml is for %v", binding.Subjects)
	}
}

func readManifest(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "rbac", name))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("\n---")) {
		t.Fatalf("%s holds more than one object", name)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
}
