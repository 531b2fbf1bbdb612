// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

func TestRefusal(t *testing.T) {
	const namespaces, allow = "--ecs-own-credentials-namespaces=", "--ecs-own-credentials-allow="
	here, exists := []string{"b", "default"}, func(e *v1alpha1.ECSInstance) { e.Status.InstanceID = "i-1" }
	adopts := func(e *v1alpha1.ECSInstance) { e.Spec.AdoptInstanceID = "i-1" }
	prepaid := func(e *v1alpha1.ECSInstance) { e.Spec.InstanceChargeType = v1alpha1.PrePaid }
	restores := func(e *v1alpha1.ECSInstance) {
		e.Spec.Disks = &v1alpha1.Disks{Data: []v1alpha1.DataDisk{{}, {SnapshotID: "s-1"}}}
	}
	for name, test := range map[string]struct {
		own    OwnCredentials
		change func(*v1alpha1.ECSInstance)
		remedy string // its end; "": allowed
	}{
		"no namespace may":          {OwnCredentials{}, nil, namespaces + "default"},
		"another namespace may":     {OwnCredentials{Namespaces: []string{"b"}}, exists, namespaces + "b,default"},
		"its namespace may":         {OwnCredentials{Namespaces: here}, nil, ""},
		"all namespaces may":        {OwnCredentials{Namespaces: []string{"*"}}, nil, ""},
		"it has credentials":        {OwnCredentials{}, func(e *v1alpha1.ECSInstance) { e.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{} }, ""},
		"adopt":                     {OwnCredentials{here, []string{"prepaid", "snapshot"}}, adopts, allow + "prepaid,snapshot,adopt"},
		"adopt, allowed":            {OwnCredentials{here, []string{"adopt"}}, adopts, ""},
		"adopt, one step taken":     {OwnCredentials{Namespaces: here}, func(e *v1alpha1.ECSInstance) { adopts(e); exists(e) }, allow + "adopt"},
		"adopted before":            {OwnCredentials{Namespaces: here}, func(e *v1alpha1.ECSInstance) { adopts(e); e.Status.Adopted = true }, ""},
		"prepaid":                   {OwnCredentials{here, []string{"adopt", "snapshot"}}, prepaid, allow + "adopt,snapshot,prepaid"},
		"prepaid, allowed":          {OwnCredentials{here, []string{"prepaid"}}, prepaid, ""},
		"prepaid and it exists":     {OwnCredentials{Namespaces: here}, func(e *v1alpha1.ECSInstance) { prepaid(e); exists(e) }, ""},
		"a snapshot":                {OwnCredentials{Namespaces: here}, restores, allow + "snapshot"},
		"a snapshot, allowed":       {OwnCredentials{here, []string{"snapshot"}}, restores, ""},
		"a custom image":            {OwnCredentials{Namespaces: here}, func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "m-2ze1" }, allow + "snapshot"},
		"prepaid and being deleted": {OwnCredentials{Namespaces: here}, func(e *v1alpha1.ECSInstance) { prepaid(e); e.DeletionTimestamp = &metav1.Time{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ecs := &v1alpha1.ECSInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vm"}}
			ecs.Spec.ImageID = "aliyun_3_x64_20G_alibase_20240528.vhd"
			if test.change != nil {
				test.change(ecs)
			}
			why, remedy := test.own.Refusal(ecs)
			if (why == "") != (test.remedy == "") || !strings.HasSuffix(remedy, test.remedy) {
				t.Errorf("got %q, %q, want the remedy %s", why, remedy, test.remedy)
			}
		})
	}
}

// TestOwnCredentialsNeedPermission: without a flag, the operator's own credentials sign nothing, and the condition says what to set.
func TestOwnCredentialsNeedPermission(t *testing.T) {
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", testID)
	t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", testSecret)
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.CredentialsSecretRef = nil })
		w.waitForReason("vm", reasonOwnCredentials)
		time.Sleep(time.Hour)
		if calls := w.cloud.Calls(); len(calls) > 0 {
			t.Errorf("there are calls: %v", calls)
		}
	})
}
