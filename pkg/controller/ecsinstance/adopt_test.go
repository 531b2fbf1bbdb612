// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"testing"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/must"
)

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
		"adopts, and keeps when it is deleted": func(w *world, id string) {
			w.apply("vm", adopt(id))
			ecs := w.ready("vm")
			i := w.onlyInstance()
			if !ecs.Status.Adopted || ecs.Status.InstanceID != id ||
				i.Tags[v1alpha1.TagUID] != string(ecs.UID) || i.Tags["mine"] != "yes" || i.Name != "by-hand" {
				t.Errorf("it is %+v, and status %+v", i, ecs.Status)
			}
			w.delete("vm")
			w.gone("vm")
			i = w.onlyInstance()
			if w.released(i); i.State != "Running" || i.Tags["mine"] != "yes" {
				t.Errorf("it is %+v", i)
			}
		},
		"adopts, and deletes if that is wished for": func(w *world, id string) {
			w.apply("vm", adopt(id), func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
			w.ready("vm")
			w.delete("vm")
			w.gone("vm")
			if alive := w.alive(""); len(alive) > 0 {
				t.Errorf("there still is %+v", alive)
			}
		},
		"what is another object's is refused, until that gives it up": func(w *world, id string) {
			w.apply("first", adopt(id))
			w.ready("first")
			w.apply("vm", adopt(id))
			w.waitForAdvice("vm", reasonNotOwned, true, "default/first", "deletionPolicy: Retain")
			w.limitHour(67, 0)
			w.noChanges()
			w.delete("first")
			w.gone("first")
			w.within(11*time.Minute, "it to be adopted", func() bool { return w.isReady("vm") })
		},
		"what is another object's stays when it is not adopted by one that is deleted": func(w *world, id string) {
			w.apply("first", adopt(id))
			w.ready("first")
			w.apply("vm", adopt(id), func(e *v1alpha1.ECSInstance) { e.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
			w.waitForReason("vm", reasonNotOwned)
			stopped := func(i *ecssim.Instance) { i.State = "Stopped" }
			w.cloud.Update(id, stopped)
			time.Sleep(5 * time.Minute)
			if state := w.onlyInstance().State; state != "Running" {
				t.Errorf("the rightful owner does not see to it any more: it is %s", state)
			}
			w.delete("vm")
			w.gone("vm")
			w.cloud.Update(id, stopped)
			time.Sleep(5 * time.Minute)
			if state := w.onlyInstance().State; state != "Running" {
				t.Errorf("the rightful owner does not see to it any more, now that it is alone: it is %s", state)
			}
			w.readySoon("first")
		},
		"there is none": func(w *world, id string) {
			w.apply("vm", adopt("i-0000000000000000000000"))
			w.waitForAdvice("vm", reasonNotFound, true, "i-0000000000000000000000", "cn-beijing", "adoptInstanceID or regionID")
			w.limitHour(74, 0)
			w.noChanges()
			w.edit("vm", adopt(id))
			w.readySoon("vm")
		},
		"there is none, and the object is deleted": func(w *world, _ string) {
			w.apply("vm", adopt("i-0000000000000000000000"))
			w.waitForReason("vm", reasonNotFound)
			w.delete("vm")
			w.within(time.Minute, "it to be gone", func() bool { return w.get("vm") == nil })
		},
		"an instance that is released is reported, although its adoption was refused before": func(w *world, id string) {
			w.apply("first", adopt(id))
			w.ready("first")
			w.apply("vm", adopt(id))
			w.waitForReason("vm", reasonNotOwned)
			w.cloud.Update(id, func(i *ecssim.Instance) { i.Released = time.Now() })
			w.waitForReason("first", reasonInstanceGone)
			w.waitForReason("vm", reasonNotFound)
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
		"one that is gone is not made again": func(w *world, id string) {
			w.apply("vm", adopt(id))
			w.ready("vm")
			w.cloud.Update(id, func(i *ecssim.Instance) { i.Released = time.Now() })
			w.waitForAdvice("vm", reasonInstanceGone, true, "delete this object")
			time.Sleep(time.Hour)
			if len(w.alive("")) > 0 {
				t.Error("another one was made")
			}
			w.delete("vm")
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
