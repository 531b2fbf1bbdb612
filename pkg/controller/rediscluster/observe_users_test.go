/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// TestAForeignSecret has another owner's Secret have the name of the operator's. No Pod mounts it, and its password is never used, not even
// after it is gone.
func TestAForeignSecret(t *testing.T) {
	s := playing(t, see(six(), clearStatus, noPod(0, 1, 2, 3, 4, 5)))
	s.add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "demo-glassback", Namespace: "default",
			OwnerReferences: []metav1.OwnerReference{{UID: "theirs", Name: "theirs", Kind: "Certificate", Controller: ptr.To(true)}},
		},
		Data: map[string][]byte{"password": []byte("theirs")},
	})
	s.edit(withUsers(aUser("default", openRules, "")))
	syncs := func() (writes []string) {
		for range 3 {
			some, _, err := s.sync()
			if err != nil {
				t.Fatal(err)
			}
			writes = append(writes, some...)
			s.catchUp()
			s.clock.Step(time.Second)
		}
		return writes
	}
	if writes := syncs(); slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "create pods") }) {
		t.Errorf("it does %q, want no Pod", writes)
	}
	if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); c.Reason != reasonConflict {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
	s.destroy("secrets", "demo-glassback")
	s.clock.Step(secretEvery)
	writes := syncs()
	if i, j := slices.Index(writes, "create secrets demo-glassback"), slices.Index(writes, "create pods demo-0"); i < 0 || j < i {
		t.Errorf("it does %q, want the Secret, and then the Pods", writes)
	}
	own, err := s.kube.CoreV1().Secrets("default").Get(t.Context(), "demo-glassback", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if password := own.StringData["password"] + string(own.Data["password"]); password == "theirs" || len(password) < 20 {
		t.Errorf("the operator's Secret has the password %q", password)
	}
}
