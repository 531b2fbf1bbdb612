// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"testing"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

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
		w.apply("vm")
		w.ready("vm")
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Annotations = map[string]string{glassback.AnnotationPaused: "true"} })
		time.Sleep(time.Minute)
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.PowerState = v1alpha1.PowerStopped })
		w.limitHour(0, 0)
		w.delete("vm")
		w.limitHour(0, 0)
		w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Annotations = nil })
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
			s.InstanceType != "ecs.g6.large" || s.CreationTime == nil {
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

// TestTypeThatECSRefuses: ECS has read the request, and says no to the type. The instance has been stopped for it, once, and runs again as
// it was, until the spec says otherwise. In TestRandomWorlds, errors that are not about the type refuse none.
func TestTypeThatECSRefuses(t *testing.T) {
	const refused = "ecs.nostock.large"
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.InstanceTypeChangePolicy = v1alpha1.TypeChangeRestart })
		w.ready("vm")
		w.edit("vm", setType(refused))
		w.within(5*time.Minute, "the refusal", func() bool { return w.countEvents("Warning TypeChangeRefused") == 1 })
		time.Sleep(2 * time.Hour)
		w.readySoon("vm")
		if i := w.onlyInstance(); i.Type != "ecs.g6.large" || i.State != "Running" || w.count("StopInstance") != 1 {
			t.Errorf("it was stopped %d times, and is %+v", w.count("StopInstance"), i)
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
