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
	const namespaces, allow = " to the operator's --ecs-own-credentials-namespaces", " to the operator's --ecs-own-credentials-allow"
	here := []string{"b", "default"}
	with := func(changes ...func(*v1alpha1.ECSInstance)) func(*v1alpha1.ECSInstance) {
		return func(e *v1alpha1.ECSInstance) {
			for _, change := range changes {
				change(e)
			}
		}
	}
	exists := func(e *v1alpha1.ECSInstance) { e.Status.InstanceID = "i-1" }
	adopts := func(e *v1alpha1.ECSInstance) { e.Spec.AdoptInstanceID = "i-1" }
	adopted := with(exists, func(e *v1alpha1.ECSInstance) { e.Status.Adopted = true })
	prepaid := func(e *v1alpha1.ECSInstance) { e.Spec.InstanceChargeType = v1alpha1.PrePaid }
	retains := func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionRetain }
	deletes := func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionDelete }
	deleted := func(e *v1alpha1.ECSInstance) { e.DeletionTimestamp = &metav1.Time{} }
	disk := func(d v1alpha1.DataDisk) func(e *v1alpha1.ECSInstance) {
		return func(e *v1alpha1.ECSInstance) { e.Spec.Disks = &v1alpha1.Disks{Data: []v1alpha1.DataDisk{{}, d}} }
	}
	secret := func(e *v1alpha1.ECSInstance) { e.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{} }
	image := func(id string) func(e *v1alpha1.ECSInstance) {
		return func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = id }
	}
	restores := disk(v1alpha1.DataDisk{SnapshotID: "s-1"})
	for name, test := range map[string]struct {
		own    OwnCredentials
		change func(*v1alpha1.ECSInstance)
		remedy string // its end; "": allowed
	}{
		"no namespace may":        {OwnCredentials{}, with(), "default" + namespaces},
		"another namespace may":   {OwnCredentials{Namespaces: []string{"b"}}, exists, "default" + namespaces},
		"its namespace may":       {OwnCredentials{Namespaces: here}, with(), ""},
		"all namespaces may":      {OwnCredentials{Namespaces: []string{"*"}}, with(), ""},
		"it has credentials":      {OwnCredentials{}, secret, ""},
		"adopt":                   {OwnCredentials{here, []string{"prepaid", "snapshot", "retain"}}, adopts, "adopt" + allow},
		"adopt, allowed":          {OwnCredentials{here, []string{"adopt"}}, adopts, ""},
		"adopt, one step taken":   {OwnCredentials{Namespaces: here}, with(adopts, exists), "adopt" + allow},
		"adopted with a Secret":   {OwnCredentials{Namespaces: here}, adopted, "adopt" + allow},
		"adopted, to be deleted":  {OwnCredentials{Namespaces: here}, with(adopted, deleted, deletes), "adopt" + allow},
		"adopted, to be released": {OwnCredentials{Namespaces: here}, with(adopted, deleted, retains), ""},
		"prepaid":                 {OwnCredentials{here, []string{"adopt", "snapshot"}}, prepaid, "prepaid" + allow},
		"prepaid, allowed":        {OwnCredentials{here, []string{"prepaid"}}, prepaid, ""},
		"prepaid, and it exists":  {OwnCredentials{Namespaces: here}, with(prepaid, exists), ""},
		"prepaid, being deleted":  {OwnCredentials{Namespaces: here}, with(prepaid, deleted), ""},
		"retained":                {OwnCredentials{Namespaces: here}, retains, "retain" + allow},
		"retained, being deleted": {OwnCredentials{Namespaces: here}, with(retains, exists, deleted), "retain" + allow},
		"a disk is retained":      {OwnCredentials{Namespaces: here}, disk(v1alpha1.DataDisk{KeepOnRelease: true}), "retain" + allow},
		"retained, allowed":       {OwnCredentials{here, []string{"retain"}}, retains, ""},
		"a snapshot":              {OwnCredentials{Namespaces: here}, restores, "snapshot" + allow},
		"a snapshot, allowed":     {OwnCredentials{here, []string{"snapshot"}}, restores, ""},
		"an image of its own":     {OwnCredentials{Namespaces: here}, image("m-2ze1"), "snapshot" + allow},
	} {
		t.Run(name, func(t *testing.T) {
			ecs := &v1alpha1.ECSInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vm"}}
			ecs.Spec.ImageID = "aliyun_3_x64_20G_alibase_20240528.vhd"
			test.change(ecs)
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
