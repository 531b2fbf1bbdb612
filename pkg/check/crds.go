// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/pkg/controller/application"
	"github.com/glassback/glassback/pkg/crds"
)

// crdChecks returns a check for each CRD of this binary. Before an installation (pre), it checks whether the CRD can be installed.
func (c *checker) crdChecks() []Check {
	var checks []Check
	for _, want := range crds.All() {
		checks = append(checks, Check{
			ID: "crds/" + want.Name, Title: fmt.Sprintf("%s at revision %d", want.Name, crds.Revision(want)),
			Run: func(ctx context.Context) Result { return c.checkCRD(ctx, want) },
		})
	}
	checks = append(checks, Check{ID: "crds/names", Title: "their names are no other resource's", Run: c.checkNames})
	if c.runs(application.Name) {
		checks = append(checks, Check{ID: "crds/gateway", Title: "HTTPRoutes of the Gateway API", Run: c.checkGateway})
	}
	return checks
}

// checkGateway reports whether Applications can have HTTPRoutes.
func (c *checker) checkGateway(ctx context.Context) Result {
	_, err := c.clients.Gateway.GatewayV1().HTTPRoutes(c.options.Namespaces[0]).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsNotFound(err):
		return skip("the cluster has none: only spec.gateway of an Application needs them")
	case apierrors.IsForbidden(err):
		return skip("this account may not list them")
	case err != nil:
		return unanswered(err)
	}
	return pass("")
}

// checkNames looks for other resources that have a name of one of the CRDs. kubectl then takes that of the group which the API server lists
// first.
func (c *checker) checkNames(ctx context.Context) Result {
	served := discovery.ToServerResourcesInterfaceWithContext(c.clients.Apiextensions.Discovery())
	_, lists, err := served.ServerGroupsAndResourcesWithContext(ctx)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // A group whose API server does not answer has no names now.
		return unanswered(err)
	}
	var clashes, safe []string
	for _, ours := range crds.All() {
		names := sets.New(ours.Spec.Names.ShortNames...).Insert(ours.Spec.Names.Singular, ours.Spec.Names.Plural)
		found := sets.New[string]()
		for _, list := range lists {
			group, _, _ := strings.Cut(list.GroupVersion, "/")
			if group == ours.Spec.Group {
				continue
			}
			for _, other := range list.APIResources {
				if shared := names.Intersection(sets.New(other.ShortNames...).Insert(other.SingularName, other.Name)); len(shared) > 0 {
					found.Insert(fmt.Sprintf("%s: %s.%s", strings.Join(sets.List(shared), ", "), other.Name, group))
				}
			}
		}
		if len(found) > 0 {
			clashes, safe = append(clashes, sets.List(found)...), append(safe, "kubectl get "+ours.Name)
		}
	}
	if len(clashes) > 0 {
		return warn("others have them too: "+strings.Join(clashes, "; "), "add the group: "+strings.Join(safe, ", "))
	}
	return pass("")
}

func (c *checker) checkCRD(ctx context.Context, want *apiextensionsv1.CustomResourceDefinition) Result {
	have, err := crds.Get(ctx, c.clients.Apiextensions, want.Name)
	switch {
	case apierrors.IsForbidden(err):
		return c.discoverCRD(ctx, want)
	case err != nil:
		return unanswered(err)
	}
	if c.options.pre {
		return c.tryCRD(ctx, want, have)
	}
	return usable(want, have)
}

// discoverCRD checks a CRD for an account that may not read CRDs: it asks which resources the API server serves.
func (c *checker) discoverCRD(ctx context.Context, want *apiextensionsv1.CustomResourceDefinition) Result {
	switch served, err := crds.Discover(ctx, c.clients.Apiextensions, want); {
	case err != nil:
		return unanswered(err)
	case served:
		return pass("served; this account may not see its revision")
	case c.options.pre:
		return pass("not there yet")
	}
	return fail("it is not there", crds.InstallHint)
}

// usable returns whether the operator can work with a CRD of the cluster.
func usable(want, have *apiextensionsv1.CustomResourceDefinition) Result {
	rank := crds.RankOf(want, have)
	switch rank {
	case crds.Absent:
		return fail("it is not there", crds.InstallHint)
	case crds.Foreign:
		return fail("there is one that is not Glassback's: it has no annotation "+crd.AnnotationRevision,
			"see whose it is; to have Glassback take it over, "+crds.InstallHint)
	case crds.Older:
		return fail(fmt.Sprintf("it is older: revision %d", crds.Revision(have)), crds.InstallHint)
	}
	if reason, remedy := crds.Unusable(want, have); reason != "" {
		return fail(reason, remedy)
	}
	if !crds.Served(have) {
		return fail("the API server does not serve it yet", "try again in a moment; else see its conditions: kubectl describe crd "+want.Name)
	}
	if unknown := crds.UnknownVersions(want, have); len(unknown) > 0 {
		return warn("objects may still be stored as "+strings.Join(unknown, ", ")+", which this operator does not know", migrationHint)
	}
	if rank == crds.Newer {
		return warn(fmt.Sprintf("it is newer: revision %d, which this operator leaves as it is", crds.Revision(have)), "upgrade the operator")
	}
	return pass("served, stored as " + strings.Join(have.Status.StoredVersions, ", "))
}

const migrationHint = "store them anew as a version that is known, then take the old one out of the CRD's status.storedVersions"

// installable returns the Result of comparing a CRD of the cluster with the one to install.
func installable(want, have *apiextensionsv1.CustomResourceDefinition) Result {
	rank := crds.RankOf(want, have)
	if rank == crds.Absent {
		return pass("not there yet")
	}
	if have.DeletionTimestamp != nil {
		return fail("there is one that is being deleted, with all its objects",
			"wait until it is gone; see what finalizers its objects still have")
	}
	if unknown := crds.UnknownVersions(want, have); len(unknown) > 0 {
		return fail("objects may still be stored as "+strings.Join(unknown, ", ")+", which this operator does not know", migrationHint)
	}
	switch rank {
	case crds.Foreign:
		return warn("there is one that is not Glassback's, whose schema installing replaces; its objects stay",
			"see whose it is: kubectl get crd "+want.Name+" -o yaml --show-managed-fields")
	case crds.Newer:
		return warn(fmt.Sprintf("there is a newer one, revision %d: --install-crds leaves it, "+
			"and kubectl apply would make it older", crds.Revision(have)),
			"install an operator that is as new")
	case crds.Older:
		return pass(fmt.Sprintf("revision %d, which installing raises", crds.Revision(have)))
	default:
		return pass("there already")
	}
}

// tryCRD is installable with a dry run: the API server also tries the installation.
func (c *checker) tryCRD(ctx context.Context, want, have *apiextensionsv1.CustomResourceDefinition) Result {
	result := installable(want, have)
	if result.State == Failed || crds.RankOf(want, have) >= crds.Same {
		return result
	}
	_, err := crds.Apply(ctx, c.clients.Apiextensions, want, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsForbidden(err):
		result.Reason += "; this account may not try to apply it"
	case apierrors.IsInvalid(err):
		return fail(err.Error(), "use a newer API server, or an older operator")
	case err != nil:
		return unanswered(err)
	case result.State == OK:
		result.Reason += "; the API server would take it"
	}
	return result
}
