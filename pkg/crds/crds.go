// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds compares the CustomResourceDefinitions of this binary with those of a cluster, and installs them.
package crds

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// All returns the CRDs of this binary, and keeps them. Callers do not change them.
var All = sync.OnceValue(Parse)

// Parse returns the CRDs of this binary, and does not keep them: a process that runs for long saves some 2.5 MB.
func Parse() []*apiextensionsv1.CustomResourceDefinition {
	all, err := crd.All()
	if err != nil {
		panic(err) // They are embedded, and tests parse them.
	}
	return all
}

// InstallHint says how to install the CRDs.
const InstallHint = "start once with --install-crds, or apply artifacts/crd (crds.yaml of a release, or make install)"

// Get returns the CRD of a cluster, or nil if it has none of that name.
func Get(ctx context.Context, client apiextensions.Interface, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	have, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return have, err
}

// Discover returns whether the API server serves the resource of a CRD. It is for accounts that are not allowed to get CRDs, such
// as those of one namespace: discovery is open to all, but does not have the revision.
func Discover(ctx context.Context, client apiextensions.Interface, want *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	groupVersion := want.Spec.Group + "/" + want.Spec.Versions[0].Name
	list, err := discovery.ToDiscoveryInterfaceWithContext(client.Discovery()).ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("ask which resources %s has: %w", groupVersion, err)
	}
	return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == want.Spec.Names.Plural
	}), nil
}

// Apply writes the CRD of this binary to the cluster by server-side apply, and returns the result. It overwrites fields of other managers
// that differ. Other fields stay.
func Apply(
	ctx context.Context, client apiextensions.Interface, want *apiextensionsv1.CustomResourceDefinition, options metav1.PatchOptions,
) (*apiextensionsv1.CustomResourceDefinition, error) {
	body, err := json.Marshal(want)
	if err != nil {
		return nil, fmt.Errorf("render CRD %s: %w", want.Name, err)
	}
	options.FieldManager, options.Force = glassback.Name, ptr.To(true)
	have, err := client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, want.Name, types.ApplyPatchType, body, options)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("not allowed to apply CRDs: have an administrator apply crds.yaml of a release, or run make install, "+
			"then start without --install-crds: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("apply CRD %s: %w", want.Name, err)
	}
	return have, nil
}

// Rank says how a CRD in the cluster compares with that of this binary. The operator works with Same and Newer ones.
type Rank int

// The ranks.
const (
	Absent  Rank = iota // the cluster has none
	Foreign             // it has one that is not Glassback's
	Older
	Same
	Newer
)

// RankOf compares have, which is nil if the cluster has none, with want of this binary.
func RankOf(want, have *apiextensionsv1.CustomResourceDefinition) Rank {
	if have == nil {
		return Absent
	}
	_, ours := have.Annotations[crd.AnnotationRevision]
	switch haveRevision, wantRevision := Revision(have), Revision(want); {
	case !ours:
		return Foreign
	case haveRevision < wantRevision:
		return Older
	case haveRevision > wantRevision:
		return Newer
	default:
		return Same
	}
}

// Revision returns the revision of a CRD, or 0 if its annotation is absent or not a number.
func Revision(c *apiextensionsv1.CustomResourceDefinition) int {
	n, err := strconv.Atoi(c.Annotations[crd.AnnotationRevision])
	if err != nil {
		return 0
	}
	return n
}

// Unusable returns why the operator cannot work with a CRD of the rank Same or Newer, and what to do. The reason is "" if the
// operator can work with the CRD now, or once the API server serves it: see Served.
func Unusable(want, have *apiextensionsv1.CustomResourceDefinition) (reason, remedy string) {
	if have.DeletionTimestamp != nil {
		return "it is being deleted, with all its objects",
			"wait until it is gone, see what finalizers its objects still have, then " + InstallHint
	}
	for _, c := range have.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
			return "its names are taken: " + c.Message, "delete the CRD that has them, if it is not needed"
		}
	}
	version := want.Spec.Versions[0].Name
	if !slices.ContainsFunc(have.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	}) {
		return "it does not serve the version " + version, "install an operator that is as new as the CRD"
	}
	return "", ""
}

// Served reports whether the API server serves a CRD.
func Served(have *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(have.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// UnknownVersions returns the versions in which objects may be stored, and which the CRD of this binary does not have.
func UnknownVersions(want, have *apiextensionsv1.CustomResourceDefinition) []string {
	return slices.DeleteFunc(slices.Clone(have.Status.StoredVersions), func(stored string) bool {
		return slices.ContainsFunc(want.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored })
	})
}
