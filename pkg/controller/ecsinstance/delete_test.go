// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// TestWhatKeepsAnInstanceFromBeingDeleted: the object stays and reports the reason, and the operator retries. The object disappears after
// the reason is fixed, in ECS or with deletionPolicy: Retain.
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
					w.delete("vm")
					w.waitForAdvice("vm", test.reason, true, test.says...)
					time.Sleep(time.Minute)
					// Each time it is asked to delete it, and looked at it.
					w.limitHour(23+23+67, 0)
					if w.onlyInstance().State != "Running" {
						t.Errorf("the instance is %s", w.onlyInstance().State)
					}
					if retain {
						w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
						w.within(time.Minute, "it to be released", func() bool { return w.get("vm") == nil })
						w.released(w.onlyInstance())
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

// TestDeletionPolicyRetain: the instance stays, and is not the operator's any more.
func TestDeletionPolicyRetain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", func(e *v1alpha1.ECSInstance) {
			e.Spec.DeletionPolicy, e.Spec.Tags = v1alpha1.DeletionRetain, map[string]string{"team": "a"}
		})
		w.ready("vm")
		w.delete("vm")
		w.gone("vm")
		i := w.onlyInstance()
		if w.released(i); i.State != "Running" || i.Tags["team"] != "a" {
			t.Errorf("it is %+v", i)
		}
	})
}

// TestObjectThatIsTornAway: another client takes the finalizer off. What no object refers to any more is neither looked at nor touched.
func TestObjectThatIsTornAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		w.ready("vm")
		w.edit("vm", func(e *v1alpha1.ECSInstance) {
			e.Finalizers, e.DeletionTimestamp = nil, ptr.To(metav1.Now())
		})
		time.Sleep(time.Minute)
		w.limitHour(0, 0)
		w.onlyInstance()
	})
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

// TestDeletedBeforeAnythingWasMade: nothing is, and ECS is not even asked.
func TestDeletedBeforeAnythingWasMade(t *testing.T) {
	inWorld(t, func(w *world) {
		w.secret("aliyun", testID, otherSecret)
		w.apply("vm")
		w.waitForReason("vm", reasonRefused)
		w.cloud.Forget()
		w.delete("vm")
		w.within(10*time.Second, "it to be gone", func() bool { return w.get("vm") == nil })
		if n := len(w.cloud.Calls()); n > 1 {
			t.Errorf("it took %d calls", n)
		}
	})
}

// TestDeletedAfterAClearNo: ECS has answered that it created nothing, so the deletion does not wait.
func TestDeletedAfterAClearNo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm", setType("ecs.nostock.large"))
		w.waitForReason("vm", reasonOutOfStock)
		w.delete("vm")
		w.within(10*time.Second, "it to be gone", func() bool { return w.get("vm") == nil })
	})
}

// TestSameNameAgain: the next object of a name has nothing to do with the one before.
func TestSameNameAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		first := w.ready("vm")
		w.edit("vm", func(e *v1alpha1.ECSInstance) {
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
