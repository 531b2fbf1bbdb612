// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// inWorld runs a test in a world with a running operator.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.finish()
		w.start()
		test(w)
	})
}

func TestSeedBecomesOneInstance(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("ecsinstance-sample")
		ecs := w.ready("ecsinstance-sample")
		alive := w.alive("")
		if len(alive) != 1 || alive[0].ID != ecs.Status.InstanceID || alive[0].State != "Running" {
			t.Fatalf("there are %+v, and status is %+v", alive, ecs.Status)
		}
		if ecs.Status.IP == "" || ecs.Status.ZoneID == "" || ecs.Status.InstanceType != "ecs.g6.large" || ecs.Status.CreationTime == nil {
			t.Errorf("status is %+v", ecs.Status)
		}
		w.delete("ecsinstance-sample")
		w.gone("ecsinstance-sample")
		if alive := w.alive(""); len(alive) > 0 {
			t.Errorf("there still are %+v", alive)
		}
		if n := w.count("create"); n != 1 {
			t.Errorf("ECS was asked %d times to make one", n)
		}
	})
}

func TestSettledInstanceCostsNothingButLooks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("settled", func(e *v1alpha1.ECSInstance) { e.Spec.Tags = map[string]string{"team": "a"} })
		w.ready("settled")
		time.Sleep(time.Minute)
		writes := w.count("update status")
		w.cloud.Forget()
		time.Sleep(time.Hour)
		if n := w.count("update status"); n != writes {
			t.Errorf("status was written %d times", n-writes)
		}
		for _, c := range w.cloud.Calls() {
			if c.Action != "DescribeInstances" {
				t.Errorf("ECS was asked to %s", c.Action)
			}
		}
		if n := len(w.cloud.Calls()); n < 55 || n > 66 {
			t.Errorf("ECS was asked %d times in an hour", n)
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

// userData is a Secret with a script.
func userData(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"userData": []byte(script)}}
}

const script = "#!/bin/sh\necho hunter2IsThePassword\n"
