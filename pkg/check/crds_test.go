// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
