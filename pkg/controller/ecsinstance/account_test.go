// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// failCreates injects a fault into every create in an account.
func (w *world) failCreates(account string, fault ecssim.Fault) {
	w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		if call.Action == "CreateInstance" && call.AccountID == account {
			return fault
		}
		return ecssim.Fault{}
	})
}

// restart stops every operator, calls meanwhile while no operator runs, and starts another operator.
func (w *world) restart(meanwhile func()) {
	for _, l := range w.operators {
		l.end()
	}
	meanwhile()
	w.start()
}

// useOtherAccount puts an access key of the other account into the Secret. useFirstAccount puts back the key of the first account.
func (w *world) useOtherAccount() { w.secret("aliyun", otherID, otherSecret) }

func (w *world) useFirstAccount() { w.secret("aliyun", testID, testSecret) }

// instancesIn returns the number of instances of an account that are not released.
func (w *world) instancesIn(account string) int {
	n := 0
	for _, i := range w.alive("") {
		if i.AccountID == account {
			n++
		}
	}
	return n
}

// TestAccountOfAnUnansweredCreate: a call without an answer may have created an instance. A later refusal does not prove the contrary.
// The object stays bound to the account, also while it is deleted, and its condition says what to do. With a key of that account, the
// lookups find the instance, or prove after a while that it does not exist.
func TestAccountOfAnUnansweredCreate(t *testing.T) {
	for sentence, first := range ambiguous {
		for _, when := range []string{"at once", "after a refusal", "after a refusal, without a restart"} {
			for _, deleted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, deleted %t", sentence, when, deleted), func(t *testing.T) {
					t.Parallel()
					inWorld(t, func(w *world) { w.unansweredCreate(first, when, deleted) })
				})
			}
		}
	}
}

// unansweredCreate is one run of TestAccountOfAnUnansweredCreate.
func (w *world) unansweredCreate(first ecssim.Fault, when string, deleted bool) {
	calls := 0
	w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if call.Action != "CreateInstance" || call.AccountID != testAccount {
			return ecssim.Fault{}
		}
		if calls++; calls == 1 {
			return first
		}
		return answered(403, "Forbidden.RAM")
	})
	w.apply("vm")
	w.within(time.Minute, "a call", func() bool { return w.cloud.Count("CreateInstance") > 0 })
	if when != "at once" {
		time.Sleep(40 * time.Second)
	}
	if when == "after a refusal, without a restart" {
		w.useOtherAccount()
	} else {
		w.restart(w.useOtherAccount)
	}
	if deleted {
		w.delete("vm")
	}
	time.Sleep(10 * time.Second) // A sync that began with the first key ends in this time.
	ecs := w.get("vm")
	if ecs == nil {
		w.t.Fatalf("the object was released\n%s", w.describe())
	}
	if ecs.Status.InstanceID == "" {
		w.waitForAdvice("vm", reasonWrongAccount, true, "may have been made in account "+testAccount, "a key of another account can be used")
	} else {
		w.waitForAdvice("vm", reasonWrongAccount, true, "the instance is in account "+testAccount)
	}
	w.cloud.Forget()
	time.Sleep(30 * time.Minute)
	if w.get("vm") == nil || w.instancesIn(otherAccount) != 0 {
		w.t.Fatalf("the object was released, or another instance was created\n%s", w.describe())
	}
	w.noChanges()
	w.useFirstAccount()
	if deleted {
		w.within(20*time.Minute, "it to be gone", func() bool { return w.get("vm") == nil })
		time.Sleep(20 * time.Minute)
		if n := len(w.alive("")); n > 0 {
			w.t.Errorf("%d instances are left\n%s", n, w.describe())
		}
		return
	}
	w.within(time.Hour, "it to be settled", func() bool { return w.isReady("vm") || w.get("vm").Status.AccountID == "" })
	if !w.isReady("vm") {
		w.useOtherAccount()
		w.within(20*time.Minute, "it to be Ready", func() bool { return w.isReady("vm") })
	}
	if i := w.onlyInstance(); i.AccountID != w.get("vm").Status.AccountID {
		w.t.Errorf("the instance is in account %s\n%s", i.AccountID, w.describe())
	}
}

// TestDeathAroundARefusedCreate: the operator dies with each of its writes and calls in turn. When the next operator starts, the Secret
// has a key of the other account. Two instances never exist at once, and no instance outlives its object. After the Secret gets a key of
// the first account, the object becomes Ready or is deleted.
func TestDeathAroundARefusedCreate(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for what, fault := range map[string]ecssim.Fault{
			"refused":              answered(403, "Forbidden.RAM"),
			"made":                 {},
			"made, and shown late": {Invisible: time.Minute},
		} {
			for n := range 14 {
				t.Run(fmt.Sprintf("%s, deleted %t, %d", what, deleted, n+1), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, 1)
						defer w.finish()
						w.failCreates(testAccount, fault)
						w.apply("vm")
						w.start().die(n + 1)
						time.Sleep(30 * time.Minute) // The operator retries in this time, unless it is dead.
						w.restart(func() {
							w.useOtherAccount()
							if deleted {
								w.delete("vm")
							}
						})
						time.Sleep(20 * time.Minute)
						w.neverTwo()
						if w.instancesIn(testAccount) > 0 && (w.get("vm") == nil || w.instancesIn(otherAccount) > 0) {
							t.Fatalf("the instance in the first account has lost its object\n%s", w.describe())
						}
						if ecs := w.get("vm"); ecs != nil && ecs.Status.AccountID != otherAccount { // The object is bound to the first account.
							w.useFirstAccount()
							w.within(time.Hour, "it to be settled", func() bool {
								ecs := w.get("vm")
								return ecs == nil || w.isReady("vm") || ecs.Status.AccountID == ""
							})
							if !w.isReady("vm") {
								w.useOtherAccount()
							}
						}
						w.within(time.Hour, "it to be Ready or gone", func() bool { return w.isReady("vm") || w.get("vm") == nil })
						if want := map[bool]int{true: 0, false: 1}[deleted]; len(w.alive("")) != want || (w.get("vm") == nil) != deleted {
							t.Errorf("there are %d instances\n%s", len(w.alive("")), w.describe())
						}
						w.neverTwo()
					})
				})
			}
		}
	}
}

// TestRefusalThatWasNone: ECS answers with a refusal although it has created an instance. The operator looks for instances before it
// removes the finalizer. It finds this one and deletes it.
func TestRefusalThatWasNone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.once("CreateInstance", ecssim.Fault{After: ecssim.Error(403, "Forbidden.RAM", "no")})
		w.apply("vm")
		w.waitForReason("vm", reasonForbidden)
		time.Sleep(2 * time.Second)
		w.delete("vm")
		w.gone("vm")
		if n := len(w.cloud.Instances()); n != 1 || len(w.alive("")) != 0 {
			t.Errorf("%d instances were created, and these still exist: %v\n%s", n, w.alive(""), w.describe())
		}
	})
}

// TestBadCredentials: the operator keeps the object and its instance until the credentials are good again.
func TestBadCredentials(t *testing.T) {
	for sentence, test := range map[string]struct {
		id, secret, reason, says string
		calls                    int
	}{
		"the secret is another key's":         {testID, otherSecret, reasonRefused, "Secret aliyun", 14},
		"the access key is another account's": {otherID, otherSecret, reasonWrongAccount, testAccount, 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm")
				id := w.ready("vm").Status.InstanceID
				w.secret("aliyun", test.id, test.secret)
				w.waitForAdvice("vm", test.reason, true, test.says)
				time.Sleep(time.Minute)
				w.limitHour(test.calls, 0)
				w.delete("vm")
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

// TestDeletedSecret: the operator deletes with the content that it read last.
func TestDeletedSecret(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		w.ready("vm")
		w.deleteSecret("aliyun")
		w.waitForReason("vm", reasonSecretMissing)
		w.delete("vm")
		w.within(time.Minute, "both to be gone", func() bool { return w.get("vm") == nil && len(w.alive("")) == 0 })
	})
}
