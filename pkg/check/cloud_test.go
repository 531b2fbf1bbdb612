// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

func TestEveryAccessKeyIsAskedAboutOnceForEachRegion(t *testing.T) {
	instance := func(name, secret, region string) *ecsv1alpha1.ECSInstance {
		ecs := &ecsv1alpha1.ECSInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		ecs.Spec.RegionID = region
		if secret != "" {
			ecs.Spec.CredentialsSecretRef = &ecsv1alpha1.SecretReference{Name: secret}
		}
		return ecs
	}
	c := checkOf(t, nil, nil, instance("1", "s", "cn-beijing"), instance("2", "s", "cn-beijing"), instance("3", "s", "cn-hangzhou"),
		instance("4", "", "cn-beijing"))
	if got := c.checkInstances(t.Context()); got.State != OK || got.Reason != "4 ECSInstances, and 3 access keys, each in one region" {
		t.Errorf("got %+v", got)
	}
	var ids []string
	for _, k := range c.keyChecks() {
		ids = append(ids, k.ID)
	}
	if want := []string{"cloud/own/cn-beijing", "cloud/a/s/cn-beijing", "cloud/a/s/cn-hangzhou"}; !slices.Equal(ids, want) {
		t.Errorf("got %q, want %q", ids, want)
	}
	if got := c.checkKey(t.Context(), cloudKey{"a", "s", "cn-beijing"}); got.State != Failed || got.Reason != "there is no such Secret" {
		t.Errorf("without the Secret: %+v", got)
	}
}
