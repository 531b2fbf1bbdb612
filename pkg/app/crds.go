/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/artifacts/crd"
)

// establishPatience is how long the API server may take to serve a CRD.
const establishPatience = 30 * time.Second

const installHint = "start once with --install-crds, or apply artifacts/crd (make install)"

// ensureCRDs makes sure that the cluster has the CRDs of this binary: it applies
// them if install is set, and else only looks. CRDs that are newer than this
// binary are left as they are.
func ensureCRDs(ctx context.Context, client apiextensions.Interface, install bool) error {
	wanted, err := crd.All()
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
			if err := discoverable(client, want); err != nil {
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
func discoverable(client apiextensions.Interface, want *apiextensionsv1.CustomResourceDefinition) error {
	groupVersion := want.Spec.Group + "/" + want.Spec.Versions[0].Name
	list, err := client.Discovery().ServerResourcesForGroupVersion(groupVersion)
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
	return fmt.Errorf("the cluster has no CRD %s: %s", want.Name, installHint)
}

func ensureCRD(ctx context.Context, client apiextensions.Interface, want, have *apiextensionsv1.CustomResourceDefinition, install bool) error {
	logger := klog.FromContext(ctx).WithValues("crd", want.Name)
	switch {
	case have != nil && revision(have) > revision(want):
		logger.Info("The CRD in the cluster is newer than this operator, and is left as it is",
			"revision", revision(have), "ownRevision", revision(want))
		return established(ctx, client, want.Name)
	case have != nil && revision(have) == revision(want):
		return established(ctx, client, want.Name)
	case !install && have == nil:
		return fmt.Errorf("the cluster has no CRD %s: %s", want.Name, installHint)
	case !install:
		return fmt.Errorf("the CRD %s in the cluster is older than this operator (revision %d, needed %d): %s",
			want.Name, revision(have), revision(want), installHint)
	}
	body, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("render CRD %s: %w", want.Name, err)
	}
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, want.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: "glassback", Force: ptr.To(true)})
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("not allowed to apply CRDs: have an administrator run make install, then start without --install-crds: %w", err)
	}
	if err != nil {
		return fmt.Errorf("apply CRD %s: %w", want.Name, err)
	}
	logger.Info("Applied CRD", "revision", revision(want))
	return established(ctx, client, want.Name)
}

// established returns once the API server serves the CRD.
func established(ctx context.Context, client apiextensions.Interface, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, establishPatience, true, func(ctx context.Context) (bool, error) {
		have, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range have.Status.Conditions {
			if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
				return false, fmt.Errorf("its names are taken: %s", c.Message)
			}
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait until CRD %s is served: %w", name, err)
	}
	return nil
}

// revision returns the revision of a CRD, 0 for one that is not from here.
func revision(c *apiextensionsv1.CustomResourceDefinition) int {
	n, err := strconv.Atoi(c.Annotations[crd.AnnotationRevision])
	if err != nil {
		return 0
	}
	return n
}
