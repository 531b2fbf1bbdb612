// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/artifacts/crd"
)

// How long the API server may take to serve a CRD, and how often Ensure asks.
const (
	servedTimeout = 30 * time.Second
	servedRetry   = 100 * time.Millisecond
)

// Ensure returns once the cluster has CRDs that the operator of these definitions can work with. With install it applies those
// that are absent, foreign or older, else it returns an error for them. It leaves newer ones as they are.
func Ensure(
	ctx context.Context, client apiextensions.Interface, definitions []*apiextensionsv1.CustomResourceDefinition, install bool,
) error {
	for _, want := range definitions {
		have, err := Get(ctx, client, want.Name)
		switch {
		case apierrors.IsForbidden(err) && !install:
			var served bool
			if served, err = Discover(ctx, client, want); err == nil && !served {
				err = fmt.Errorf("%s: %s", problem(want, nil), InstallHint)
			}
		case err != nil:
			err = fmt.Errorf("get CRD %s: %w", want.Name, err)
		default:
			err = ensure(ctx, client, want, have, install)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ensure(ctx context.Context, client apiextensions.Interface, want, have *apiextensionsv1.CustomResourceDefinition, install bool) error {
	logger := klog.FromContext(ctx).WithValues("crd", want.Name)
	switch rank := RankOf(want, have); {
	case rank == Newer:
		logger.Info("The CRD in the cluster is newer than this operator, and is left as it is",
			"revision", Revision(have), "ownRevision", Revision(want))
	case rank == Same:
	case !install:
		return fmt.Errorf("%s: %s", problem(want, have), InstallHint)
	default:
		var err error
		if have, err = Apply(ctx, client, want, metav1.PatchOptions{}); err != nil {
			return err
		}
		logger.Info("Applied CRD", "revision", Revision(want))
	}
	return waitServed(ctx, client, want, have)
}

// problem returns why the operator cannot work with a CRD that is absent, foreign or older.
func problem(want, have *apiextensionsv1.CustomResourceDefinition) string {
	switch RankOf(want, have) {
	case Absent:
		return "the cluster has no CRD " + want.Name
	case Foreign:
		return fmt.Sprintf("the CRD %s in the cluster is not Glassback's: it has no annotation %s", want.Name, crd.AnnotationRevision)
	default:
		return fmt.Sprintf("the CRD %s in the cluster is older than this operator (revision %d, needed %d)",
			want.Name, Revision(have), Revision(want))
	}
}

// waitServed returns once the API server serves the CRD, of which have is the last known state.
func waitServed(ctx context.Context, client apiextensions.Interface, want, have *apiextensionsv1.CustomResourceDefinition) error {
	err := wait.PollUntilContextTimeout(ctx, servedRetry, servedTimeout, true, func(ctx context.Context) (_ bool, err error) {
		if have == nil {
			if have, err = client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, want.Name, metav1.GetOptions{}); err != nil {
				return false, err
			}
		}
		if reason, remedy := Unusable(want, have); reason != "" {
			return false, errors.New(reason + ": " + remedy)
		}
		served := Served(have)
		if unknown := UnknownVersions(want, have); served && len(unknown) > 0 {
			klog.FromContext(ctx).Info("Objects may still be stored in versions that this operator does not know",
				"crd", want.Name, "versions", unknown)
		}
		have = nil
		return served, nil
	})
	if err != nil {
		return fmt.Errorf("wait until CRD %s is served: %w", want.Name, err)
	}
	return nil
}
