// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/permissions"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// beyondControllers is what the app itself does in all namespaces, and no controller; atStartNeeds is what it does there at the start.
var (
	beyondControllers = slices.Concat(webhook.NeedsHandler, webhook.NeedsInjection, atStartNeeds)
	atStartNeeds      = []permissions.Permission{permissions.Definitions} // crds.Ensure
)

func TestTheRolesGrantWhatIsNeededAndNothingElse(t *testing.T) {
	for name, needed := range map[string][]permissions.Permission{
		"rbac/role.yaml":                 append(kinds.Needs(kinds.Names()), beyondControllers...),
		"rbac/webhook_role.yaml":         slices.Concat(certificate.NeedsSecret, certificate.NeedsConfigMap),
		"rbac/webhook_url_role.yaml":     webhook.NeedsRegistration,
		"rbac/leader_election_role.yaml": permissions.Lease("glassback"),
		"rbac/metrics_auth_role.yaml":    permissions.Metrics,
		// Together they are role.yaml, less the right to get CRDs, which is not needed.
		"namespaced/watched/role.yaml": append(kinds.Needs(kinds.Names()), webhook.NeedsHandler...),
		"namespaced/cluster_role.yaml": webhook.NeedsInjection,
	} {
		t.Run(name, func(t *testing.T) {
			role := &rbacv1.ClusterRole{} // A Role has nothing that this has not.
			readManifest(t, name, role)
			compareGrants(t, role.Rules, needed)
		})
	}
}

// compareGrants fails the test unless rules grant what is needed, and nothing else.
func compareGrants(t *testing.T, rules []rbacv1.PolicyRule, needed []permissions.Permission) {
	t.Helper()
	granted, wanted := sets.New[string](), sets.New[string]()
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 {
			t.Errorf("rule %v: this test does not know nonResourceURLs", rule)
		}
		if !slices.IsSorted(rule.Verbs) {
			t.Errorf("rule %v: the verbs are not in the order of the alphabet", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				granted.Insert(grants(group, resource, rule.ResourceNames, rule.Verbs)...)
			}
		}
	}
	for _, p := range needed {
		resource := p.Resource
		if p.Subresource != "" {
			resource += "/" + p.Subresource
		}
		var names []string
		if p.Name != "" {
			names = []string{p.Name}
		}
		wanted.Insert(grants(p.Group, resource, names, p.Verbs)...)
	}
	for _, missing := range sets.List(wanted.Difference(granted)) {
		t.Errorf("it does not grant %s", missing)
	}
	for _, unused := range sets.List(granted.Difference(wanted)) {
		t.Errorf("it grants %s, which no part of the operator needs", unused)
	}
}

// TestTheChartGrantsWhatTheControllersThatRunNeed renders the rules of the chart, whose conditions are Go's own
// templates, for every set of controllers. hack/chart tests which values of the chart run which controllers.
func TestTheChartGrantsWhatTheControllersThatRunNeed(t *testing.T) {
	for _, controllers := range controllerFlags() {
		for mode, webhooks := range map[options.WebhookMode]map[string]any{
			options.WebhooksOff:         {"webhooks": false},
			options.WebhooksFromFiles:   {"webhooks": true},
			options.WebhooksFromService: {"webhooks": true, "injection": true},
		} {
			t.Run(fmt.Sprintf("%s, webhooks %s", controllers, mode), func(t *testing.T) {
				for _, namespace := range []string{"", "watched"} {
					args := []string{"--controllers=" + controllers}
					if namespace != "" {
						args = append(args, "--namespace="+namespace)
					}
					o, err := options.Parse(args)
					must.Succeed(t, err)
					needed := map[string][]permissions.Permission{}
					for _, w := range o.Wants(mode, "glassback-system", types.NamespacedName{}) {
						needed[w.Namespace] = append(needed[w.Namespace], w.Permission)
					}
					if namespace != "" {
						values := map[string]any{"controllers": o.Controllers, "namespaced": true, "webhooks": webhooks["webhooks"]}
						compareGrants(t, chartRules(t, values), needed[namespace])
						compareGrants(t, chartRules(t, map[string]any{"injection": webhooks["injection"]}), needed[metav1.NamespaceAll])
						continue
					}
					values := map[string]any{"controllers": o.Controllers, "namespaced": true, "cluster": true}
					maps.Copy(values, webhooks)
					compareGrants(t, chartRules(t, values), append(needed[metav1.NamespaceAll], atStartNeeds...))
				}
			})
		}
	}
}

// controllerFlags returns a value of --controllers for each set of controllers, and more for all but one.
func controllerFlags() []string {
	names := kinds.Names()
	all := []string{"*"}
	for set := 1; set < 1<<len(names); set++ {
		var some []string
		for i, name := range names {
			if set&(1<<i) != 0 {
				some = append(some, name)
			}
		}
		all = append(all, strings.Join(some, ","))
	}
	for _, name := range names {
		all = append(all, "*,-"+name)
	}
	return all
}

// chartRules returns the rules that the chart grants in one role.
func chartRules(t *testing.T, values map[string]any) []rbacv1.PolicyRule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "chart", "templates", "rbac", "_rules.tpl"))
	must.Succeed(t, err)
	rendered := &bytes.Buffer{}
	parsed, err := template.New("").Funcs(template.FuncMap{"has": func(name string, names []string) bool {
		return slices.Contains(names, name)
	}}).Parse(string(text))
	if err == nil {
		err = parsed.ExecuteTemplate(rendered, "glassback.rules", values)
	}
	must.Succeed(t, err)
	var rules []rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict(rendered.Bytes(), &rules); err != nil {
		t.Fatalf("%v in\n%s", err, rendered)
	}
	return rules
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

// TestAStartNamesTheRightThatTheRoleLacks has an image be newer than its role: it may delete Pods, and may not evict them.
func TestAStartNamesTheRightThatTheRoleLacks(t *testing.T) {
	kube := kubefake.NewClientset()
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.ResourceAttributes.Subresource != "eviction"
		return true, review, nil
	})
	err := permissions.Require(t.Context(), kube, []string{"shop"}, kinds.Needs([]string{rediscluster.Name}))
	const want = "this account is not allowed to create pods/eviction in namespace shop: apply artifacts/rbac, or use an account that may"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestTheRolesAreBoundToTheServiceAccount(t *testing.T) {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "glassback", Namespace: "glassback-system"}
	for roleFile, namespace := range map[string]string{
		"rbac/role.yaml":                 "",
		"rbac/webhook_url_role.yaml":     "",
		"rbac/metrics_auth_role.yaml":    "",
		"rbac/webhook_role.yaml":         account.Namespace, // where the Secret of the CA is
		"rbac/leader_election_role.yaml": account.Namespace, // where the Lease is
		"namespaced/watched/role.yaml":   "default",
	} {
		t.Run(roleFile, func(t *testing.T) {
			role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
			readManifest(t, roleFile, role)
			readManifest(t, strings.TrimSuffix(roleFile, ".yaml")+"_binding.yaml", binding)
			if want := (rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.Kind, Name: role.Name}); binding.RoleRef != want {
				t.Errorf("it binds %v, want %v", binding.RoleRef, want)
			}
			if want := role.Kind + "Binding"; binding.Kind != want {
				t.Errorf("it is bound by a %s, want a %s", binding.Kind, want)
			}
			if len(binding.Subjects) != 1 || binding.Subjects[0] != account {
				t.Errorf("it is for %v", binding.Subjects)
			}
			if role.Namespace != namespace || binding.Namespace != namespace {
				t.Errorf("it is in namespace %q, and its binding in %q, want %q", role.Namespace, binding.Namespace, namespace)
			}
		})
	}
}

func readManifest(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "artifacts", name))
	must.Succeed(t, err)
	if bytes.Contains(data, []byte("\n---")) {
		t.Fatalf("%s holds more than one object", name)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
}
