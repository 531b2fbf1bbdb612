// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// TestWhatKeepsAnInstanceFromBeingDeleted: the object stays and reports the reason, and the operator retries. The object disappears after
// the reason is fixed.
func TestWhatKeepsAnInstanceFromBeingDeleted(t *testing.T) {
	for sentence, test := range map[string]struct {
		before func(*ecssim.Instance) // in ECS
		reason string
		says   []string
		fix    func(*ecssim.Instance)
	}{
		"it is paid for": {
			before: func(i *ecssim.Instance) { i.ChargeType, i.Expires = "PrePaid", time.Now().AddDate(1, 0, 0) },
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
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm")
				id := w.ready("vm").Status.InstanceID
				w.cloud.Update(id, test.before)
				w.delete("vm")
				w.waitForAdvice("vm", test.reason, true, test.says...)
				time.Sleep(time.Minute)
				// Each time it is asked to delete it, and looked at it.
				w.limitHour(23+23+67, 0)
				if w.onlyInstance().State != "Running" {
					t.Errorf("the instance is %s", w.onlyInstance().State)
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

// TestDeletionWithAnotherFinalizer expects no further call once the instance is gone.
func TestDeletionWithAnotherFinalizer(t *testing.T) {
	const other = "example.com/backup"
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Finalizers = []string{other} })
		w.ready("vm")
		w.delete("vm")
		w.within(time.Minute, "the operator's finalizer to be off", func() bool {
			return slices.Equal(w.get("vm").Finalizers, []string{other})
		})
		if alive := w.alive(""); len(alive) > 0 {
			t.Errorf("there still is %+v", alive)
		}
		time.Sleep(time.Minute)
		w.limitHour(0, 0)
	})
}

// TestSameNameAgain: the next object of a name has nothing to do with the one before, whose finalizer another client took off. What no
// object refers to any more is neither looked at nor touched.
func TestSameNameAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		first := w.ready("vm")
		w.edit("vm", func(e *v1alpha1.ECSInstance) {
			e.Finalizers, e.DeletionTimestamp = nil, ptr.To(metav1.Now())
		})
		time.Sleep(time.Minute)
		w.limitHour(0, 0)
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

// TestTagThatChangesBeforeADeletion: since the last poll, an object in another cluster has adopted the instance. The operator neither
// deletes the instance nor removes its tags.
func TestTagThatChangesBeforeADeletion(t *testing.T) {
	const other = "11111111-0000-4000-8000-000000000001"
	retain := func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionRetain }
	for sentence, test := range map[string]struct {
		policy func(*v1alpha1.ECSInstance) // which the object gets as it is deleted
		gone   bool
	}{
		"it is to be deleted": {policy: func(*v1alpha1.ECSInstance) {}},
		"it is to be kept":    {policy: retain, gone: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm")
				id := w.ready("vm").Status.InstanceID
				polls := w.cloud.Count("DescribeInstances")
				w.within(2*time.Minute, "a poll", func() bool { return w.cloud.Count("DescribeInstances") > polls })
				time.Sleep(5 * time.Second)
				w.cloud.Forget()
				w.cloud.Update(id, func(i *ecssim.Instance) { i.Tags[v1alpha1.TagUID] = other })
				w.edit("vm", test.policy)
				w.delete("vm")
				time.Sleep(10 * time.Minute)
				w.noChanges()
				if i := w.onlyInstance(); i.Tags[v1alpha1.TagUID] != other || i.Tags[v1alpha1.TagObject] == "" {
					t.Errorf("its tags are %v", i.Tags)
				}
				if (w.get("vm") == nil) != test.gone {
					t.Errorf("the object is gone: %t\n%s", !test.gone, w.describe())
				}
				if !test.gone {
					w.waitForAdvice("vm", reasonNotOwned, true, other)
				}
			})
		})
	}
}

// noInstances is an answer of DescribeInstances without an instance.
var noInstances = &ecssim.Reply{
	Status: 200, ContentType: "application/json", Body: `{"RequestId":"R-1","TotalCount":0,"NextToken":"","Instances":{"Instance":[]}}`,
}

// TestDeletedWhileECSHidesTheInstance: the object stays until the instance shows again, and is deleted.
func TestDeletedWhileECSHidesTheInstance(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm")
				w.ready("vm")
				w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
					if call.Action != "DescribeInstances" || call.Params.Get("DryRun") != "" {
						return ecssim.Fault{}
					}
					return ecssim.Fault{After: noInstances}
				})
				polls := w.cloud.Count("DescribeInstances")
				w.within(2*time.Minute, "a poll", func() bool { return w.cloud.Count("DescribeInstances") > polls })
				w.delete("vm")
				if restarted {
					w.restart(func() {})
				}
				time.Sleep(20 * time.Second)
				w.cloud.SetFault(nil)
				w.gone("vm")
				if alive := w.alive(""); len(alive) > 0 || w.cloud.Count("DeleteInstance") != 1 {
					t.Errorf("the object is gone, and %d instances are left\n%s", len(alive), w.describe())
				}
			})
		})
	}
}
