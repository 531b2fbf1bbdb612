// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// TestWhatCanBeWrongAtFirst: for each problem that prevents a create, the condition says what to do. The problem costs few calls while it
// lasts, and disappears soon after it is fixed.
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
			begin:   func(w *world) { w.deleteSecret("aliyun") },
			reason:  reasonSecretMissing,
			says:    []string{"There is no Secret aliyun", "create it", "accessKeyID", "accessKeySecret", "credentialsSecretRef"},
			stalled: true,
			fix:     fixSecret,
		},
		"the Secret lacks a key": {
			begin: func(w *world) {
				w.editSecret("aliyun", func(s *corev1.Secret) { delete(s.Data, v1alpha1.KeyAccessKeySecret) })
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
			fix: func(w *world) { w.api.Put(userData("script")) },
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
				w.waitForAdvice("vm", test.reason, test.stalled, test.says...)
				time.Sleep(time.Minute)
				w.limitHour(test.calls, test.writes)
				if n := len(w.cloud.Instances()); n > 0 {
					t.Fatalf("%d instances were made", n)
				}
				w.waitForReason("vm", test.reason)
				test.fix(w)
				w.within(max(test.patience, time.Minute), "it to go on", func() bool { return w.isReady("vm") })
				if is := w.condition("vm", v1alpha1.ConditionStalled); is.Status != metav1.ConditionFalse {
					t.Errorf("it is Ready, and Stalled is %s", is.Status)
				}
				w.onlyInstance()
			})
		})
	}
}

// TestTroubleIsToldOfOnce: as long as it is the same, neither events nor conditions go up and down with every attempt.
func TestTroubleIsToldOfOnce(t *testing.T) {
	for _, kind := range []string{"nostock", "forbidden", "balance"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm", setType("ecs."+kind+".large"))
				time.Sleep(time.Minute)
				was, stalled := w.condition("vm", glassback.ConditionReady), w.condition("vm", v1alpha1.ConditionStalled)
				degraded := w.condition("vm", glassback.ConditionDegraded)
				warnings, events := w.countEvents("Warning"), w.countEvents("")
				time.Sleep(2 * time.Hour)
				for _, c := range []metav1.Condition{was, stalled, degraded} {
					if is := w.condition("vm", c.Type); is != c {
						t.Errorf("%s went from %+v to %+v", c.Type, c, is)
					}
				}
				if n, m := w.countEvents("Warning"), w.countEvents(""); n != warnings || m != events {
					t.Errorf("there are %d more warnings, and %d more events in all", n-warnings, m-events)
				}
			})
		})
	}
}

// TestSpecThatIsInvalid: the operator reports a spec that the webhook would have rejected, and does nothing.
func TestSpecThatIsInvalid(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "" })
		w.waitForAdvice("vm", reasonInvalidSpec, true, "spec.imageID")
		w.limitHour(0, 0)
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "there.vhd" })
		w.readySoon("vm")
	})
}

// ambiguous are the possible results of a create without an answer.
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
						w.delete("vm")
						w.gone("vm")
						time.Sleep(time.Hour)
						if alive := w.alive(""); len(alive) > 0 {
							t.Errorf("there is %+v\n%s", alive, w.describe())
						}
						return
					}
					w.within(30*time.Minute, "it to be Ready", func() bool { return w.isReady("vm") })
					time.Sleep(time.Hour)
					w.readySoon("vm")
					ecs, i := w.get("vm"), w.onlyInstance()
					if ecs.Status.InstanceID != i.ID || ecs.Spec.InstanceType != i.Type || ecs.Status.Create.RegionID != i.RegionID {
						t.Errorf("it is %+v, and status %+v", i, ecs.Status)
					}
					w.neverTwo()
				})
			})
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
		if w.onlyInstance().ID != ecs.Status.InstanceID {
			t.Errorf("it is not %s", ecs.Status.InstanceID)
		}
	})
}

// TestCreatesThatAlwaysVanish: it is tried again and again, and not more often than one vanishes.
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
		w.onlyInstance()
	})
}

// TestSurplusInstances: of two with the object's tag, the operator does not say which is right.
func TestSurplusInstances(t *testing.T) {
	copied := func(w *world) string {
		return w.byHand(aliyun.CreateRequest{Name: "copied", Tags: map[string]string{v1alpha1.TagUID: string(w.get("vm").UID)}})
	}
	t.Run("before it is known which one it is", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.deleteSecret("aliyun")
			w.apply("vm")
			w.waitForReason("vm", reasonSecretMissing)
			a, b := copied(w), copied(w)
			w.secret("aliyun", testID, testSecret)
			w.waitForAdvice("vm", reasonSurplus, true, a, b, v1alpha1.TagUID, "take the tag off")
			w.cloud.Forget()
			w.limitHour(23, 0)
			w.noChanges()
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
			w.delete("vm")
			w.waitForAdvice("vm", reasonSurplus, true, b, v1alpha1.TagUID, "take the tag off")
			w.cloud.Forget()
			w.limitHour(23+23+67, 0)
			w.noChanges()
			if i := w.onlyInstance(); i.ID != b {
				t.Errorf("%s is left, and not %s", id, b)
			}
			w.cloud.Update(b, func(i *ecssim.Instance) { i.Tags = nil })
			w.within(5*time.Minute, "it to be gone", func() bool { return w.get("vm") == nil })
			w.onlyInstance()
		})
	})
}

// TestInstanceThatIsGone: the operator reports it, and creates another instance only with recreatePolicy: Always.
func TestInstanceThatIsGone(t *testing.T) {
	release := func(i *ecssim.Instance) { i.Released = time.Now() }
	t.Run("recreatePolicy is Never", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.apply("vm")
			id := w.ready("vm").Status.InstanceID
			w.cloud.Update(id, release)
			w.waitForAdvice("vm", reasonInstanceGone, true, id, "recreatePolicy: Always", "delete this object")
			if state := w.get("vm").Status.State; state != stateGone {
				t.Errorf("state is %s", state)
			}
			w.limitHour(67, 0)
			w.noChanges()
			if alive := w.alive(""); len(alive) > 0 {
				t.Fatalf("there is %+v", alive)
			}
			w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.RecreatePolicy = v1alpha1.RecreateAlways })
			w.ready("vm")
			if w.onlyInstance().ID == id {
				t.Error("it is the one that is gone")
			}
		})
	})
	t.Run("recreatePolicy is Never, and the object is deleted", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.apply("vm")
			w.cloud.Update(w.ready("vm").Status.InstanceID, release)
			w.waitForReason("vm", reasonInstanceGone)
			w.delete("vm")
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
				w.onlyInstance()
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
			w.readySoon("vm")
			if w.onlyInstance().ID != id || w.countEvents("Warning") > 0 {
				t.Errorf("it was taken for gone: %v", w.events)
			}
		})
	})
}

// TestTheTimeOfACallIsThatOfTheAPIServer: decide must not see another time before the write than after it.
func TestTheTimeOfACallIsThatOfTheAPIServer(t *testing.T) {
	at := &v1alpha1.Create{RequestedTime: metav1.NewTime(t0)}
	for sentence, test := range map[string]struct {
		now  time.Time
		last *v1alpha1.Create
		want time.Time
	}{
		"the first call":                {t0.Add(1900 * time.Millisecond), nil, t0.Add(time.Second)},
		"a call in the same second":     {t0.Add(900 * time.Millisecond), at, t0.Add(time.Second)},
		"a call after the last second":  {t0.Add(2500 * time.Millisecond), at, t0.Add(2 * time.Second)},
		"the clock was set back a year": {t0.AddDate(-1, 0, 0), at, t0.Add(time.Second)},
	} {
		got := requestedAt(test.now, test.last)
		if stored := got.Rfc3339Copy(); !got.Time.Equal(test.want) || !stored.Time.Equal(got.Time) {
			t.Errorf("%s: %s, which the API server stores as %s; want %s", sentence, got.Time, stored.Time, test.want)
		}
	}
}
