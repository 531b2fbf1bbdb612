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
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// beyondControllers is what the app itself does in all namespaces, and no controller.
var beyondControllers = slices.Concat(handlerNeeds, injectionNeeds, []permission{
	{group: "apiextensions.k8s.io", resource: "customresourcedefinitions", verbs: []string{"get"}}, // ensureCRDs
})

func TestTheRolesGrantWhatIsNeededAndNothingElse(t *testing.T) {
	role, urlRole, webhookRole := &rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}, &rbacv1.Role{}
	readManifest(t, "role.yaml", role)
	readManifest(t, "webhook_url_role.yaml", urlRole)
	readManifest(t, "webhook_role.yaml", webhookRole)
	for name, test := range map[string]struct {
		rules  []rbacv1.PolicyRule
		needed []permission
	}{
		"role.yaml":             {role.Rules, append(needs(controllerNames()), beyondControllers...)},
		"webhook_role.yaml":     {webhookRole.Rules, secretNeeds},
		"webhook_url_role.yaml": {urlRole.Rules, registrationNeeds},
	} {
		t.Run(name, func(t *testing.T) {
			granted, needed := sets.New[string](), sets.New[string]()
			for _, rule := range test.rules {
				if len(rule.NonResourceURLs) > 0 {
					t.Errorf("rule %v: this test does not know nonResourceURLs", rule)
				}
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						granted.Insert(grants(group, resource, rule.ResourceNames, rule.Verbs)...)
					}
				}
			}
			for _, p := range test.needed {
				resource := p.resource
				if p.subresource != "" {
					resource += "/" + p.subresource
				}
				var names []string
				if p.name != "" {
					names = []string{p.name}
				}
				needed.Insert(grants(p.group, resource, names, p.verbs)...)
			}
			for _, missing := range sets.List(needed.Difference(granted)) {
				t.Errorf("it does not grant %s", missing)
			}
			for _, unused := range sets.List(granted.Difference(needed)) {
				t.Errorf("it grants %s, which nobody needs", unused)
			}
		})
	}
}

func grants(group, resource string, names, verbs []string) []string {
	if len(names) == 0 {
		names = []string{"*"}
	}
	var all []string
	for _, verb := range verbs {
		for _, name := range names {
			all = append(all, fmt.Sprintf("%s %s %s in group %q", verb, resource, name, group))
		}
	}
	return all
}

func TestTheRolesAreBoundToTheServiceAccount(t *testing.T) {
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	readManifest(t, "role.yaml", role)
	readManifest(t, "role_binding.yaml", binding)
	urlRole, urlBinding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	readManifest(t, "webhook_url_role.yaml", urlRole)
	readManifest(t, "webhook_url_role_binding.yaml", urlBinding)
	webhookRole, webhookBinding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	readManifest(t, "webhook_role.yaml", webhookRole)
	readManifest(t, "webhook_role_binding.yaml", webhookBinding)
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "glassback", Namespace: "glassback-system"}
	for name, test := range map[string]struct {
		got, want rbacv1.RoleRef
		subjects  []rbacv1.Subject
	}{
		"role_binding.yaml": {binding.RoleRef, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, binding.Subjects},
		"webhook_url_role_binding.yaml": {urlBinding.RoleRef,
			rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: urlRole.Name}, urlBinding.Subjects},
		"webhook_role_binding.yaml": {webhookBinding.RoleRef,
			rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: webhookRole.Name}, webhookBinding.Subjects},
	} {
		if test.got != test.want {
			t.Errorf("%s binds %v, want %v", name, test.got, test.want)
		}
		if len(test.subjects) != 1 || test.subjects[0] != account {
			t.Errorf("%s is for %v", name, test.subjects)
		}
	}
	if webhookRole.Namespace != account.Namespace || webhookBinding.Namespace != account.Namespace {
		t.Error("the Secret of the CA is in the namespace of the operator")
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
