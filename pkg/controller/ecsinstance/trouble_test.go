/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// refuse has ECS answer every call of some actions with an error, and all calls if none are
// named.
func (w *world) refuse(with *ecssim.Reply, actions ...string) {
	w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		if len(actions) == 0 || slices.Contains(actions, call.Action) {
			return ecssim.Fault{Before: with}
		}
		return ecssim.Fault{}
	})
}

// once has one thing go wrong with the first call of an action.
func (w *world) once(action string, fault ecssim.Fault) {
	w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if call.Action != action {
			return ecssim.Fault{}
		}
		action = ""
		return fault
	})
}

// writes is how often the operator wrote to the API server.
func (w *world) writes() int { return w.count("update status") + w.count("patch") }

// hour returns how many calls and writes an hour takes. An answer that shows nothing and the dry
// run that proves it are one.
func (w *world) hour() (calls, writes int) {
	w.cloud.Forget()
	before := w.writes()
	time.Sleep(time.Hour)
	for _, c := range w.cloud.Calls() {
		if c.Code != "DryRunOperation" {
			calls++
		}
	}
	return calls, w.writes() - before
}

// spins reports what takes more calls and writes in an hour than it may.
func (w *world) spins(calls, writes int) {
	w.t.Helper()
	c, n := w.hour()
	w.t.Logf("an hour took %d calls and %d writes", c, n)
	if c > calls || n > writes {
		w.t.Errorf("an hour took %d calls and %d writes, which may be %d and %d\n%s", c, n, calls, writes, w.describe())
	}
}

// mute reports calls that change something in ECS, since the calls were last forgotten.
func (w *world) mute() {
	w.t.Helper()
	for _, c := range w.cloud.Calls() {
		if !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get") {
			w.t.Errorf("ECS was asked to %s", c.Action)
		}
	}
}

// condition returns a condition of an object, one that is empty if it has not got it.
func (w *world) condition(name, kind string) metav1.Condition {
	if ecs := w.get(name); ecs != nil {
		if is := meta.FindStatusCondition(ecs.Status.Conditions, kind); is != nil {
			return *is
		}
	}
	return metav1.Condition{}
}

// advises waits until Ready is False for a reason, and reports a message that lacks any of
// these, or a Stalled that is not so.
func (w *world) advises(name, reason string, stalled bool, parts ...string) {
	w.t.Helper()
	is := w.says(name, reason)
	for _, part := range parts {
		if !strings.Contains(is.Message, part) {
			w.t.Errorf("%s does not say %q: %s", reason, part, is.Message)
		}
	}
	if s := w.condition(name, v1alpha1.ConditionStalled); (s.Status == metav1.ConditionTrue) != stalled {
		w.t.Errorf("with %s, Stalled is %s because of %s", reason, s.Status, s.Reason)
	}
}

// one reports unless there is exactly one instance, and returns it.
func (w *world) one() ecssim.Instance {
	w.t.Helper()
	alive := w.alive("")
	if len(alive) != 1 {
		w.t.Fatalf("there are %d instances\n%s", len(alive), w.describe())
	}
	return alive[0]
}

// soon waits until an object is Ready, which must be within seconds.
func (w *world) soon(name string) {
	w.t.Helper()
	w.within(time.Minute, name+" to be Ready soon", func() bool { return w.isReady(name) })
}

// events returns those of a kind and a reason.
func (w *world) told(prefix string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.events {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}

func setType(name string) func(*v1alpha1.ECSInstance) {
	return func(e *v1alpha1.ECSInstance) { e.Spec.InstanceType = name }
}

// TestWhatCanBeWrongAtFirst: everything that keeps an instance from being made is told of, with
// what to do about it, costs little for as long as it lasts, and ends soon after it is fixed.
func TestWhatCanBeWrongAtFirst(t *testing.T) {
	const goodType = "ecs.g6.large"
	fixType := func(w *world) { w.edit("vm", setType(goodType)) }
	fixSecret := func(w *world) { w.secret("aliyun", testID, testSecret) }
	fixCloud := func(w *world) { w.cloud.SetFault(nil) }
	for sentence, test := range map[string]struct {
		begin         func(*world)
		spec          func(*v1alpha1.ECSInstance)
		reason        string
		says          []string
		stalled       bool
		calls, writes int // in an hour; a create that is refused takes two writes: its account, and that it made nothing
		fix           func(*world)
		patience      time.Duration // until it is Ready then, a minute if it is 0
	}{
		"the access key is unknown": {
			begin:  func(w *world) { w.secret("aliyun", "LTAI5tNobodyHasThisKey", testSecret) },
			reason: reasonRefused, says: []string{"Secret aliyun", "there is no access key with this ID", "correct it"}, stalled: true,
			calls: 14, fix: fixSecret,
		},
		"the secret is another key's": {
			begin:  func(w *world) { w.secret("aliyun", testID, otherSecret) },
			reason: reasonRefused, says: []string{"Secret aliyun", "the secret is not that of the access key's ID"}, stalled: true,
			calls: 14, fix: fixSecret,
		},
		"the access key is disabled": {
			begin: func(w *world) {
				w.refuse(ecssim.Error(403, "Forbidden.AccessKeyDisabled", "The access key is disabled."))
			},
			reason: reasonRefused, says: []string{"Secret aliyun", "the access key is disabled"}, stalled: true,
			calls: 14, fix: func(w *world) {
				w.cloud.SetFault(nil)
				fixSecret(w)
			},
			patience: 6 * time.Minute, // The Secret is the same: no watch reports it.
		},
		"there is no such Secret": {
			begin:   func(w *world) { w.secrets.remove(key("aliyun")) },
			reason:  reasonSecretMissing,
			says:    []string{"There is no Secret aliyun", "create it", "accessKeyID", "accessKeySecret", "credentialsSecretRef"},
			stalled: true,
			fix:     fixSecret,
		},
		"the Secret lacks a key": {
			begin: func(w *world) {
				w.secrets.update(key("aliyun"), func(s *corev1.Secret) { delete(s.Data, v1alpha1.KeyAccessKeySecret) })
			},
			reason: reasonSecretMissing, says: []string{"Secret aliyun has no accessKeySecret"}, stalled: true, fix: fixSecret,
		},
		"the Secret has white space for a key": {
			begin:  func(w *world) { w.secret("aliyun", " \n", testSecret) },
			reason: reasonSecretMissing, says: []string{"Secret aliyun has no accessKeyID"}, stalled: true, fix: fixSecret,
		},
		"there is no Secret with the user data": {
			spec: func(e *v1alpha1.ECSInstance) {
				e.Spec.UserDataSecretRef = &v1alpha1.SecretKeyReference{Name: "script", Key: "userData"}
			},
			reason: reasonSecretMissing, says: []string{"userData", "Secret script", "userDataSecretRef"}, stalled: true,
			fix: func(w *world) { w.secrets.create(userData("script")) },
		},
		"there is no such region": {
			spec:   func(e *v1alpha1.ECSInstance) { e.Spec.RegionID = "cn-atlantis" },
			reason: reasonUnknownRegion, says: []string{"correct regionID"}, stalled: true,
			calls: 7, fix: func(w *world) { w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.RegionID = "cn-hangzhou" }) },
		},
		"there is no such image": {
			spec:   func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "missing" },
			reason: reasonRejected, says: []string{"correct the spec", "InvalidImageId.NotFound"}, stalled: true,
			calls: 14, writes: 14, fix: func(w *world) { w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "there.vhd" }) },
		},
		"the type is out of stock": {
			spec:   setType("ecs.nostock.large"),
			reason: reasonOutOfStock, says: []string{"tries again", "instanceType, zoneID or vSwitchID"},
			calls: 20, writes: 20, fix: fixType,
		},
		"the account has no money": {
			begin:  func(w *world) { w.refuse(ecssim.Error(403, "InsufficientBalance", "no"), "CreateInstance") },
			reason: reasonNoMoney, says: []string{"top it up"},
			calls: 8, writes: 8, fix: fixCloud, patience: 23 * time.Minute,
		},
		"the balance is not enough": {
			spec:   setType("ecs.balance.large"),
			reason: reasonNoMoney, says: []string{"top it up"},
			calls: 8, writes: 8, fix: fixType,
		},
		"the quota is used up": {
			spec:   setType("ecs.quota.large"),
			reason: reasonQuotaExceeded, says: []string{"have the quota raised"},
			calls: 8, writes: 8, fix: fixType,
		},
		"RAM does not allow it": {
			spec:   setType("ecs.forbidden.large"),
			reason: reasonForbidden, says: []string{"Secret aliyun", "grant it ecs:CreateInstance"}, stalled: true,
			calls: 14, writes: 14, fix: fixType,
		},
		"RAM does not even allow to look": {
			begin:  func(w *world) { w.refuse(ecssim.Error(403, "Forbidden.RAM", "no"), "DescribeInstances") },
			reason: reasonForbidden, says: []string{"grant it ecs:DescribeInstances"}, stalled: true,
			calls: 7, fix: fixCloud, patience: 12 * time.Minute,
		},
		"the clock is wrong": {
			begin: func(w *world) {
				w.cloud.SetFault(func(ecssim.Call) ecssim.Fault { return ecssim.Fault{Skew: time.Hour} })
			},
			reason: reasonClock, says: []string{"clock", "set it right"},
			calls: 2 * 67, fix: fixCloud, patience: 3 * time.Minute,
		},
		"ECS throttles all creates": {
			begin:  func(w *world) { w.refuse(ecssim.Throttled400(), "CreateInstance") },
			reason: reasonThrottled, says: []string{"throttles"},
			calls: 2 * 67, writes: 67, fix: fixCloud, patience: 3 * time.Minute,
		},
		"ECS throttles everything": {
			begin:  func(w *world) { w.refuse(ecssim.Throttled429()) },
			reason: reasonThrottled, says: []string{"throttles"},
			calls: 67, writes: 1, fix: fixCloud, patience: 3 * time.Minute, // Once, there is a code to report.
		},
		"ECS does not answer": {
			begin:  func(w *world) { w.refuse(ecssim.BadGateway()) },
			reason: reasonUnreachable, says: []string{"ECS did not answer"},
			calls: 267, fix: fixCloud,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if test.begin != nil {
					test.begin(w)
				}
				if test.spec == nil {
					test.spec = setType(goodType)
				}
				w.apply("vm", test.spec)
				w.advises("vm", test.reason, test.stalled, test.says...)
				time.Sleep(time.Minute)
				w.spins(test.calls, test.writes)
				if n := len(w.cloud.Instances()); n > 0 {
					t.Fatalf("%d instances were made", n)
				}
				w.says("vm", test.reason)
				test.fix(w)
				w.within(max(test.patience, time.Minute), "it to go on", func() bool { return w.isReady("vm") })
				if is := w.condition("vm", v1alpha1.ConditionStalled); is.Status != metav1.ConditionFalse {
					t.Errorf("it is Ready, and Stalled is %s", is.Status)
				}
				w.one()
			})
		})
	}
}

// TestTroubleIsToldOfOnce: as long as it is the same, neither events nor conditions go up and
// down with every attempt.
func TestTroubleIsToldOfOnce(t *testing.T) {
	for _, kind := range []string{"nostock", "forbidden", "balance"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm", setType("ecs."+kind+".large"))
				time.Sleep(time.Minute)
				was, stalled := w.condition("vm", glassback.ConditionReady), w.condition("vm", v1alpha1.ConditionStalled)
				degraded := w.condition("vm", glassback.ConditionDegraded)
				warnings, events := w.told("Warning"), w.told("")
				time.Sleep(2 * time.Hour)
				for _, c := range []metav1.Condition{was, stalled, degraded} {
					if is := w.condition("vm", c.Type); is != c {
						t.Errorf("%s went from %+v to %+v", c.Type, c, is)
					}
				}
				if n, m := w.told("Warning"), w.told(""); n != warnings || m != events {
					t.Errorf("there are %d more warnings, and %d more events in all", n-warnings, m-events)
				}
			})
		})
	}
}

// TestWhatKeepsAnInstanceFromBeingDeleted: the object stays, says why, asks now and then, and
// goes once that is fixed, in ECS or with deletionPolicy: Retain.
func TestWhatKeepsAnInstanceFromBeingDeleted(t *testing.T) {
	for sentence, test := range map[string]struct {
		spec   func(*v1alpha1.ECSInstance)
		before func(*ecssim.Instance) // in ECS
		reason string
		says   []string
		fix    func(*ecssim.Instance)
	}{
		"it is paid for": {
			spec: func(e *v1alpha1.ECSInstance) {
				e.Spec.InstanceChargeType, e.Spec.Period = v1alpha1.PrePaid, ptr.To(int32(1))
			},
			reason: reasonPaidFor, says: []string{"PrePaid", "unsubscribe", "deletionPolicy: Retain"},
			fix: func(i *ecssim.Instance) { i.Expires = time.Now() },
		},
		"it is protected": {
			before: func(i *ecssim.Instance) { i.DeletionProtection = true },
			reason: reasonDeletionProtected, says: []string{"deletion protection off", "deletionPolicy: Retain"},
			fix: func(i *ecssim.Instance) { i.DeletionProtection = false },
		},
		"it is locked": {
			before: func(i *ecssim.Instance) { i.Locks = []string{"security"} },
			reason: reasonInstanceLocked, says: []string{"InstanceLockedForSecurity", "deletionPolicy: Retain"},
			fix: func(i *ecssim.Instance) { i.Locks = nil },
		},
	} {
		for _, retain := range []bool{false, true} {
			name := sentence
			if retain {
				name += ", and is retained then"
			}
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.apply("vm", func(e *v1alpha1.ECSInstance) {
						if test.spec != nil {
							test.spec(e)
						}
					})
					id := w.ready("vm").Status.InstanceID
					if test.before != nil {
						w.cloud.Update(id, test.before)
					}
					w.instances.remove(key("vm"))
					w.advises("vm", test.reason, true, test.says...)
					time.Sleep(time.Minute)
					// Each time it is asked to delete it, and looked at it.
					w.spins(23+23+67, 0)
					if w.one().State != "Running" {
						t.Errorf("the instance is %s", w.one().State)
					}
					if retain {
						w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
						w.within(time.Minute, "it to be released", func() bool { return w.get("vm") == nil })
						w.released(w.one())
						return
					}
					w.cloud.Update(id, test.fix)
					w.within(5*time.Minute, "it to be gone", func() bool { return w.get("vm") == nil })
					if alive := w.alive(""); len(alive) > 0 {
						t.Errorf("there still are %+v", alive)
					}
				})
			})
		}
	}
}

// released reports an instance that has tags of the operator.
func (w *world) released(i ecssim.Instance) {
	w.t.Helper()
	for key := range i.Tags {
		if strings.HasPrefix(key, v1alpha1.TagPrefix) {
			w.t.Errorf("instance %s still has the tag %s", i.ID, key)
		}
	}
}

// TestInstanceThatIsLocked: nothing is tried that ECS would refuse, or it says why.
func TestInstanceThatIsLocked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerStopped })
		id := w.ready("vm").Status.InstanceID
		w.cloud.Update(id, func(i *ecssim.Instance) { i.Locks = []string{"financial"} })
		time.Sleep(2 * time.Minute)
		w.cloud.Forget()
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerRunning })
		w.advises("vm", reasonInstanceLocked, true, "locked", "financial", "console")
		w.spins(67, 0)
		w.mute()
		w.cloud.Update(id, func(i *ecssim.Instance) { i.Locks = nil })
		w.ready("vm")
		if state := w.one().State; state != "Running" {
			t.Errorf("it is %s", state)
		}
	})
}

// TestRenameOfALockedInstance: what is said is about the change, and not about deleting it.
func TestRenameOfALockedInstance(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		id := w.ready("vm").Status.InstanceID
		w.cloud.Update(id, func(i *ecssim.Instance) { i.Locks = []string{"security"} })
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.InstanceName = "renamed" })
		w.advises("vm", reasonInstanceLocked, true, "InstanceLockedForSecurity")
		if is := w.condition("vm", glassback.ConditionReady); strings.Contains(is.Message, "deletionPolicy") {
			t.Errorf("of a name that cannot be changed it says: %s", is.Message)
		}
		w.spins(23+23+67, 0)
		w.cloud.Update(id, func(i *ecssim.Instance) { i.Locks = nil })
		w.ready("vm")
	})
}

// TestCredentialsThatGoBad: of an instance that is there, nothing is given up.
func TestCredentialsThatGoBad(t *testing.T) {
	for sentence, test := range map[string]struct {
		spoil   func(*world)
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
			func(w *world) { w.secrets.remove(key("aliyun")) }, reasonSecretMissing, []string{"Secret aliyun"}, true, 0,
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
				test.spoil(w)
				w.advises("vm", test.reason, test.stalled, test.says...)
				time.Sleep(time.Minute)
				w.spins(test.calls, 0)
				w.mute()
				w.cloud.Forget()
				w.instances.remove(key("vm"))
				if test.reason == reasonSecretMissing { // What it had is good for this.
					w.within(time.Minute, "both to be gone", func() bool { return w.get("vm") == nil && len(w.alive("")) == 0 })
					return
				}
				w.cloud.Forget()
				time.Sleep(time.Hour)
				if ecs := w.get("vm"); ecs == nil || !slices.Contains(ecs.Finalizers, v1alpha1.Finalizer) || ecs.Status.InstanceID != id {
					t.Fatalf("the object has not stayed as it was\n%s", w.describe())
				}
				w.mute()
				w.one()
				w.secret("aliyun", testID, testSecret)
				w.within(time.Minute, "both to be gone", func() bool { return w.get("vm") == nil && len(w.alive("")) == 0 })
			})
		})
	}
}

// TestCredentialsThatAreMended: the Secret is watched, so it takes seconds.
func TestCredentialsThatAreMended(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		id := w.ready("vm").Status.InstanceID
		w.secret("aliyun", otherID, otherSecret)
		w.says("vm", reasonWrongAccount)
		w.secret("aliyun", testID, testSecret+"\n") // as echo makes them
		w.soon("vm")
		if w.one().ID != id {
			t.Errorf("it is another instance")
		}
	})
}

// TestNothingIsMadeWithAnotherAccount: not even if it is not known what came of the first call.
func TestNothingIsMadeWithAnotherAccount(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse(ecssim.InternalError(), "CreateInstance")
		w.apply("vm")
		w.within(time.Minute, "a call", func() bool { return w.count("create") > 0 })
		w.secret("aliyun", otherID, otherSecret)
		w.says("vm", reasonWrongAccount)
		w.cloud.SetFault(nil)
		w.cloud.Forget()
		time.Sleep(time.Hour)
		w.mute()
		w.secret("aliyun", testID, testSecret)
		w.soon("vm")
		if i := w.one(); i.AccountID != testAccount {
			t.Errorf("it is in account %s", i.AccountID)
		}
	})
}

// TestDeletionPolicyRetain: the instance stays, and is not the operator's any more.
func TestDeletionPolicyRetain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) {
			e.Spec.DeletionPolicy, e.Spec.Tags = v1alpha1.DeletionRetain, map[string]string{"team": "a"}
		})
		w.ready("vm")
		w.instances.remove(key("vm"))
		w.gone("vm")
		i := w.one()
		if w.released(i); i.State != "Running" || i.Tags["team"] != "a" {
			t.Errorf("it is %+v", i)
		}
	})
}

// TestInstanceThatIsGone: it is said, and another one is made only if that is wished for.
func TestInstanceThatIsGone(t *testing.T) {
	release := func(i *ecssim.Instance) { i.Released = time.Now() }
	t.Run("recreatePolicy is Never", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.apply("vm")
			id := w.ready("vm").Status.InstanceID
			w.cloud.Update(id, release)
			w.advises("vm", reasonInstanceGone, true, id, "recreatePolicy: Always", "delete this object")
			if state := w.get("vm").Status.State; state != stateGone {
				t.Errorf("state is %s", state)
			}
			w.spins(67, 0)
			w.mute()
			if alive := w.alive(""); len(alive) > 0 {
				t.Fatalf("there is %+v", alive)
			}
			w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.RecreatePolicy = v1alpha1.RecreateAlways })
			w.ready("vm")
			if w.one().ID == id {
				t.Error("it is the one that is gone")
			}
		})
	})
	t.Run("recreatePolicy is Never, and the object is deleted", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.apply("vm")
			w.cloud.Update(w.ready("vm").Status.InstanceID, release)
			w.says("vm", reasonInstanceGone)
			w.instances.remove(key("vm"))
			w.gone("vm")
		})
	})
	t.Run("recreatePolicy is Always", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.RecreatePolicy = v1alpha1.RecreateAlways })
			for range 3 {
				id := w.ready("vm").Status.InstanceID
				w.cloud.Update(id, release)
				w.within(10*time.Minute, "another one", func() bool { return w.isReady("vm") && w.get("vm").Status.InstanceID != id })
				w.one()
			}
			if attempt := w.get("vm").Status.Create.Attempt; attempt != 4 {
				t.Errorf("it is attempt %d", attempt)
			}
		})
	})
	t.Run("an answer that does not show it is not enough", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.RecreatePolicy = v1alpha1.RecreateAlways })
			id := w.ready("vm").Status.InstanceID
			empty := &ecssim.Reply{Status: 200, ContentType: "application/json", Body: `{"RequestId":"x","Instances":{"Instance":[]}}`}
			w.once("DescribeInstances", ecssim.Fault{After: empty})
			time.Sleep(10 * time.Minute)
			w.soon("vm")
			if w.one().ID != id || w.told("Warning") > 0 {
				t.Errorf("it was taken for gone: %v", w.events)
			}
		})
	})
}

// byHand makes an instance as a user does in the console, and waits until it is Stopped.
func (w *world) byHand(request aliyun.CreateRequest) string {
	w.t.Helper()
	cloud, err := aliyun.New(aliyun.Config{Endpoint: "http://ecs.example.com", Transport: w.cloud.Transport()})
	if err != nil {
		w.t.Fatal(err)
	}
	request.Type, request.ImageID = "ecs.g6.large", "other.vhd"
	id, err := cloud.Open(&aliyun.AccessKey{ID: testID, Secret: testSecret}, "cn-beijing").Create(w.t.Context(), request)
	if err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Minute)
	return id
}

func adopt(id string) func(*v1alpha1.ECSInstance) {
	return func(e *v1alpha1.ECSInstance) {
		e.Spec.AdoptInstanceID, e.Spec.ImageID, e.Spec.InstanceName = id, "", ""
	}
}

func TestAdoption(t *testing.T) {
	for sentence, test := range map[string]func(*world, string){
		"adopts, and keeps when it is deleted": func(w *world, id string) {
			w.apply("vm", adopt(id))
			ecs := w.ready("vm")
			i := w.one()
			if !ecs.Status.Adopted || ecs.Status.InstanceID != id ||
				i.Tags[v1alpha1.TagUID] != string(ecs.UID) || i.Tags["mine"] != "yes" || i.Name != "by-hand" {
				t.Errorf("it is %+v, and status %+v", i, ecs.Status)
			}
			w.instances.remove(key("vm"))
			w.gone("vm")
			i = w.one()
			if w.released(i); i.State != "Running" || i.Tags["mine"] != "yes" {
				t.Errorf("it is %+v", i)
			}
		},
		"adopts, and deletes if that is wished for": func(w *world, id string) {
			w.apply("vm", adopt(id), func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
			w.ready("vm")
			w.instances.remove(key("vm"))
			w.gone("vm")
			if alive := w.alive(""); len(alive) > 0 {
				t.Errorf("there still is %+v", alive)
			}
		},
		"what is another object's is refused, until that gives it up": func(w *world, id string) {
			w.apply("first", adopt(id))
			w.ready("first")
			w.apply("vm", adopt(id))
			w.advises("vm", reasonNotOwned, true, "default/first", "deletionPolicy: Retain")
			w.spins(67, 0)
			w.mute()
			w.instances.remove(key("first"))
			w.gone("first")
			w.within(11*time.Minute, "it to be adopted", func() bool { return w.isReady("vm") })
		},
		"what is another object's stays when it is not adopted by one that is deleted": func(w *world, id string) {
			w.apply("first", adopt(id))
			w.ready("first")
			w.apply("vm", adopt(id), func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
			w.says("vm", reasonNotOwned)
			stopped := func(i *ecssim.Instance) { i.State = "Stopped" }
			w.cloud.Update(id, stopped)
			time.Sleep(5 * time.Minute)
			if state := w.one().State; state != "Running" {
				t.Errorf("the rightful owner does not see to it any more: it is %s", state)
			}
			w.instances.remove(key("vm"))
			w.gone("vm")
			w.cloud.Update(id, stopped)
			time.Sleep(5 * time.Minute)
			if state := w.one().State; state != "Running" {
				t.Errorf("the rightful owner does not see to it any more, now that it is alone: it is %s", state)
			}
			w.soon("first")
		},
		"there is none": func(w *world, id string) {
			w.apply("vm", adopt("i-nobodyhasthisinstance0"))
			w.advises("vm", reasonNotFound, true, "i-nobodyhasthisinstance0", "cn-beijing", "adoptInstanceID or regionID")
			w.spins(74, 0)
			w.mute()
			w.edit("vm", adopt(id))
			w.soon("vm")
		},
		"there is none, and the object is deleted": func(w *world, _ string) {
			w.apply("vm", adopt("i-nobodyhasthisinstance0"))
			w.says("vm", reasonNotFound)
			w.instances.remove(key("vm"))
			w.within(time.Minute, "it to be gone", func() bool { return w.get("vm") == nil })
		},
		"what it stands for is told of though another one was refused": func(w *world, id string) {
			w.apply("first", adopt(id))
			w.ready("first")
			w.apply("vm", adopt(id))
			w.says("vm", reasonNotOwned)
			w.cloud.Update(id, func(i *ecssim.Instance) { i.Released = time.Now() })
			w.says("first", reasonInstanceGone)
			w.says("vm", reasonNotFound)
		},
		"two at once adopt the same, and one has it": func(w *world, id string) {
			w.apply("a", adopt(id))
			w.apply("b", adopt(id))
			time.Sleep(30 * time.Minute)
			has, not := "a", "b"
			if w.isReady("b") {
				has, not = "b", "a"
			}
			w.soon(has)
			w.says(not, reasonNotOwned)
			if w.one().Tags[v1alpha1.TagUID] != string(w.get(has).UID) {
				t.Errorf("%s is Ready with an instance of another owner", has)
			}
			w.instances.remove(key(not))
			w.gone(not)
			time.Sleep(10 * time.Minute)
			w.soon(has)
		},
		"one that is gone is not made again": func(w *world, id string) {
			w.apply("vm", adopt(id))
			w.ready("vm")
			w.cloud.Update(id, func(i *ecssim.Instance) { i.Released = time.Now() })
			w.advises("vm", reasonInstanceGone, true, "delete this object")
			time.Sleep(time.Hour)
			if len(w.alive("")) > 0 {
				t.Error("another one was made")
			}
			w.instances.remove(key("vm"))
			w.gone("vm")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				id := w.byHand(aliyun.CreateRequest{Name: "by-hand", Tags: map[string]string{"mine": "yes"}})
				test(w, id)
				if n := w.count("create"); n > 0 {
					t.Errorf("the operator made %d", n)
				}
			})
		})
	}
}

// TestChanges: what the spec says by now is brought about, and what another client has changed in the
// console is reverted.
func TestChanges(t *testing.T) {
	const large, xlarge = "ecs.g6.large", "ecs.g6.xlarge"
	type spec = *v1alpha1.ECSInstanceSpec
	for sentence, test := range map[string]struct {
		before  func(spec)
		edit    func(spec)
		console func(*ecssim.Instance)
		is      func(ecssim.Instance) bool
		stops   int    // how often it is stopped
		drift   string // a part of what Degraded says
	}{
		"powerState Stopped stops it": {
			edit: func(s spec) { s.PowerState = v1alpha1.PowerStopped },
			is:   func(i ecssim.Instance) bool { return i.State == "Stopped" }, stops: 1,
		},
		"powerState Running starts it": {
			before: func(s spec) { s.PowerState = v1alpha1.PowerStopped },
			edit:   func(s spec) { s.PowerState = v1alpha1.PowerRunning },
			is:     func(i ecssim.Instance) bool { return i.State == "Running" },
		},
		"one that was stopped in the console is started": {
			console: func(i *ecssim.Instance) { i.State = "Stopping" },
			is:      func(i ecssim.Instance) bool { return i.State == "Running" },
		},
		"one that was started in the console is stopped": {
			before:  func(s spec) { s.PowerState = v1alpha1.PowerStopped },
			console: func(i *ecssim.Instance) { i.State = "Starting" },
			is:      func(i ecssim.Instance) bool { return i.State == "Stopped" }, stops: 1,
		},
		"another type is only told of with Never": {
			before: func(s spec) { s.InstanceTypeChangePolicy = v1alpha1.TypeChangeNever },
			edit:   func(s spec) { s.InstanceType = xlarge },
			is:     func(i ecssim.Instance) bool { return i.Type == large && i.State == "Running" }, drift: "instanceTypeChangePolicy is Never",
		},
		"another type is only told of with WhenStopped while it runs": {
			edit: func(s spec) { s.InstanceType = xlarge },
			is:   func(i ecssim.Instance) bool { return i.Type == large && i.State == "Running" }, drift: "when powerState is Stopped",
		},
		"another type comes with WhenStopped when it is stopped": {
			edit: func(s spec) { s.InstanceType, s.PowerState = xlarge, v1alpha1.PowerStopped },
			is:   func(i ecssim.Instance) bool { return i.Type == xlarge && i.State == "Stopped" }, stops: 1,
		},
		"another type comes at once with Restart": {
			before: func(s spec) { s.InstanceTypeChangePolicy = v1alpha1.TypeChangeRestart },
			edit:   func(s spec) { s.InstanceType = xlarge },
			is:     func(i ecssim.Instance) bool { return i.Type == xlarge && i.State == "Running" }, stops: 1,
		},
		"another type of one that is paid for is only told of": {
			before: func(s spec) {
				s.InstanceTypeChangePolicy, s.InstanceChargeType, s.Period = v1alpha1.TypeChangeRestart, v1alpha1.PrePaid, ptr.To(int32(1))
			},
			edit: func(s spec) { s.InstanceType = xlarge },
			is:   func(i ecssim.Instance) bool { return i.Type == large && i.State == "Running" }, drift: "PrePaid",
		},
		"a type that was changed in the console is changed back with Restart": {
			before:  func(s spec) { s.InstanceTypeChangePolicy = v1alpha1.TypeChangeRestart },
			console: func(i *ecssim.Instance) { i.Type = xlarge },
			is:      func(i ecssim.Instance) bool { return i.Type == large && i.State == "Running" }, stops: 1,
		},
		"a name that was changed in the console is changed back": {
			console: func(i *ecssim.Instance) { i.Name = "other" },
			is:      func(i ecssim.Instance) bool { return i.Name == "ins-0702" },
		},
		"a name that the spec does not give is left alone": {
			before:  func(s spec) { s.InstanceName = "" },
			console: func(i *ecssim.Instance) { i.Name = "other" },
			is:      func(i ecssim.Instance) bool { return i.Name == "other" },
		},
		"security groups are all those of the spec": {
			before:  func(s spec) { s.SecurityGroupIDs = []string{"sg-b", "sg-a"} },
			console: func(i *ecssim.Instance) { i.SecurityGroupIDs = []string{"sg-other"} },
			is:      func(i ecssim.Instance) bool { return slices.Equal(i.SecurityGroupIDs, []string{"sg-a", "sg-b"}) },
		},
		"security groups that the spec does not give are left alone": {
			console: func(i *ecssim.Instance) { i.SecurityGroupIDs = []string{"sg-other"} },
			is:      func(i ecssim.Instance) bool { return slices.Equal(i.SecurityGroupIDs, []string{"sg-other"}) },
		},
		"tags of the spec are repaired, and others left alone": {
			before: func(s spec) { s.Tags = map[string]string{"team": "a", "stage": "test"} },
			console: func(i *ecssim.Instance) {
				delete(i.Tags, "stage")
				i.Tags["team"], i.Tags["foreign"] = "b", "yes"
			},
			is: func(i ecssim.Instance) bool {
				return i.Tags["team"] == "a" && i.Tags["stage"] == "test" && i.Tags["foreign"] == "yes" && len(i.Tags) == 5
			},
		},
		"a tag that leaves the spec leaves the instance": {
			before: func(s spec) { s.Tags = map[string]string{"team": "a", "stage": "test"} },
			edit:   func(s spec) { s.Tags = map[string]string{"team": "c"} },
			is:     func(i ecssim.Instance) bool { return i.Tags["team"] == "c" && len(i.Tags) == 3 },
		},
		"the tag that is for people is no matter": {
			console: func(i *ecssim.Instance) { delete(i.Tags, v1alpha1.TagObject) },
			is:      func(i ecssim.Instance) bool { return len(i.Tags) == 1 },
		},
		"what only another instance could repair is reported": {
			console: func(i *ecssim.Instance) { i.ImageID = "other.vhd" },
			is:      func(i ecssim.Instance) bool { return i.ImageID == "other.vhd" }, drift: `imageID is "other.vhd"`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm", func(e *v1alpha1.ECSInstance) {
					if test.before != nil {
						test.before(&e.Spec)
					}
				})
				id := w.ready("vm").Status.InstanceID
				time.Sleep(time.Minute)
				stops := w.count("stop")
				if test.edit != nil {
					w.edit("vm", func(e *v1alpha1.ECSInstance) { test.edit(&e.Spec) })
				} else {
					w.cloud.Update(id, test.console)
				}
				time.Sleep(5 * time.Minute)
				w.soon("vm")
				if i := w.one(); i.ID != id || !test.is(i) {
					t.Errorf("it is %+v\n%s", i, w.describe())
				}
				if n := w.count("stop") - stops; n != test.stops {
					t.Errorf("it was stopped %d times", n)
				}
				degraded := w.condition("vm", glassback.ConditionDegraded)
				if is := degraded.Status == metav1.ConditionTrue; is != (test.drift != "") || !strings.Contains(degraded.Message, test.drift) {
					t.Errorf("Degraded is %s: %s", degraded.Status, degraded.Message)
				}
				w.cloud.Forget()
				w.spins(67, 0)
				w.mute()
			})
		})
	}
}

// TestTagThatIsTakenOff: what is not tagged as this object's is not touched, whatever the spec
// says, and not deleted with it.
func TestTagThatIsTakenOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		ecs := w.ready("vm")
		w.cloud.Update(ecs.Status.InstanceID, func(i *ecssim.Instance) { delete(i.Tags, v1alpha1.TagUID) })
		w.advises("vm", reasonNotOwned, true, v1alpha1.TagUID, string(ecs.UID), "deletionPolicy: Retain")
		w.cloud.Forget()
		w.edit("vm", func(e *v1alpha1.ECSInstance) {
			e.Spec.InstanceName, e.Spec.PowerState, e.Spec.Tags = "renamed", v1alpha1.PowerStopped, map[string]string{"a": "b"}
		})
		time.Sleep(10 * time.Minute)
		w.spins(67, 0)
		w.instances.remove(key("vm"))
		time.Sleep(time.Hour)
		w.mute()
		if w.get("vm") == nil || w.one().State != "Running" {
			t.Fatalf("it was given up\n%s", w.describe())
		}
		w.cloud.Update(ecs.Status.InstanceID, func(i *ecssim.Instance) { i.Tags[v1alpha1.TagUID] = string(ecs.UID) })
		w.within(5*time.Minute, "both to be gone", func() bool { return w.get("vm") == nil && len(w.alive("")) == 0 })
	})
}

// TestPaused: of an object that is paused, nothing at all is done.
func TestPaused(t *testing.T) {
	inWorld(t, func(w *world) {
		pause := func(e *v1alpha1.ECSInstance) {
			e.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
		}
		resume := func(e *v1alpha1.ECSInstance) { e.Annotations = nil }
		w.apply("vm", pause)
		w.spins(0, 0)
		w.edit("vm", resume)
		w.ready("vm")
		w.edit("vm", pause)
		time.Sleep(time.Minute)
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerStopped })
		w.spins(0, 0)
		w.instances.remove(key("vm"))
		w.spins(0, 0)
		w.edit("vm", resume)
		w.gone("vm")
		if alive := w.alive(""); len(alive) > 0 {
			t.Errorf("there still is %+v", alive)
		}
	})
}

// ambiguous is what can become of a create that was not answered.
var ambiguous = map[string]ecssim.Fault{
	"the answer is lost":                            {LoseAnswer: true},
	"the answer is lost, and it does not show":      {LoseAnswer: true, Invisible: 50 * time.Second},
	"the request is lost":                           {LoseRequest: true},
	"there is no answer":                            {Hang: true},
	"there is no answer to what was done":           {Hang: true, LoseAnswer: true, Invisible: 30 * time.Second},
	"a proxy answers":                               {After: ecssim.BadGateway(), Invisible: 20 * time.Second},
	"the answer is empty":                           {After: ecssim.EmptyOK()},
	"the answer makes no sense":                     {After: ecssim.NumericCode(), Invisible: time.Minute},
	"ECS says that it failed, and has done it":      {After: ecssim.InternalError(), Invisible: time.Minute},
	"the token is poisoned":                         {PoisonToken: true},
	"it is still being carried out":                 {LoseAnswer: true, InFlight: time.Minute, Invisible: time.Minute},
	"it is gone before anybody has seen it":         {LoseAnswer: true, Invisible: time.Hour, Vanish: 20 * time.Second},
	"it shows late, and is gone after some minutes": {Invisible: 100 * time.Second, Vanish: 5 * time.Minute},
	"it is gone while it is pending":                {Vanish: 3 * time.Minute},
}

// TestCreateWithoutAnAnswer: whatever becomes of it, and whatever is edited meanwhile, there is
// one instance in the end, and never two at the same time; and none if it is deleted.
func TestCreateWithoutAnAnswer(t *testing.T) {
	edits := map[string]func(*v1alpha1.ECSInstance){
		"nothing is edited":     nil,
		"the type is edited":    setType("ecs.g6.xlarge"),
		"the region is edited":  func(e *v1alpha1.ECSInstance) { e.Spec.RegionID = "cn-hangzhou" },
		"the object is deleted": nil,
	}
	for sentence, fault := range ambiguous {
		for what, edit := range edits {
			t.Run(sentence+", "+what, func(t *testing.T) {
				t.Parallel()
				inWorld(t, func(w *world) {
					w.once("CreateInstance", fault)
					w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.InstanceTypeChangePolicy = v1alpha1.TypeChangeRestart })
					w.within(2*time.Minute, "a call", func() bool { return w.cloud.Count("CreateInstance") > 0 })
					if edit != nil {
						w.edit("vm", edit)
					}
					if what == "the object is deleted" {
						w.instances.remove(key("vm"))
						w.gone("vm")
						time.Sleep(time.Hour)
						if alive := w.alive(""); len(alive) > 0 {
							t.Errorf("there is %+v\n%s", alive, w.describe())
						}
						return
					}
					w.within(30*time.Minute, "it to be Ready", func() bool { return w.isReady("vm") })
					time.Sleep(time.Hour)
					w.soon("vm")
					ecs, i := w.get("vm"), w.one()
					if ecs.Status.InstanceID != i.ID || ecs.Spec.InstanceType != i.Type || ecs.Status.Create.RegionID != i.RegionID {
						t.Errorf("it is %+v, and status %+v", i, ecs.Status)
					}
					w.neverTwo()
				})
			})
		}
	}
}

// neverTwo reports instances of one object that were there at the same time.
func (w *world) neverTwo() {
	w.t.Helper()
	all := w.cloud.Instances()
	for n, b := range all {
		for _, a := range all[:n] {
			if a.Tags[v1alpha1.TagUID] == b.Tags[v1alpha1.TagUID] && (a.Released.IsZero() || a.Released.After(b.Created)) {
				w.t.Errorf("%s and %s were there at the same time\n%s", a.ID, b.ID, w.describe())
			}
		}
	}
}

// TestSameInstanceAfterTheAnswerWasLost: it is found by its tag, without another create.
func TestSameInstanceAfterTheAnswerWasLost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.once("CreateInstance", ecssim.Fault{LoseAnswer: true})
		w.apply("vm")
		ecs := w.ready("vm")
		if n := w.cloud.Count("CreateInstance"); n != 1 || ecs.Status.Create.Attempt != 1 {
			t.Errorf("ECS was asked %d times, and it is attempt %d", n, ecs.Status.Create.Attempt)
		}
		if w.one().ID != ecs.Status.InstanceID {
			t.Errorf("it is not %s", ecs.Status.InstanceID)
		}
	})
}

// TestCreatesThatAlwaysVanish: it is tried again and again, and not more often than one
// vanishes.
func TestCreatesThatAlwaysVanish(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "vanishing.vhd" })
		time.Sleep(3 * time.Hour)
		if n := w.cloud.Count("CreateInstance"); n < 12 || n > 18 {
			t.Errorf("in three hours, %d were made, each of which was there for ten minutes", n)
		}
		w.neverTwo()
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "good.vhd" })
		w.within(30*time.Minute, "it to be Ready", func() bool { return w.isReady("vm") })
		w.one()
	})
}

// TestSurplusInstances: of two with the object's tag, the operator does not say which is right.
func TestSurplusInstances(t *testing.T) {
	copied := func(w *world) string {
		return w.byHand(aliyun.CreateRequest{Name: "copied", Tags: map[string]string{v1alpha1.TagUID: string(w.get("vm").UID)}})
	}
	t.Run("before it is known which one it is", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.secrets.remove(key("aliyun"))
			w.apply("vm")
			w.says("vm", reasonSecretMissing)
			a, b := copied(w), copied(w)
			w.secret("aliyun", testID, testSecret)
			w.advises("vm", reasonSurplus, true, a, b, v1alpha1.TagUID, "take the tag off")
			w.cloud.Forget()
			w.spins(23, 0)
			w.mute()
			w.cloud.Update(b, func(i *ecssim.Instance) { i.Tags = nil })
			w.ready("vm")
			if ecs := w.get("vm"); ecs.Status.InstanceID != a || len(w.alive("")) != 2 {
				t.Errorf("it is %s and not %s", ecs.Status.InstanceID, a)
			}
		})
	})
	t.Run("when it is deleted", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.apply("vm")
			id := w.ready("vm").Status.InstanceID
			b := copied(w)
			w.instances.remove(key("vm"))
			w.advises("vm", reasonSurplus, true, b, v1alpha1.TagUID, "take the tag off")
			w.cloud.Forget()
			w.spins(23+23+67, 0)
			w.mute()
			if i := w.one(); i.ID != b {
				t.Errorf("%s is left, and not %s", id, b)
			}
			w.cloud.Update(b, func(i *ecssim.Instance) { i.Tags = nil })
			w.within(5*time.Minute, "it to be gone", func() bool { return w.get("vm") == nil })
			w.one()
		})
	})
}

// TestDeathAfterEveryStep: the operator dies of each of its writes and calls in turn, whose
// answer it never gets, while it makes an instance and while it deletes it.
func TestDeathAfterEveryStep(t *testing.T) {
	for n := range 30 {
		t.Run(strconv.Itoa(n+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.finish()
				live := func(until string, done func() bool) {
					l := w.start()
					l.die(n + 1)
					time.Sleep(time.Minute)
					l.end()
					w.start()
					w.within(15*time.Minute, until, done)
				}
				w.apply("vm", func(e *v1alpha1.ECSInstance) {
					e.Spec.Tags, e.Spec.SecurityGroupIDs = map[string]string{"team": "a"}, []string{"sg-a", "sg-b"}
				})
				live("it to be Ready", func() bool { return w.isReady("vm") })
				w.one()
				if all := w.cloud.Instances(); len(all) > 1 {
					t.Errorf("%d instances were made", len(all))
				}
				for _, l := range w.lives {
					l.end()
				}
				w.instances.remove(key("vm"))
				live("it to be gone", func() bool { return w.get("vm") == nil })
				if alive := w.alive(""); len(alive) > 0 {
					t.Errorf("there still is %+v", alive)
				}
			})
		})
	}
}

// TestCacheThatIsBehind: a write of another owner that the cache does not show yet keeps the
// operator from asking for an instance that no object wants any more.
func TestCacheThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.finish()
		var late atomic.Bool
		w.instances.behind = func(string) time.Duration {
			if late.Load() {
				return 2 * time.Minute
			}
			return 0
		}
		w.start()
		w.secrets.remove(key("aliyun"))
		w.apply("vm")
		w.says("vm", reasonSecretMissing)
		time.Sleep(time.Minute)
		late.Store(true)
		w.edit("vm", setType("ecs.g6.xlarge"))
		time.Sleep(time.Second)
		late.Store(false)
		w.secret("aliyun", testID, testSecret)
		time.Sleep(100 * time.Second)
		if w.count("find") == 0 || w.count("update status") < 2 {
			t.Errorf("it did not even try\n%s", w.describe())
		}
		if n := w.count("create"); n > 0 {
			t.Errorf("by an older version of the object, an instance was made")
		}
		w.ready("vm")
		if i := w.one(); i.Type != "ecs.g6.xlarge" || w.count("create") != 1 {
			t.Errorf("it is %+v, after %d calls", i, w.count("create"))
		}
	})
}

// TestObjectThatIsTornAway: another client takes the finalizer off. What no object refers to any more is
// neither looked at nor touched.
func TestObjectThatIsTornAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		w.ready("vm")
		w.instances.update(key("vm"), func(e *v1alpha1.ECSInstance) {
			e.Finalizers, e.DeletionTimestamp = nil, ptr.To(metav1.Now())
		})
		time.Sleep(time.Minute)
		w.spins(0, 0)
		w.one()
	})
}

// TestDeletionThatSomebodyElseHolds: once the instance is gone, nothing more is done.
func TestDeletionThatSomebodyElseHolds(t *testing.T) {
	const other = "example.com/backup"
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Finalizers = []string{other} })
		w.ready("vm")
		w.instances.remove(key("vm"))
		w.within(time.Minute, "the operator's finalizer to be off", func() bool {
			return slices.Equal(w.get("vm").Finalizers, []string{other})
		})
		if alive := w.alive(""); len(alive) > 0 {
			t.Errorf("there still is %+v", alive)
		}
		time.Sleep(time.Minute)
		w.spins(0, 0)
	})
}

// TestDeletedBeforeAnythingWasMade: nothing is, and ECS is not even asked.
func TestDeletedBeforeAnythingWasMade(t *testing.T) {
	inWorld(t, func(w *world) {
		w.secret("aliyun", testID, otherSecret)
		w.apply("vm")
		w.says("vm", reasonRefused)
		w.cloud.Forget()
		w.instances.remove(key("vm"))
		w.within(10*time.Second, "it to be gone", func() bool { return w.get("vm") == nil })
		if n := len(w.cloud.Calls()); n > 1 {
			t.Errorf("it took %d calls", n)
		}
	})
}

// TestDeletedAfterAClearNo: ECS has said that it has made nothing, so nothing is waited for.
func TestDeletedAfterAClearNo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", setType("ecs.nostock.large"))
		w.says("vm", reasonOutOfStock)
		w.instances.remove(key("vm"))
		w.within(10*time.Second, "it to be gone", func() bool { return w.get("vm") == nil })
	})
}

// TestSameNameAgain: the next object of a name has nothing to do with the one before.
func TestSameNameAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		first := w.ready("vm")
		w.instances.update(key("vm"), func(e *v1alpha1.ECSInstance) {
			e.Finalizers, e.DeletionTimestamp = nil, ptr.To(metav1.Now())
		})
		w.apply("vm")
		second := w.ready("vm")
		if first.UID == second.UID || first.Status.InstanceID == second.Status.InstanceID {
			t.Errorf("%s has instance %s, and %s has %s", first.UID, first.Status.InstanceID, second.UID, second.Status.InstanceID)
		}
		if n := len(w.alive("")); n != 2 {
			t.Errorf("there are %d instances", n)
		}
	})
}

// TestSpecThatIsInvalid: what the webhook would have refused is told of, and nothing done.
func TestSpecThatIsInvalid(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "" })
		w.advises("vm", reasonInvalidSpec, true, "spec.imageID")
		w.spins(0, 0)
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "there.vhd" })
		w.soon("vm")
	})
}

// TestChangeWithoutEffect: what ECS agrees to, and does not do, is asked for again ever more
// rarely, and told of.
func TestChangeWithoutEffect(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		w.ready("vm")
		w.refuse(&ecssim.Reply{Status: 200, ContentType: "application/json", Body: `{"RequestId":"x"}`}, "StopInstance")
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerStopped })
		w.says("vm", reasonNoEffect)
		time.Sleep(20 * time.Minute)
		before := w.count("stop")
		c, n := w.hour()
		if stops := w.count("stop") - before; stops > 13 || n > 13 || c > 13+900 {
			t.Errorf("in an hour it was stopped %d times, with %d calls and %d writes", stops, c, n)
		}
		w.cloud.SetFault(nil)
		w.within(6*time.Minute, "it to be Ready", func() bool { return w.isReady("vm") })
	})
}
