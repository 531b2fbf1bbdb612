// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// TestChanges: the operator applies changes of the spec, and reverts changes that another client made in the console. It stops the instance
// only for another type. TestRandomWorlds makes the same changes in any order.
func TestChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) {
			e.Spec.Tags = map[string]string{"team": "a", "stage": "test"}
			e.Spec.InstanceTypeChangePolicy, e.Spec.SecurityGroupIDs = v1alpha1.TypeChangeRestart, []string{"sg-b", "sg-a"}
		})
		id := w.ready("vm").Status.InstanceID
		for stops, change := range []func(){ // The first takes no stop, and the second one.
			func() {
				w.cloud.Update(id, func(i *ecssim.Instance) {
					i.State, i.Name, i.SecurityGroupIDs = "Stopped", "other", []string{"sg-other"}
					i.Tags = map[string]string{"team": "b", "foreign": "yes", v1alpha1.TagUID: i.Tags[v1alpha1.TagUID]}
				})
			},
			func() {
				w.edit("vm", func(e *v1alpha1.ECSInstance) {
					e.Spec.InstanceType, e.Spec.InstanceName, e.Spec.SecurityGroupIDs = "ecs.g6.xlarge", "renamed", []string{"sg-c"}
					e.Spec.Tags = map[string]string{"team": "c"}
				})
			},
		} {
			time.Sleep(settleAfter)
			change()
			time.Sleep(5 * time.Minute)
			w.readySoon("vm")
			i, spec := w.onlyInstance(), w.get("vm").Spec
			if i.ID != id || i.State != "Running" || i.Type != spec.InstanceType || i.Name != spec.InstanceName ||
				!slices.Equal(i.SecurityGroupIDs, slices.Sorted(slices.Values(spec.SecurityGroupIDs))) ||
				i.Tags["team"] != spec.Tags["team"] || i.Tags["stage"] != spec.Tags["stage"] || i.Tags["foreign"] != "yes" {
				t.Errorf("it is %+v\n%s", i, w.describe())
			}
			if n := w.count("stop"); n != stops {
				t.Errorf("it was stopped %d times, want %d", n, stops)
			}
			w.cloud.Forget()
			w.limitHour(67, 0)
			w.noChanges()
		}
	})
}

// TestDriftIsReported: what only another instance could repair is left alone.
func TestDriftIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		w.cloud.Update(w.ready("vm").Status.InstanceID, func(i *ecssim.Instance) { i.ImageID = "other.vhd" })
		time.Sleep(5 * time.Minute)
		w.readySoon("vm")
		is := w.condition("vm", glassback.ConditionDegraded)
		if is.Status != metav1.ConditionTrue || !strings.Contains(is.Message, `imageID is "other.vhd"`) {
			t.Errorf("Degraded is %s: %s", is.Status, is.Message)
		}
	})
}

// TestChangeWithoutEffect: if ECS accepts a change without an effect, the operator requests it again at longer and longer intervals, and
// reports it.
func TestChangeWithoutEffect(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		w.ready("vm")
		w.refuse(&ecssim.Reply{Status: 200, ContentType: "application/json", Body: `{"RequestId":"x"}`}, "StopInstance")
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerStopped })
		w.waitForReason("vm", reasonNoEffect)
		time.Sleep(20 * time.Minute)
		before := w.count("stop")
		c, n := w.measureHour()
		if stops := w.count("stop") - before; stops > 13 || n > 13 || c > 13+900 {
			t.Errorf("in an hour it was stopped %d times, with %d calls and %d writes", stops, c, n)
		}
		w.cloud.SetFault(nil)
		w.within(6*time.Minute, "it to be Ready", func() bool { return w.isReady("vm") })
	})
}

// TestRenameOfALockedInstance: the message is about the change, and not about the deletion of the instance.
func TestRenameOfALockedInstance(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		id := w.ready("vm").Status.InstanceID
		w.cloud.Update(id, func(i *ecssim.Instance) { i.Locks = []string{"security"} })
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.InstanceName = "renamed" })
		w.waitForAdvice("vm", reasonInstanceLocked, true, "InstanceLockedForSecurity")
		if is := w.condition("vm", glassback.ConditionReady); strings.Contains(is.Message, "deletionPolicy") {
			t.Errorf("of a name that cannot be changed it says: %s", is.Message)
		}
		w.limitHour(23+23+67, 0)
		w.cloud.Update(id, func(i *ecssim.Instance) { i.Locks = nil })
		w.ready("vm")
	})
}

// TestTagThatIsTakenOff: without the tag of this object, the operator neither changes nor deletes the instance.
func TestTagThatIsTakenOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		ecs := w.ready("vm")
		w.cloud.Update(ecs.Status.InstanceID, func(i *ecssim.Instance) { delete(i.Tags, v1alpha1.TagUID) })
		w.waitForAdvice("vm", reasonNotOwned, true, v1alpha1.TagUID, string(ecs.UID), "deletionPolicy: Retain")
		w.cloud.Forget()
		w.edit("vm", func(e *v1alpha1.ECSInstance) {
			e.Spec.InstanceName, e.Spec.PowerState, e.Spec.Tags = "renamed", v1alpha1.PowerStopped, map[string]string{"a": "b"}
		})
		time.Sleep(10 * time.Minute)
		w.limitHour(67, 0)
		w.delete("vm")
		time.Sleep(time.Hour)
		w.noChanges()
		if w.get("vm") == nil || w.onlyInstance().State != "Running" {
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
		w.limitHour(0, 0)
		w.edit("vm", resume)
		w.ready("vm")
		w.edit("vm", pause)
		time.Sleep(time.Minute)
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerStopped })
		w.limitHour(0, 0)
		w.delete("vm")
		w.limitHour(0, 0)
		w.edit("vm", resume)
		w.gone("vm")
		if alive := w.alive(""); len(alive) > 0 {
			t.Errorf("there still is %+v", alive)
		}
	})
}

func TestSettledInstanceCostsNothingButLooks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("settled", func(e *v1alpha1.ECSInstance) { e.Spec.Tags = map[string]string{"team": "a"} })
		if s := w.ready("settled").Status; s.InstanceID != w.onlyInstance().ID || s.IP == "" || s.ZoneID == "" ||
			s.InstanceType != "ecs.g6.large" ||
			s.CreationTime == nil {
			t.Errorf("status is %+v", s)
		}
		time.Sleep(time.Minute)
		calls, writes := w.measureHour()
		if writes != 0 || calls < 55 || calls > 66 {
			t.Errorf("in an hour, there were %d writes and %d calls", writes, calls)
		}
		for _, c := range w.cloud.Calls() {
			if c.Action != "DescribeInstances" {
				t.Errorf("ECS was asked to %s", c.Action)
			}
		}
	})
}

// TestTagsThatLeaveTheSpec: they are taken off, and once more if a call to set them comes late. After that, they are another owner's.
func TestTagsThatLeaveTheSpec(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.Tags = map[string]string{"team": "a"} })
		id := w.ready("vm").Status.InstanceID
		team := func() string { return w.alive("")[0].Tags["team"] }
		set := func() { w.cloud.Update(id, func(i *ecssim.Instance) { i.Tags["team"] = "late" }) }

		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.Tags = nil })
		w.within(time.Minute, "the tag to be taken off", func() bool { return team() == "" })
		time.Sleep(settleAfter / 2)
		set()
		w.within(2*pollEvery, "the tag to be taken off again", func() bool { return team() == "" })
		w.within(settleAfter+4*pollEvery, "it to be forgotten", func() bool { return len(w.get("vm").Status.TagKeys) == 0 })
		set()
		time.Sleep(time.Hour)
		if team() == "" {
			t.Error("a tag of another owner was taken off")
		}
	})
}

// answered is a call that ECS answers with an error, without an effect.
func answered(status int, code string) ecssim.Fault {
	return ecssim.Fault{Before: ecssim.Error(status, code, "something")}
}

// runningWithRestart makes an instance that runs, and may be stopped for another type.
func runningWithRestart(w *world) {
	w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.InstanceTypeChangePolicy = v1alpha1.TypeChangeRestart })
	w.ready("vm")
}

// TestPassingErrorRefusesNoType: an error that is not about the type stops the change of the type only while the error lasts. In the first
// row, ECS does not accept the time of the request, also after a second signature.
func TestPassingErrorRefusesNoType(t *testing.T) {
	const setsType = "ModifyInstanceSpec"
	for sentence, fault := range map[string]func(*world){
		"the time of the request is not accepted, twice": func(w *world) {
			w.once(setsType, ecssim.Fault{Skew: time.Hour}, ecssim.Fault{Skew: time.Hour})
		},
		"ECS changes the type, and the answer is lost": func(w *world) { w.once(setsType, ecssim.Fault{LoseAnswer: true}) },
		"a second operator has started the instance": func(w *world) {
			var once sync.Once
			w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
				if call.Action == setsType {
					once.Do(func() { w.cloud.Update(call.InstanceID, func(i *ecssim.Instance) { i.State = "Starting" }) })
				}
				return ecssim.Fault{}
			})
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				runningWithRestart(w)
				fault(w)
				w.edit("vm", setType("ecs.g6.xlarge"))
				w.within(15*time.Minute, "the new type", func() bool {
					i := w.onlyInstance()
					return i.Type == "ecs.g6.xlarge" && i.State == "Running" && w.isReady("vm")
				})
				if n := w.countEvents("Warning TypeChangeRefused"); n != 0 || w.get("vm").Status.RefusedInstanceType != "" {
					t.Errorf("the type was refused %d times\n%s", n, w.describe())
				}
			})
		})
	}
}

// TestRefusesType has every class, so that a new one is put on one side or the other.
func TestRefusesType(t *testing.T) {
	for class, want := range map[aliyun.Class]bool{
		aliyun.Throttled: false, aliyun.Transient: false, aliyun.InFlight: false, aliyun.TokenDead: false,
		aliyun.WaitForState: false, aliyun.Gone: false,
		aliyun.Capacity: true, aliyun.Quota: true, aliyun.Unauthorized: true, aliyun.Rejected: true, aliyun.DeleteBlocked: true,
		aliyun.BadCredentials: false, aliyun.NoCredentials: false, aliyun.Clock: false,
	} {
		if got := refusesType(&aliyun.Error{Action: "ModifyInstanceSpec", Class: class, RequestID: "x"}); got != want {
			t.Errorf("%s: %t, want %t", class, got, want)
		}
		if refusesType(&aliyun.Error{Action: "ModifyInstanceSpec", Class: class}) {
			t.Errorf("%s: an error that is not of ECS refuses the type", class)
		}
	}
	if refusesType(context.Canceled) {
		t.Error("a call that was cancelled refuses the type")
	}
}

// TestTypeThatECSRefuses: ECS has read the request, and says no to the type. The instance has been
// stopped for it, once, and runs again as it was, until the spec says otherwise.
func TestTypeThatECSRefuses(t *testing.T) {
	const refused = "ecs.nostock.large"
	inWorld(t, func(w *world) {
		runningWithRestart(w)
		w.edit("vm", setType(refused))
		w.within(5*time.Minute, "the refusal", func() bool { return w.countEvents("Warning TypeChangeRefused") == 1 })
		time.Sleep(2 * time.Hour)
		w.readySoon("vm")
		if i := w.onlyInstance(); i.Type != "ecs.g6.large" || i.State != "Running" || w.count("stop") != 1 {
			t.Errorf("it was stopped %d times, and is %+v", w.count("stop"), i)
		}
		if got := w.get("vm").Status.RefusedInstanceType; got != refused {
			t.Errorf("refusedInstanceType is %q", got)
		}
		if n := w.cloud.Count("ModifyInstanceSpec"); n != 1 {
			t.Errorf("ECS was asked %d times", n)
		}
		w.edit("vm", setType("ecs.g6.xlarge"))
		w.within(5*time.Minute, "the new type", func() bool { return w.onlyInstance().Type == "ecs.g6.xlarge" && w.isReady("vm") })
		if got := w.get("vm").Status.RefusedInstanceType; got != "" {
			t.Errorf("refusedInstanceType still is %q", got)
		}
	})
}
