/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/check"
)

// establishPatience is how long the API server may take to serve a CRD.
const establishPatience = 30 * time.Second

// embedded are the CRDs of this binary. Nobody changes them.
var embedded = sync.OnceValues(crd.All)

const installHint = "start once with --install-crds, or apply artifacts/crd (make install)"

// ensureCRDs makes sure that the cluster has the CRDs of this binary: it applies
// them if install is set, and else only looks. CRDs that are newer than this
// binary are left as they are.
func ensureCRDs(ctx context.Context, client apiextensions.Interface, install bool) error {
	wanted, err := embedded()
	if err != nil {
		return err
	}
	for _, want := range wanted {
		have, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, want.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			have = nil
		case apierrors.IsForbidden(err) && !install:
			// Accounts of one namespace may not. Discovery is open to all of them.
			if err := discoverable(ctx, client, want); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("get CRD %s: %w", want.Name, err)
		}
		if err := ensureCRD(ctx, client, want, have, install); err != nil {
			return err
		}
	}
	return nil
}

// discoverable returns an error unless the API server serves the CRD's resource.
// It cannot tell the revision.
func discoverable(ctx context.Context, client apiextensions.Interface, want *apiextensionsv1.CustomResourceDefinition) error {
	groupVersion := want.Spec.Group + "/" + want.Spec.Versions[0].Name
	list, err := discovery.ToDiscoveryInterfaceWithContext(client.Discovery()).ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ask which resources %s has: %w", groupVersion, err)
	}
	if list != nil {
		for _, resource := range list.APIResources {
			if resource.Name == want.Spec.Names.Plural {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: %s", absent.problem(want, nil), installHint)
}

func ensureCRD(ctx context.Context, client apiextensions.Interface, want, have *apiextensionsv1.CustomResourceDefinition, install bool) error {
	logger := klog.FromContext(ctx).WithValues("crd", want.Name)
	switch rank := rankOf(want, have); {
	case rank == newer:
		logger.Info("The CRD in the cluster is newer than this operator, and is left as it is",
			"revision", revision(have), "ownRevision", revision(want))
		return established(ctx, client, want.Name)
	case rank == same:
		return established(ctx, client, want.Name)
	case !install:
		return fmt.Errorf("%s: %s", rank.problem(want, have), installHint)
	}
	if err := applyCRD(ctx, client, want, metav1.PatchOptions{}); err != nil {
		return err
	}
	logger.Info("Applied CRD", "revision", revision(want))
	return established(ctx, client, want.Name)
}

// applyCRD makes the cluster's CRD what this binary says that it is.
func applyCRD(ctx context.Context, client apiextensions.Interface, want *apiextensionsv1.CustomResourceDefinition, options metav1.PatchOptions) error {
	body, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("render CRD %s: %w", want.Name, err)
	}
	options.FieldManager, options.Force = glassback.Name, ptr.To(true)
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, want.Name, types.ApplyPatchType, body, options)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("not allowed to apply CRDs: have an administrator run make install, then start without --install-crds: %w", err)
	}
	if err != nil {
		return fmt.Errorf("apply CRD %s: %w", want.Name, err)
	}
	return nil
}

// established returns once the API server serves the CRD.
func established(ctx context.Context, client apiextensions.Interface, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, establishPatience, true, func(ctx context.Context) (bool, error) {
		have, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if taken := namesTaken(have); taken != "" {
			return false, errors.New(taken)
		}
		return served(have), nil
	})
	if err != nil {
		return fmt.Errorf("wait until CRD %s is served: %w", name, err)
	}
	return nil
}

// namesTaken says who has the names of a CRD, "" if it has them itself.
func namesTaken(have *apiextensionsv1.CustomResourceDefinition) string {
	for _, c := range have.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
			return "its names are taken: " + c.Message
		}
	}
	return ""
}

// served returns whether the API server serves a CRD.
func served(have *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(have.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// rank is how a CRD in the cluster compares with that of this binary.
type rank int

const (
	absent  rank = iota // There is none.
	foreign             // It is not from here.
	older
	same
	newer
)

func rankOf(want, have *apiextensionsv1.CustomResourceDefinition) rank {
	if have == nil {
		return absent
	}
	_, ours := have.Annotations[crd.AnnotationRevision]
	switch was, is := revision(have), revision(want); {
	case !ours:
		return foreign
	case was < is:
		return older
	case was > is:
		return newer
	default:
		return same
	}
}

// problem says why the operator cannot work with a CRD: one that is absent, foreign or older.
func (r rank) problem(want, have *apiextensionsv1.CustomResourceDefinition) string {
	switch r {
	case absent:
		return "the cluster has no CRD " + want.Name
	case foreign:
		return fmt.Sprintf("the CRD %s in the cluster is not Glassback's: it has no annotation %s", want.Name, crd.AnnotationRevision)
	default:
		return fmt.Sprintf("the CRD %s in the cluster is older than this operator (revision %d, needed %d)", want.Name, revision(have), revision(want))
	}
}

// revision returns the revision of a CRD, 0 for one that is not from here.
func revision(c *apiextensionsv1.CustomResourceDefinition) int {
	n, err := strconv.Atoi(c.Annotations[crd.AnnotationRevision])
	if err != nil {
		return 0
	}
	return n
}

// crdChecks are about the CRDs of this binary, or with pre about whether they can be installed.
func (c *checker) crdChecks() ([]check.Check, error) {
	wanted, err := embedded()
	if err != nil {
		return nil, err
	}
	c.definitions = wanted
	var checks []check.Check
	for _, want := range wanted {
		id := "crds/" + want.Name
		checks = append(checks, check.Check{
			ID: id, Title: fmt.Sprintf("%s at revision %d", want.Name, revision(want)),
			Run: func(ctx context.Context) check.Result { return c.checkCRD(ctx, want) },
		})
	}
	return checks, nil
}

func (c *checker) checkCRD(ctx context.Context, want *apiextensionsv1.CustomResourceDefinition) check.Result {
	have, err := c.clients.apiextensions.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		have = nil
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

// discoverCRD is for accounts that may not look at CRDs.
func (c *checker) discoverCRD(ctx context.Context, want *apiextensionsv1.CustomResourceDefinition) check.Result {
	err := discoverable(ctx, c.clients.apiextensions, want)
	if c.options.pre && err != nil {
		return check.Pass("not there yet")
	}
	if err != nil {
		return check.Fail("it is not there", installHint)
	}
	return check.Pass("served; this account may not see its revision")
}

// usable says whether the operator can work with a CRD of the cluster.
func usable(want, have *apiextensionsv1.CustomResourceDefinition) check.Result {
	rank := rankOf(want, have)
	switch rank {
	case absent:
		return check.Fail("it is not there", installHint)
	case foreign:
		return check.Fail("there is one that is not Glassback's: it has no annotation "+crd.AnnotationRevision,
			"see whose it is; to have Glassback take it over, "+installHint)
	case older:
		return check.Fail(fmt.Sprintf("it is older: revision %d", revision(have)), installHint)
	}
	if have.DeletionTimestamp != nil {
		return check.Fail("it is being deleted, with all its objects", "wait until it is gone, see what finalizers its objects still have, then "+installHint)
	}
	if taken := namesTaken(have); taken != "" {
		return check.Fail(taken, "delete the CRD that has them, if nobody needs that")
	}
	version := want.Spec.Versions[0].Name
	if !slices.ContainsFunc(have.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version && v.Served }) {
		return check.Fail("it does not serve the version "+version, "install an operator that is as new as the CRD")
	}
	if !served(have) {
		return check.Fail("the API server does not serve it yet", "try again in a moment; else see its conditions: kubectl describe crd "+want.Name)
	}
	if unknown := unknownVersions(want, have); len(unknown) > 0 {
		return check.Warn("objects may still be stored as "+strings.Join(unknown, ", ")+", which this operator does not know", migrationHint)
	}
	if rank == newer {
		return check.Warn(fmt.Sprintf("it is newer: revision %d, which this operator leaves as it is", revision(have)), "upgrade the operator")
	}
	return check.Pass("served, stored as " + strings.Join(have.Status.StoredVersions, ", "))
}

const migrationHint = "store them anew as a version that is known, then take the old one out of the CRD's status.storedVersions"

// installable says what installing makes of a CRD of the cluster.
func installable(want, have *apiextensionsv1.CustomResourceDefinition) check.Result {
	rank := rankOf(want, have)
	if rank == absent {
		return check.Pass("not there yet")
	}
	if have.DeletionTimestamp != nil {
		return check.Fail("there is one that is being deleted, with all its objects", "wait until it is gone; see what finalizers its objects still have")
	}
	if unknown := unknownVersions(want, have); len(unknown) > 0 {
		return check.Fail("objects may still be stored as "+strings.Join(unknown, ", ")+", which this operator does not know", migrationHint)
	}
	switch rank {
	case foreign:
		return check.Warn("there is one that is not Glassback's, whose schema installing replaces; its objects stay",
			"see whose it is: kubectl get crd "+want.Name+" -o yaml --show-managed-fields")
	case newer:
		return check.Warn(fmt.Sprintf("there is a newer one, revision %d: --install-crds leaves it, and kubectl apply would make it older", revision(have)),
			"install an operator that is as new")
	case older:
		return check.Pass(fmt.Sprintf("revision %d, which installing raises", revision(have)))
	default:
		return check.Pass("there already")
	}
}

// unknownVersions are those in which objects may be stored, and which this binary's CRD has not got.
func unknownVersions(want, have *apiextensionsv1.CustomResourceDefinition) []string {
	return slices.DeleteFunc(slices.Clone(have.Status.StoredVersions), func(stored string) bool {
		return slices.ContainsFunc(want.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored })
	})
}

// tryCRD is installable, and what the API server says when it is asked to, in a dry run.
func (c *checker) tryCRD(ctx context.Context, want, have *apiextensionsv1.CustomResourceDefinition) check.Result {
	result := installable(want, have)
	if result.State == check.Failed || rankOf(want, have) >= same {
		return result
	}
	err := applyCRD(ctx, c.clients.apiextensions, want, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsForbidden(err):
		result.Reason += "; this account may not try to apply it"
	case apierrors.IsInvalid(err):
		return check.Fail(err.Error(), "use a newer API server, or an older operator")
	case err != nil:
		return unanswered(err)
	case result.State == check.OK:
		result.Reason += "; the API server would take it"
	}
	return result
}
