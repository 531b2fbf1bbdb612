// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"slices"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// TestBadCredentials: the operator keeps the object and its instance until the credentials are good again.
func TestBadCredentials(t *testing.T) {
	for sentence, test := range map[string]struct {
		change  func(*world)
		reason  string
		says    []string
		stalled bool
		calls   int
	}{
		"the secret is another key's": {
			func(w *world) { w.secret("aliyun", testID, otherSecret) }, reasonRefused, []string{"Secret aliyun"}, true, 14,
		},
		"the access key is unknown": {
			func(w *world) { w.secret("aliyun", "LTAI5tNobodyHasThisKey", "x") }, reasonRefused, []string{"Secret aliyun"}, true, 14,
		},
		"the Secret is deleted": {
			func(w *world) { w.deleteSecret("aliyun") }, reasonSecretMissing, []string{"Secret aliyun"}, true, 0,
		},
		"the access key is another account's": {
			func(w *world) { w.secret("aliyun", otherID, otherSecret) }, reasonWrongAccount,
			[]string{testAccount, otherAccount, "nothing is done"}, true, 1,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm")
				id := w.ready("vm").Status.InstanceID
				test.change(w)
				w.waitForAdvice("vm", test.reason, test.stalled, test.says...)
				time.Sleep(time.Minute)
				w.limitHour(test.calls, 0)
				w.noChanges()
				w.cloud.Forget()
				w.delete("vm")
				if test.reason == reasonSecretMissing { // The operator deletes with the content that it read last.
					w.within(time.Minute, "both to be gone", func() bool { return w.get("vm") == nil && len(w.alive("")) == 0 })
					return
				}
				w.cloud.Forget()
				time.Sleep(time.Hour)
				if ecs := w.get("vm"); ecs == nil || !slices.Contains(ecs.Finalizers, v1alpha1.Finalizer) || ecs.Status.InstanceID != id {
					t.Fatalf("the object has changed\n%s", w.describe())
				}
				w.noChanges()
				w.onlyInstance()
				w.secret("aliyun", testID, testSecret)
				w.within(time.Minute, "both to be gone", func() bool { return w.get("vm") == nil && len(w.alive("")) == 0 })
			})
		})
	}
}

// TestCorrectedCredentials: the operator watches the Secret, so the object is Ready in seconds.
func TestCorrectedCredentials(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		id := w.ready("vm").Status.InstanceID
		w.secret("aliyun", otherID, otherSecret)
		w.waitForReason("vm", reasonWrongAccount)
		w.secret("aliyun", testID, testSecret+"\n") // echo adds a line break
		w.readySoon("vm")
		if w.onlyInstance().ID != id {
			t.Errorf("the operator created another instance")
		}
	})
}

// TestNoInstanceInAnotherAccount: the result of the first call is unknown, so the object stays bound to its account.
func TestNoInstanceInAnotherAccount(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse(ecssim.InternalError(), "CreateInstance")
		w.apply("vm")
		w.within(time.Minute, "a call", func() bool { return w.count("create") > 0 })
		w.secret("aliyun", otherID, otherSecret)
		w.waitForReason("vm", reasonWrongAccount)
		w.cloud.SetFault(nil)
		w.cloud.Forget()
		time.Sleep(time.Hour)
		w.noChanges()
		w.secret("aliyun", testID, testSecret)
		w.readySoon("vm")
		if i := w.onlyInstance(); i.AccountID != testAccount {
			t.Errorf("the instance is in account %s", i.AccountID)
		}
	})
}
