/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/glassback/glassback/pkg/check"
)

// permission is one thing that a controller does. artifacts/rbac/role.yaml
// grants the same; a test compares the two.
type permission struct {
	group, resource, subresource string
	name                         string // of the only object that it is about; empty for all
	verbs                        []string
}

func (p permission) String() string {
	name := p.resource
	if p.subresource != "" {
		name += "/" + p.subresource
	}
	if p.group != "" {
		name += "." + p.group
	}
	if p.name != "" {
		name += " " + p.name
	}
	return name
}

// checkPermissions asks the API server, for each namespace, whether this account
// may do what is needed. It names all that is missing at once.
func checkPermissions(ctx context.Context, kube kubernetes.Interface, namespaces []string, needed []permission) error {
	for _, ns := range namespaces {
		where := "in namespace " + ns
		if ns == metav1.NamespaceAll {
			where = "in all namespaces (or restrict it with --namespace)"
		}
		if err := checkPermissionsIn(ctx, kube, ns, needed, where+": apply artifacts/rbac, or use an account that may"); err != nil {
			return err
		}
	}
	return nil
}

// checkPermissionsIn asks for one namespace, or for all of them and the cluster. remedy
// ends the error about what is missing.
func checkPermissionsIn(ctx context.Context, kube kubernetes.Interface, namespace string, needed []permission, remedy string) error {
	var missing []string
	for _, p := range needed {
		verbs, err := ownAccess(kube).missing(ctx, namespace, p)
		if err != nil {
			return err
		}
		if len(verbs) > 0 {
			missing = append(missing, strings.Join(verbs, ",")+" "+p.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("this account is not allowed to %s %s", strings.Join(missing, "; "), remedy)
	}
	return nil
}

// access asks the API server whether somebody may do something.
type access func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)

// ownAccess is that of the account that asks.
func ownAccess(kube kubernetes.Interface) access {
	return func(ctx context.Context, what *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: what}}
		answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	}
}

// accountAccess is that of a ServiceAccount. Few may ask for it.
func accountAccess(kube kubernetes.Interface, account types.NamespacedName) access {
	return func(ctx context.Context, what *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: what,
			User:               serviceAccountUser(account),
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
		}}
		answer, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	}
}

func serviceAccountUser(account types.NamespacedName) string {
	return "system:serviceaccount:" + account.Namespace + ":" + account.Name
}

// missing returns those verbs of p that are not allowed in a namespace. It asks for all at
// once.
func (a access) missing(ctx context.Context, namespace string, p permission) ([]string, error) {
	allowed, failed := make([]bool, len(p.verbs)), make([]error, len(p.verbs))
	var asking sync.WaitGroup
	for i, verb := range p.verbs {
		asking.Go(func() {
			allowed[i], failed[i] = a(ctx, &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: p.group, Resource: p.resource, Subresource: p.subresource, Name: p.name,
			})
		})
	}
	asking.Wait()
	var missing []string
	for i, verb := range p.verbs {
		if failed[i] != nil {
			return nil, fmt.Errorf("ask for the permission to %s %s: %w", verb, p, failed[i])
		}
		if !allowed[i] {
			missing = append(missing, verb)
		}
	}
	return missing, nil
}

// wanted is a permission in a namespace, and who wants it.
type wanted struct {
	permission

	namespace string // empty for all of them, or for what is in none
	by        []string
}

// where says where it is wanted.
func (w wanted) where() string {
	switch {
	case w.namespace != metav1.NamespaceAll:
		return "in namespace " + w.namespace
	case slices.ContainsFunc(slices.Concat(installedInCluster, metricsNeeds), func(p permission) bool { return p.group == w.group && p.resource == w.resource }):
		return "in the cluster"
	}
	return "in all namespaces"
}

// merged returns what is wanted with one entry for each namespace, resource and name.
func merged(all []wanted) []wanted {
	var merged []wanted
	for _, w := range all {
		i := slices.IndexFunc(merged, func(m wanted) bool { return m.namespace == w.namespace && m.String() == w.String() })
		if i < 0 {
			w.verbs, w.by = slices.Clone(w.verbs), slices.Clone(w.by)
			merged = append(merged, w)
			continue
		}
		merged[i].verbs = append(merged[i].verbs, w.verbs...)
		merged[i].by = append(merged[i].by, w.by...)
	}
	for i := range merged {
		slices.Sort(merged[i].verbs)
		merged[i].verbs = slices.Compact(merged[i].verbs)
	}
	return merged
}

// wantedBy is what one part of the operator wants in a namespace.
func wantedBy(who, namespace string, needed []permission) []wanted {
	var all []wanted
	for _, p := range needed {
		all = append(all, wanted{p, namespace, []string{who}})
	}
	return all
}

// operatorWants is what an operator with the options o needs, whose webhooks are of a mode, that
// is installed in a namespace and elects a leader by a Lease, if that has a name.
func operatorWants(o *options, mode webhookMode, namespace string, lease types.NamespacedName) []wanted {
	var all []wanted
	for _, ns := range o.namespaces {
		for _, name := range o.controllers {
			all = append(all, wantedBy(name, ns, registry[name].needs)...)
		}
		all = append(all, wantedBy("all controllers", ns, needs(nil))...)
		if mode != webhooksOff {
			all = append(all, wantedBy("the webhooks", ns, handlerNeeds)...)
		}
	}
	switch mode {
	case webhooksFromService:
		all = append(all, wantedBy("the webhooks", namespace, secretNeeds)...)
		all = append(all, wantedBy("the webhooks", metav1.NamespaceAll, injectionNeeds)...)
	case webhooksFromURL:
		all = append(all, wantedBy("--webhook-url", metav1.NamespaceAll, registrationNeeds)...)
	}
	if o.metricsAddress != "" && o.metricsSecure {
		all = append(all, wantedBy("/metrics", metav1.NamespaceAll, metricsNeeds)...)
	}
	if o.inspectAddress != "" && !loopback(o.inspectAddress) {
		all = append(all, wantedBy("/inspect", metav1.NamespaceAll, metricsNeeds)...)
	}
	if lease.Name != "" {
		all = append(all, wantedBy("leader election", lease.Namespace, leaseNeeds(lease.Name))...)
	}
	return merged(all)
}

// operatorWants is what the operator needs: that in the cluster, or one that this account starts.
func (c *checker) operatorWants() []wanted {
	o := c.options
	mode, lease := webhooksOff, types.NamespacedName{}
	switch {
	case !o.webhooks:
	case o.webhookURL != "":
		mode = webhooksFromURL
	case o.webhookCertPath != "":
		mode = webhooksFromFiles
	case c.inside || c.deployment != nil:
		mode = webhooksFromService
	}
	if o.lease.elect {
		lease = types.NamespacedName{Namespace: o.leaseNamespace, Name: o.leaseName}
	}
	return operatorWants(&o.options, mode, o.operatorNamespace, lease)
}

// metricsNeeds are what it takes to ask the API server who may have the metrics.
var metricsNeeds = []permission{
	{group: "authentication.k8s.io", resource: "tokenreviews", verbs: []string{"create"}},
	{group: authorizationv1.GroupName, resource: "subjectaccessreviews", verbs: []string{"create"}},
}

// installed are the resources that artifacts hold: those of the cluster, and those of the
// operator's namespace. A test compares.
var (
	installedInCluster = []permission{
		{group: "apiextensions.k8s.io", resource: "customresourcedefinitions"},
		{resource: "namespaces"},
		{group: rbacv1.GroupName, resource: "clusterroles"},
		{group: rbacv1.GroupName, resource: "clusterrolebindings"},
		{group: admissionregistrationv1.GroupName, resource: "mutatingwebhookconfigurations"},
		{group: admissionregistrationv1.GroupName, resource: "validatingwebhookconfigurations"},
	}
	installedInNamespace = []permission{
		{resource: "serviceaccounts"},
		{resource: "services"},
		{group: appsv1.GroupName, resource: "deployments"},
		{group: rbacv1.GroupName, resource: "roles"},
		{group: rbacv1.GroupName, resource: "rolebindings"},
		{group: policyv1.GroupName, resource: "poddisruptionbudgets"},
		{group: networkingv1.GroupName, resource: "networkpolicies"},
	}
)

// installerWants is what kubectl apply needs to install the operator.
func (c *checker) installerWants() []wanted {
	all := slices.Concat(
		wantedBy("kubectl apply", metav1.NamespaceAll, installedInCluster),
		wantedBy("kubectl apply", c.options.operatorNamespace, installedInNamespace))
	for i := range all {
		all[i].verbs = []string{"create", "get", "patch"}
	}
	return all
}

// permissionChecks are followed by wantedChecks.
func (c *checker) permissionChecks() []check.Check {
	return []check.Check{{ID: "permissions/account", Title: "whose permissions count", Run: c.checkAccount}}
}

// checkAccount decides whose permissions are asked for: those of whom the operator runs as.
func (c *checker) checkAccount(ctx context.Context) check.Result {
	c.account = ownAccess(c.clients.kube)
	if c.options.pre {
		return check.Pass("those of " + c.name() + ", who installs")
	}
	if c.deployment == nil || c.inside {
		return check.Pass("those of " + c.name() + ", as whom an operator that is started here runs")
	}
	account := types.NamespacedName{
		Namespace: c.deployment.Namespace, Name: cmp.Or(c.deployment.Spec.Template.Spec.ServiceAccountName, "default"),
	}
	if c.user == serviceAccountUser(account) {
		return check.Pass(fmt.Sprintf("those of this account, ServiceAccount %s, as which the operator runs", account))
	}
	c.account = accountAccess(c.clients.kube, account)
	_, err := c.account(ctx, &authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets"})
	if apierrors.IsForbidden(err) {
		return check.Skip(fmt.Sprintf("they are those of ServiceAccount %s, and this account may not ask for them; it may: %s", account, c.inPod()))
	}
	if err != nil {
		return unanswered(err)
	}
	return check.Pass(fmt.Sprintf("those of ServiceAccount %s, as which the operator runs", account))
}

func (c *checker) name() string { return cmp.Or(c.user, "this account") }

// wantedChecks are one for each resource.
func (c *checker) wantedChecks() []check.Check {
	var checks []check.Check
	if c.options.pre {
		checks = append(c.accessChecks(c.installerWants()),
			check.Check{ID: "permissions/grant", Title: "grant the operator what it needs", Run: c.checkGrant})
	} else {
		checks = c.accessChecks(c.operatorWants())
	}
	for i := range checks {
		checks[i].Needs = []string{"permissions/account"}
	}
	return checks
}

// accessChecks ask for what is wanted.
func (c *checker) accessChecks(all []wanted) []check.Check {
	var checks []check.Check
	for _, w := range all {
		remedy := "apply artifacts/rbac, or use an account that may"
		switch {
		case c.options.pre:
			remedy = installerRemedy
		case w.where() == "in all namespaces":
			remedy += "; or restrict the operator with --namespace"
		}
		checks = append(checks, check.Check{
			ID:    fmt.Sprintf("permissions/%s/%s", cmp.Or(w.namespace, "*"), strings.ReplaceAll(w.String(), " ", ":")),
			Title: fmt.Sprintf("%s %s %s", strings.Join(w.verbs, ","), w, w.where()),
			Run: func(ctx context.Context) check.Result {
				missing, err := c.account.missing(ctx, w.namespace, w.permission)
				if err != nil {
					return unanswered(err)
				}
				if len(missing) > 0 {
					return check.Fail(fmt.Sprintf("not allowed to %s; needed by %s", strings.Join(missing, ","), listed(w.by)), remedy)
				}
				return check.Pass("")
			},
		})
	}
	return checks
}

const installerRemedy = "use an account that may, such as a cluster-admin"

// granted is what the roles of artifacts/rbac grant. A test compares.
func (c *checker) granted() []permission {
	all := slices.Concat(needs(controllerNames()), handlerNeeds, injectionNeeds, secretNeeds, metricsNeeds, leaseNeeds(c.options.leaseName), []permission{
		{group: "apiextensions.k8s.io", resource: "customresourcedefinitions", verbs: []string{"get"}},
	})
	for _, definition := range c.definitions {
		group, resource := definition.Spec.Group, definition.Spec.Names.Plural
		all = append(all, permission{group: group, resource: resource, verbs: []string{"*"}}, permission{group: group, resource: resource, subresource: "status", verbs: []string{"get"}})
		if s := definition.Spec.Versions[0].Subresources; s != nil && s.Scale != nil {
			all = append(all, permission{group: group, resource: resource, subresource: "scale", verbs: []string{"get", "patch", "update"}})
		}
	}
	return all
}

// checkGrant asks whether the roles of artifacts/rbac can be made: nobody can grant what they
// have not got, unless they may escalate.
func (c *checker) checkGrant(ctx context.Context) check.Result {
	escalate := permission{group: rbacv1.GroupName, resource: "clusterroles", verbs: []string{"escalate"}}
	if missing, err := c.account.missing(ctx, metav1.NamespaceAll, escalate); err == nil && len(missing) == 0 {
		return check.Pass("")
	}
	var lacking []string
	for _, w := range merged(wantedBy("", metav1.NamespaceAll, c.granted())) {
		missing, err := c.account.missing(ctx, metav1.NamespaceAll, w.permission)
		if err != nil {
			return unanswered(err)
		}
		if len(missing) > 0 {
			lacking = append(lacking, strings.Join(missing, ",")+" "+w.String())
		}
	}
	if len(lacking) == 0 {
		return check.Pass("")
	}
	return check.Fail("it may not itself, and so cannot grant: "+strings.Join(lacking, "; "), installerRemedy)
}
