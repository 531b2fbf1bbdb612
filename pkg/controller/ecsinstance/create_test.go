// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/must"
)

// TestWhatCanBeWrongAtFirst: for each problem that prevents a create, the condition says what to do. The problem costs few calls while it
// lasts, in which neither events nor conditions go up and down with every attempt. It disappears soon after it is fixed.
func TestWhatCanBeWrongAtFirst(t *testing.T) {
	const goodType = "ecs.g6.large"
	fixType := func(w *world) { w.edit("vm", setType(goodType)) }
	fixSecret := func(w *world) { w.secret("aliyun", testID, testSecret+"\n") } // echo adds a line break
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
			calls: 14, fix: fixSecret, patience: 75 * time.Second,
		},
		"there is no such Secret": {
			begin:  func(w *world) { w.deleteSecret("aliyun") },
			reason: reasonSecretMissing, says: []string{"There is no Secret aliyun", "create it", "credentialsSecretRef"}, stalled: true,
			fix: fixSecret,
		},
		"there is no Secret with the user data": {
			spec: func(e *v1alpha1.ECSInstance) {
				e.Spec.UserDataSecretRef = &v1alpha1.SecretKeyReference{Name: "script", Key: "userData"}
			},
			reason: reasonSecretMissing, says: []string{"userData", "Secret script", "userDataSecretRef"}, stalled: true,
			fix: func(w *world) { w.api.Put(userData("script")) },
		},
		"the spec is one that the webhook would have rejected": {
			spec:   func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "" },
			reason: reasonInvalidSpec, says: []string{"spec.imageID"}, stalled: true,
			fix: func(w *world) { w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.ImageID = "there.vhd" }) },
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
				was, events := w.get("vm").Status.Conditions, w.countEvents("")
				w.limitHour(test.calls, test.writes)
				if is := w.get("vm").Status.Conditions; !slices.Equal(is, was) || w.countEvents("") != events {
					t.Errorf("there are %d more events, and the conditions went from %+v to %+v", w.countEvents("")-events, was, is)
				}
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

// byHand makes an instance as a user does in the console, and waits until it is Stopped.
func (w *world) byHand(request aliyun.CreateRequest) string {
	w.t.Helper()
	cloud, err := aliyun.New(aliyun.Config{Endpoint: "http://ecs.example.com", Transport: w.cloud.Transport()})
	must.Succeed(w.t, err)
	request.Type, request.ImageID = "ecs.g6.large", "other.vhd"
	id, err := cloud.Open(&aliyun.AccessKey{ID: testID, Secret: testSecret}, "cn-beijing").Create(w.t.Context(), request)
	must.Succeed(w.t, err)
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
		"what is another object's is left to it, until that gives it up": func(w *world, id string) {
			stopped := func(i *ecssim.Instance) { i.State = "Stopped" }
			w.apply("first", adopt(id))
			w.ready("first")
			w.apply("vm", adopt(id), func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
			w.waitForAdvice("vm", reasonNotOwned, true, "default/first", "deletionPolicy: Retain")
			w.limitHour(67, 0)
			w.noChanges()
			w.cloud.Update(id, stopped)
			time.Sleep(5 * time.Minute)
			if state := w.onlyInstance().State; state != "Running" {
				t.Errorf("the rightful owner does not see to it any more: it is %s", state)
			}
			w.delete("vm")
			w.gone("vm")
			w.cloud.Update(id, stopped)
			w.within(5*time.Minute, "the owner to start it", func() bool { return w.onlyInstance().State == "Running" })
			w.readySoon("first")
			w.apply("vm", adopt(id))
			w.waitForReason("vm", reasonNotOwned)
			w.delete("first")
			w.gone("first")
			w.within(11*time.Minute, "it to be adopted", func() bool { return w.isReady("vm") })
		},
		"two at once adopt the same, and one has it": func(w *world, id string) {
			w.apply("a", adopt(id))
			w.apply("b", adopt(id))
			time.Sleep(30 * time.Minute)
			has, not := "a", "b"
			if w.isReady("b") {
				has, not = "b", "a"
			}
			w.readySoon(has)
			w.waitForReason(not, reasonNotOwned)
			if w.onlyInstance().Tags[v1alpha1.TagUID] != string(w.get(has).UID) {
				t.Errorf("%s is Ready with an instance of another owner", has)
			}
			w.delete(not)
			w.gone(not)
			time.Sleep(10 * time.Minute)
			w.readySoon(has)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				id := w.byHand(aliyun.CreateRequest{Name: "by-hand", Tags: map[string]string{"mine": "yes"}})
				test(w, id)
				if n := w.count("CreateInstance"); n > 0 {
					t.Errorf("the operator made %d", n)
				}
			})
		})
	}
}
