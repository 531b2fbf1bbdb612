// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// TestChanges: the operator applies changes of the spec, and reverts changes that another client made in the console.
func TestChanges(t *testing.T) {
	const large, xlarge = "ecs.g6.large", "ecs.g6.xlarge"
	type spec = *v1alpha1.ECSInstanceSpec
	for sentence, test := range map[string]struct {
		before  func(spec)
		edit    func(spec)
		console func(*ecssim.Instance)
		is      func(ecssim.Instance) bool
		stops   int    // how often it is stopped
		drift   string // a part of the message of Degraded
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
		"with Never, another type is only reported": {
			before: func(s spec) { s.InstanceTypeChangePolicy = v1alpha1.TypeChangeNever },
			edit:   func(s spec) { s.InstanceType = xlarge },
			is:     func(i ecssim.Instance) bool { return i.Type == large && i.State == "Running" }, drift: "instanceTypeChangePolicy is Never",
		},
		"with WhenStopped, another type is only reported while the instance runs": {
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
		"another type of a PrePaid instance is only reported": {
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
				w.readySoon("vm")
				if i := w.onlyInstance(); i.ID != id || !test.is(i) {
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
				w.limitHour(67, 0)
				w.noChanges()
			})
		})
	}
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

// TestInstanceThatIsLocked: nothing is tried that ECS would refuse, or it says why.
func TestInstanceThatIsLocked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerStopped })
		id := w.ready("vm").Status.InstanceID
		w.cloud.Update(id, func(i *ecssim.Instance) { i.Locks = []string{"financial"} })
		time.Sleep(2 * time.Minute)
		w.cloud.Forget()
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerRunning })
		w.waitForAdvice("vm", reasonInstanceLocked, true, "locked", "financial", "console")
		w.limitHour(67, 0)
		w.noChanges()
		w.cloud.Update(id, func(i *ecssim.Instance) { i.Locks = nil })
		w.ready("vm")
		if state := w.onlyInstance().State; state != "Running" {
			t.Errorf("it is %s", state)
		}
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
