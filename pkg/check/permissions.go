// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/crds"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/permissions"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// where returns the scope in which a permission is needed, as text.
func where(w permissions.Wanted) string {
	switch {
	case w.Namespace != metav1.NamespaceAll:
		return "in namespace " + w.Namespace
	case slices.ContainsFunc(slices.Concat(installedInCluster, permissions.Metrics), func(p permissions.Permission) bool {
		return p.Group == w.Group && p.Resource == w.Resource
	}):
		return "in the cluster"
	}
	return "in all namespaces"
}

// operatorWants returns the permissions that the operator needs: the installed operator, or otherwise an operator that this account starts.
func (c *checker) operatorWants() []permissions.Wanted {
	o := c.options
	mode, lease := options.WebhooksOff, types.NamespacedName{}
	switch {
	case !o.Webhooks && (c.inside || c.deployment != nil) && len(o.MetricsWants()) > 0:
		mode = options.WebhooksOnlyCertificate
	case !o.Webhooks:
	case o.WebhookURL != "":
		mode = options.WebhooksFromURL
	case o.WebhookCertPath != "":
		mode = options.WebhooksFromFiles
	case c.inside || c.deployment != nil:
		mode = options.WebhooksFromService
	}
	if o.Lease.Elect {
		lease = types.NamespacedName{Namespace: o.leaseNamespace, Name: o.leaseName}
	}
	return o.Wants(mode, o.operatorNamespace, lease)
}

// These are the resources in artifacts: cluster-scoped ones, and those in the operator's namespace. A test compares them with artifacts.
var (
	installedInCluster = []permissions.Permission{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Resource: "namespaces"},
		{Group: rbacv1.GroupName, Resource: "clusterroles"},
		{Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
		{Group: admissionregistrationv1.GroupName, Resource: "mutatingwebhookconfigurations"},
		{Group: admissionregistrationv1.GroupName, Resource: "validatingwebhookconfigurations"},
	}
	installedInNamespace = []permissions.Permission{
		{Resource: "serviceaccounts"},
		{Resource: "services"},
		{Group: appsv1.GroupName, Resource: "deployments"},
		{Group: rbacv1.GroupName, Resource: "roles"},
		{Group: rbacv1.GroupName, Resource: "rolebindings"},
		{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"},
		{Group: networkingv1.GroupName, Resource: "networkpolicies"},
	}
)

// installerWants returns the permissions that kubectl apply needs to install the operator.
func (c *checker) installerWants() []permissions.Wanted {
	all := slices.Concat(
		permissions.WantedBy("kubectl apply", metav1.NamespaceAll, installedInCluster),
		permissions.WantedBy("kubectl apply", c.options.operatorNamespace, installedInNamespace))
	for i := range all {
		all[i].Verbs = []string{"create", "get", "patch"}
	}
	return all
}

// checkAccount selects the account whose permissions are checked: the account that the operator runs as, or that installs it.
func (c *checker) checkAccount(ctx context.Context) Result {
	c.account = permissions.Own(c.clients.Kube)
	if c.options.pre {
		return pass("those of " + c.name() + ", who installs")
	}
	if c.deployment == nil || c.inside {
		return pass("those of " + c.name() + ", as whom an operator that is started here runs")
	}
	account := types.NamespacedName{
		Namespace: c.deployment.Namespace, Name: cmp.Or(c.deployment.Spec.Template.Spec.ServiceAccountName, "default"),
	}
	if c.user == permissions.ServiceAccountUser(account) {
		return pass(fmt.Sprintf("those of this account, ServiceAccount %s, as which the operator runs", account))
	}
	c.account = permissions.OfServiceAccount(c.clients.Kube, account)
	_, err := c.account(ctx, &authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets"})
	if apierrors.IsForbidden(err) {
		return skip(fmt.Sprintf("they are those of ServiceAccount %s, and this account may not ask for them; it may: %s", account, c.inPod()))
	}
	if err != nil {
		return unanswered(err)
	}
	return pass(fmt.Sprintf("those of ServiceAccount %s, as which the operator runs", account))
}

func (c *checker) name() string { return cmp.Or(c.user, "this account") }

// wantedChecks returns one check for each resource and, before an installation, checkGrant.
func (c *checker) wantedChecks() []Check {
	var checks []Check
	if c.options.pre {
		checks = append(c.accessChecks(c.installerWants()),
			Check{ID: "permissions/grant", Title: "grant the operator what it needs", Run: c.checkGrant})
	} else {
		checks = c.accessChecks(c.operatorWants())
	}
	for i := range checks {
		checks[i].Needs = []string{"permissions/account"}
	}
	return checks
}

// accessChecks returns a check for each permission.
func (c *checker) accessChecks(all []permissions.Wanted) []Check {
	var checks []Check
	for _, w := range all {
		remedy := "apply artifacts/rbac, or use an account that may"
		switch {
		case c.options.pre:
			remedy = installerRemedy
		case where(w) == "in all namespaces":
			remedy += "; or restrict the operator with --namespace"
		}
		checks = append(checks, Check{
			ID:    fmt.Sprintf("permissions/%s/%s", cmp.Or(w.Namespace, "*"), strings.ReplaceAll(w.String(), " ", ":")),
			Title: fmt.Sprintf("%s %s %s", strings.Join(w.Verbs, ","), w, where(w)),
			Run: func(ctx context.Context) Result {
				missing, err := c.account.Missing(ctx, w.Namespace, w.Permission)
				if err != nil {
					return unanswered(err)
				}
				if len(missing) > 0 {
					return fail(fmt.Sprintf("not allowed to %s; needed by %s", strings.Join(missing, ","), listed(w.By)), remedy)
				}
				return pass("")
			},
		})
	}
	return checks
}

const installerRemedy = "use an account that may, such as a cluster-admin"

// granted returns the permissions in the roles of artifacts/rbac. A test compares the two.
func (c *checker) granted() []permissions.Permission {
	all := slices.Concat(kinds.Needs(kinds.Names()), webhook.NeedsHandler, webhook.NeedsInjection,
		certificate.NeedsSecret, certificate.NeedsConfigMap, permissions.Metrics, permissions.Lease(c.options.leaseName),
		[]permissions.Permission{permissions.Definitions})
	grant := func(d *apiextensionsv1.CustomResourceDefinition, subresource string, verbs ...string) {
		all = append(all, permissions.Permission{Group: d.Spec.Group, Resource: d.Spec.Names.Plural, Subresource: subresource, Verbs: verbs})
	}
	for _, d := range crds.All() {
		grant(d, "", "*")
		grant(d, "status", "get")
		if s := d.Spec.Versions[0].Subresources; s != nil && s.Scale != nil {
			grant(d, "scale", "get", "patch", "update")
		}
	}
	return all
}

// checkGrant asks whether this account can create the roles of artifacts/rbac. The API server lets an account grant only its own
// permissions, unless it may escalate.
func (c *checker) checkGrant(ctx context.Context) Result {
	escalate := permissions.Permission{Group: rbacv1.GroupName, Resource: "clusterroles", Verbs: []string{"escalate"}}
	if missing, err := c.account.Missing(ctx, metav1.NamespaceAll, escalate); err == nil && len(missing) == 0 {
		return pass("")
	}
	var lacking []string
	for _, w := range permissions.Merge(permissions.WantedBy("", metav1.NamespaceAll, c.granted())) {
		missing, err := c.account.Missing(ctx, metav1.NamespaceAll, w.Permission)
		if err != nil {
			return unanswered(err)
		}
		if len(missing) > 0 {
			lacking = append(lacking, strings.Join(missing, ",")+" "+w.String())
		}
	}
	if len(lacking) == 0 {
		return pass("")
	}
	return fail("it may not itself, and so cannot grant: "+strings.Join(lacking, "; "), installerRemedy)
}
