// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// refuse makes ECS answer every call of the actions with an error. Without actions, it does so for all calls.
func (w *world) refuse(with *ecssim.Reply, actions ...string) {
	w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		if len(actions) == 0 || slices.Contains(actions, call.Action) {
			return ecssim.Fault{Before: with}
		}
		return ecssim.Fault{}
	})
}

// once injects a fault into the first call of an action.
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

// writes returns the number of writes to the API server.
func (w *world) writes() int { return w.count("update status") + w.count("patch") }

// measureHour returns the number of calls and writes in an hour, without the dry runs that confirm an empty answer.
func (w *world) measureHour() (calls, writes int) {
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

// limitHour fails the test if the operator makes more calls or writes than these in an hour.
func (w *world) limitHour(calls, writes int) {
	w.t.Helper()
	c, n := w.measureHour()
	w.t.Logf("in an hour, the operator made %d calls and %d writes", c, n)
	if c > calls || n > writes {
		w.t.Errorf("in an hour, the operator made %d calls and %d writes, want at most %d and %d\n%s", c, n, calls, writes, w.describe())
	}
}

// noChanges fails the test if a call since the last Forget changes something in ECS.
func (w *world) noChanges() {
	w.t.Helper()
	for _, c := range w.cloud.Calls() {
		if !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get") {
			w.t.Errorf("the operator called %s", c.Action)
		}
	}
}

// condition returns a condition of an object, or an empty one.
func (w *world) condition(name, kind string) metav1.Condition {
	if ecs := w.get(name); ecs != nil {
		if is := meta.FindStatusCondition(ecs.Status.Conditions, kind); is != nil {
			return *is
		}
	}
	return metav1.Condition{}
}

// waitForAdvice waits until Ready is False with a reason. It fails the test if the message lacks one of the parts, or if the condition
// Stalled is not as given.
func (w *world) waitForAdvice(name, reason string, stalled bool, parts ...string) {
	w.t.Helper()
	is := w.waitForReason(name, reason)
	for _, part := range parts {
		if !strings.Contains(is.Message, part) {
			w.t.Errorf("the message with %s lacks %q: %s", reason, part, is.Message)
		}
	}
	if s := w.condition(name, v1alpha1.ConditionStalled); (s.Status == metav1.ConditionTrue) != stalled {
		w.t.Errorf("with %s, Stalled is %s with the reason %s", reason, s.Status, s.Reason)
	}
}

// onlyInstance returns the only instance that is not released. It fails the test if their number is not one.
func (w *world) onlyInstance() ecssim.Instance {
	w.t.Helper()
	alive := w.alive("")
	if len(alive) != 1 {
		w.t.Fatalf("there are %d instances\n%s", len(alive), w.describe())
	}
	return alive[0]
}

// readySoon waits until an object is Ready, at most for a minute.
func (w *world) readySoon(name string) {
	w.t.Helper()
	w.within(time.Minute, name+" to be Ready soon", func() bool { return w.isReady(name) })
}

// countEvents returns the number of events with a prefix: a kind and a reason.
func (w *world) countEvents(prefix string) int {
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

// released fails the test if an instance has tags of the operator.
func (w *world) released(i ecssim.Instance) {
	w.t.Helper()
	for key := range i.Tags {
		if strings.HasPrefix(key, v1alpha1.TagPrefix) {
			w.t.Errorf("instance %s still has the tag %s", i.ID, key)
		}
	}
}

// neverTwo fails the test if two instances of one object existed at the same time.
func (w *world) neverTwo() {
	w.t.Helper()
	all := w.cloud.Instances()
	for n, b := range all {
		for _, a := range all[:n] {
			if a.Tags[v1alpha1.TagUID] == b.Tags[v1alpha1.TagUID] && (a.Released.IsZero() || a.Released.After(b.Created)) {
				w.t.Errorf("%s and %s existed at the same time\n%s", a.ID, b.ID, w.describe())
			}
		}
	}
}

func setType(name string) func(*v1alpha1.ECSInstance) {
	return func(e *v1alpha1.ECSInstance) { e.Spec.InstanceType = name }
}
