// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/pkg/crds"
)

// definitions are the CRDs as a cluster has them.
func definitions(t *testing.T) []runtime.Object {
	t.Helper()
	all := crds.All()
	var objects []runtime.Object
	for _, d := range all {
		d := d.DeepCopy()
		d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
		}
		d.Status.StoredVersions = []string{d.Spec.Versions[0].Name}
		objects = append(objects, d)
	}
	return objects
}

func TestCRDs(t *testing.T) {
	all := crds.All()
	want := all[len(all)-1]
	for name, test := range map[string]struct {
		change      func(*apiextensionsv1.CustomResourceDefinition) // nil: there is none
		usable      State
		installable State
		reason      string // of usable
	}{
		"the desired definition": {func(*apiextensionsv1.CustomResourceDefinition) {}, OK, OK, "served, stored as v1"},
		"none":                   {nil, Failed, OK, "it is not there"},
		"an older one": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations[crd.AnnotationRevision] = "0" },
			Failed, OK, "it is older: revision 0"},
		"a newer one": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations[crd.AnnotationRevision] = "99" },
			Warning, Warning, "it is newer: revision 99"},
		"one without a revision": {func(c *apiextensionsv1.CustomResourceDefinition) { delete(c.Annotations, crd.AnnotationRevision) },
			Failed, Warning, "there is one that is not Glassback's"},
		"one that is being deleted": {func(c *apiextensionsv1.CustomResourceDefinition) { c.DeletionTimestamp = &metav1.Time{} },
			Failed, Failed, "it is being deleted"},
		"one that is not served yet": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.Conditions = nil },
			Failed, OK, "the API server does not serve it yet"},
		"one whose names are another one's": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Message: `"rdc" is already in use`},
			}
		}, Failed, OK, `its names are taken: "rdc" is already in use`},
		"one without the version": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Annotations[crd.AnnotationRevision], c.Spec.Versions[0].Served = "99", false
		}, Failed, Warning, "it does not serve the version v1"},
		"one with objects in a version that is not known": {
			func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v1beta1", "v1"} },
			Warning, Failed, "objects may still be stored as v1beta1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var have *apiextensionsv1.CustomResourceDefinition
			if test.change != nil {
				have = definitions(t)[len(all)-1].(*apiextensionsv1.CustomResourceDefinition)
				test.change(have)
			}
			if got := usable(want, have); got.State != test.usable || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("usable: %+v, want %s, %q", got, test.usable, test.reason)
			}
			if got := installable(want, have); got.State != test.installable {
				t.Errorf("installable: %+v, want %s", got, test.installable)
			}
		})
	}
}

// An account that may not get CRDs asks for the resources that the API server serves.
func TestCRDsOfAnAccountThatMayNotGetThem(t *testing.T) {
	want := crds.All()[0]
	served := []*metav1.APIResourceList{{
		GroupVersion: want.Spec.Group + "/" + want.Spec.Versions[0].Name, APIResources: []metav1.APIResource{{Name: want.Spec.Names.Plural}},
	}}
	for name, test := range map[string]struct {
		served     []*metav1.APIResourceList
		err        error
		state, pre State
		reason     string
	}{
		"it is served":                   {served: served, state: OK, pre: OK, reason: "served"},
		"it is not served":               {state: Failed, pre: OK, reason: "it is not there"},
		"the API server does not answer": {err: errors.New("connection refused"), state: Failed, pre: Failed, reason: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, run := range []struct {
				args []string
				want State
			}{{nil, test.state}, {[]string{"--pre"}, test.pre}} {
				c := checkOf(t, run.args, nil)
				client := c.clients.Apiextensions.(*apiextensionsfake.Clientset)
				client.Resources = test.served
				client.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
				})
				if test.err != nil {
					client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
				}
				got := c.checkCRD(t.Context(), want)
				if got.State != run.want || len(run.args) == 0 && !strings.Contains(got.Reason, test.reason) {
					t.Errorf("with %q: %+v, want %s, %q", run.args, got, run.want, test.reason)
				}
			}
		})
	}
}
