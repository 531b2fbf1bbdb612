// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/artifacts/crd"
)

type definition = apiextensionsv1.CustomResourceDefinition

// cluster returns the CRDs of this binary as an API server has them that serves them.
// change changes the first one, or returns nil for none.
func cluster(t *testing.T, change func(*definition) *definition) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	for i, want := range All() {
		have := want.DeepCopy()
		have.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
		}}
		if i == 0 && change != nil {
			if have = change(have); have == nil {
				continue
			}
		}
		objects = append(objects, have)
	}
	return objects
}

func TestEnsure(t *testing.T) {
	revised := func(revision string) func(*definition) *definition {
		return func(c *definition) *definition {
			c.Annotations[crd.AnnotationRevision] = revision
			return c
		}
	}
	reworded := func(c *definition) *definition {
		c.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "the text of another version"
		return c
	}
	const hint = "start once with --install-crds"
	for name, test := range map[string]struct {
		change  func(*definition) *definition
		install bool
		applied bool
		err     string
	}{
		"all are there: one request for each": {},
		"one is absent": {
			change: func(*definition) *definition { return nil }, err: "the cluster has no CRD apiexampleas.groupa.k8s.zhuang.com: " + hint,
		},
		"one is older":                  {change: revised("0"), err: "is older than this operator (revision 0, needed 1): " + hint},
		"one is newer":                  {change: revised("99")},
		"one has other descriptions":    {change: reworded},
		"one is older, and is replaced": {change: revised("0"), install: true, applied: true},
		"one is newer, and is left":     {change: revised("99"), install: true},
		"one is not Glassback's": {change: func(c *definition) *definition {
			c.Annotations = nil
			return c
		}, err: "is not Glassback's: it has no annotation"},
		"one is being deleted": {change: func(c *definition) *definition {
			c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			return c
		}, err: "it is being deleted, with all its objects: wait until it is gone"},
		"the names of one are taken": {change: func(c *definition) *definition {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{
				Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Message: `"axa" is already in use`,
			}}
			return c
		}, err: `its names are taken: "axa" is already in use`},
		"one is not served": {change: func(c *definition) *definition {
			c.Status.Conditions = nil
			return c
		}, err: "wait until CRD apiexampleas.groupa.k8s.zhuang.com is served: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(cluster(t, test.change)...)
				applied := false
				client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					applied = true
					return true, cluster(t, nil)[0], nil
				})
				err := Ensure(klog.NewContext(t.Context(), logr.Discard()), client, All(), test.install)
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				if applied != test.applied {
					t.Errorf("applied: %t", applied)
				}
				if all := All(); test.change == nil && len(client.Actions()) != len(all) {
					t.Errorf("%d requests for %d CRDs", len(client.Actions()), len(all))
				}
			})
		})
	}
}

// An account that may not get CRDs discovers what the API server serves.
func TestEnsureWithoutTheRightToGet(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	})
	ctx := klog.NewContext(t.Context(), logr.Discard())
	if err := Ensure(ctx, client, All(), false); err == nil || !strings.Contains(err.Error(), "the cluster has no CRD apiexampleas") {
		t.Errorf("nothing is served: error %v", err)
	}
	for _, want := range All() {
		client.Resources = append(client.Resources, &metav1.APIResourceList{
			GroupVersion: want.Spec.Group + "/" + want.Spec.Versions[0].Name,
			APIResources: []metav1.APIResource{{Name: want.Spec.Names.Plural}},
		})
	}
	if err := Ensure(ctx, client, All(), false); err != nil {
		t.Errorf("all are served: error %v", err)
	}
	if err := Ensure(ctx, client, All(), true); err == nil || !strings.Contains(err.Error(), "get CRD apiexampleas") {
		t.Errorf("with --install-crds: error %v", err)
	}
}
