// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/permissions"
)

// TestAnInstallationOfCertManagerNeedsNoSecrets: cert-manager keeps them.
func TestAnInstallationOfCertManagerNeedsNoSecrets(t *testing.T) {
	d := managerOf(2, 2)
	d.Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs"}
	c := &checker{options: parseCheck(t), deployment: d}
	c.options.adoptFrom(d)
	for _, w := range c.operatorWants() {
		if w.Group == admissionregistrationv1.GroupName || (w.Resource == "secrets" && w.Namespace == "glassback-system") {
			t.Errorf("it wants %s %s", w.Verbs, w)
		}
	}
}

func TestPermissionsAreThoseOfWhoRunsTheOperator(t *testing.T) {
	const jobs = "permissions/*/jobs.batch"
	for name, test := range map[string]struct {
		args    []string
		denied  []string
		objects []runtime.Object
		user    string
		account string // what it says of whose they are
		id      string
		want    State
		reason  string
	}{
		"an operator that this account starts": {nil, nil, nil, "me", "those of me, as whom", jobs, OK, ""},
		"a verb that it may not": {nil, []string{"delete jobs", "watch jobs"}, nil, "me", "those of me", jobs, Failed,
			"not allowed to delete,watch; needed by mycronjob"},
		"what several controllers need is asked for once": {nil, []string{"delete services"}, nil, "me", "", "permissions/*/services", Failed,
			"not allowed to delete; needed by application, rediscluster"},
		"a namespace": {
			[]string{"-n", "a"}, []string{"list pods"}, nil, "me", "", "permissions/a/pods", Failed, "not allowed to list; needed by rediscluster",
		},
		"an operator in the cluster": {nil, []string{"create jobs"}, []runtime.Object{managerOf(2, 2)}, "me",
			"those of ServiceAccount glassback-system/glassback, as which", jobs, Failed, "not allowed to create; needed by mycronjob"},
		"and its own": {
			nil, nil, []runtime.Object{managerOf(2, 2)}, "me", "", "permissions/glassback-system/secrets:glassback-webhook-ca", OK, "",
		},
		"and by itself": {
			nil, []string{"create subjectaccessreviews"}, []runtime.Object{managerOf(2, 2)}, "system:serviceaccount:glassback-system:glassback",
			"those of this account", jobs, OK, "",
		},
		"an operator in the cluster, for a user who may not ask": {
			nil, []string{"create subjectaccessreviews"}, []runtime.Object{managerOf(2, 2)}, "me",
			"this account may not ask for them; it may: kubectl exec -n glassback-system deployment/glassback-manager -- /glassback check",
			jobs, Skipped, "",
		},
		"who installs": {[]string{"--pre"}, []string{"create clusterroles"}, nil, "me", "those of me, who installs",
			"permissions/*/clusterroles.rbac.authorization.k8s.io", Failed, "not allowed to create; needed by kubectl apply"},
		"who installs may grant what he has": {[]string{"--pre"}, []string{"escalate clusterroles"}, nil, "me", "", "permissions/grant", OK, ""},
		"who installs may grant what he has not got, if he may escalate": {
			[]string{"--pre"}, []string{"list secrets"}, nil, "me", "", "permissions/grant", OK, "",
		},
		"who installs may not grant what he has not got": {
			[]string{"--pre"}, []string{"escalate clusterroles", "list secrets"}, nil, "me", "", "permissions/grant", Failed,
			"it may not itself, and so cannot grant: list secrets; list secrets glassback-webhook-ca",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checkOf(t, test.args, test.denied, test.objects...)
			c.user = test.user
			report := without(t, c)
			if got := outcome(t, report, "permissions/account"); !strings.Contains(got.Reason, test.account) {
				t.Errorf("they are %q, want %q", got.Reason, test.account)
			}
			got := outcome(t, report, test.id)
			if got.State != test.want || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}

// TestWhoInstallsNeedsWhatArtifactsHold compares with the manifests.
func TestWhoInstallsNeedsWhatArtifactsHold(t *testing.T) {
	known := map[string]bool{}
	for _, p := range slices.Concat(installedInCluster, installedInNamespace) {
		known[p.String()] = true
	}
	for _, dir := range []string{"crd", "rbac", "webhook", "manager"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "artifacts", dir, "*.yaml"))
		must.Succeed(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			must.Succeed(t, err)
			for document := range strings.SplitSeq(string(data), "\n---") {
				var object metav1.TypeMeta
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				gvk := object.GroupVersionKind()
				if gvk.Kind == "" || strings.HasSuffix(gvk.Group, "kustomize.config.k8s.io") {
					continue
				}
				plural, _ := meta.UnsafeGuessKindToResource(gvk)
				if p := (permissions.Permission{Group: plural.Group, Resource: plural.Resource}); !known[p.String()] {
					t.Errorf("%s has a %s: who installs needs %s", file, gvk.Kind, p)
				}
			}
		}
	}
}

// TestWhoInstallsCanGrantWhatArtifactsGrant compares with the roles.
func TestWhoInstallsCanGrantWhatArtifactsGrant(t *testing.T) {
	c := checkOf(t, nil, nil)
	known := map[string]bool{}
	for _, p := range c.granted() {
		for _, verb := range p.Verbs {
			known[verb+" "+p.String()] = true
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "artifacts", "rbac", "*.yaml"))
	must.Succeed(t, err)
	for _, file := range files {
		if strings.Contains(file, "webhook_url_") {
			continue // It is not for an operator in the cluster.
		}
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		for document := range strings.SplitSeq(string(data), "\n---") {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, rule := range role.Rules {
				for _, what := range rulePermissions(rule) {
					for _, verb := range what.Verbs {
						if !known[verb+" "+what.String()] && !known["* "+what.String()] {
							t.Errorf("%s: %s grants %s %s", file, role.Name, verb, what)
						}
					}
				}
			}
		}
	}
}

// rulePermissions are the permissions on resources that a rule grants.
func rulePermissions(rule rbacv1.PolicyRule) []permissions.Permission {
	var all []permissions.Permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			resource, subresource, _ := strings.Cut(resource, "/")
			if len(rule.ResourceNames) == 0 {
				all = append(all, permissions.Permission{Group: group, Resource: resource, Subresource: subresource, Verbs: rule.Verbs})
			}
			for _, name := range rule.ResourceNames {
				all = append(all, permissions.Permission{Group: group, Resource: resource, Subresource: subresource, Name: name, Verbs: rule.Verbs})
			}
		}
	}
	return all
}
