// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/controller/apiexamplea"
)

func newApiExampleA(w *world) (controller, error) {
	return apiexamplea.New(apiexamplea.Config{
		Kube: w.kube, Client: w.own, ApiExampleAs: w.ownFrom.Groupa().V1().ApiExampleAs(), ConfigMaps: w.kubeFrom.Core().V1().ConfigMaps(),
		Recorder: w.recorder, Clock: clock.RealClock{},
	})
}

func TestApiExampleA(t *testing.T) {
	f := &file{name: "apiexamplea"}
	for _, path := range exampleFiles(t, "apiexamplea") {
		scenario(t, f, title(path), newApiExampleA, func(w *world) {
			w.step("applied", time.Minute, func() { w.apply(w.read(path)...) })
		})
	}
	scenario(t, f, "edited, and in trouble", newApiExampleA, func(w *world) {
		const name = "apiexamplea-sample"
		greets := func(first string) func(*v1.ApiExampleA) {
			return func(e *v1.ApiExampleA) { e.Spec.FirstName, e.Spec.LastName = first, "Zhuang" }
		}
		w.step("applied", time.Minute, func() { w.apply(w.read(examples + "/apiexamplea.yaml")...) })
		w.step("greets another person", time.Minute, func() { change(w, name, greets("Ada")) })
		w.step("the greeting is overwritten", time.Minute, func() {
			change(w, name+"-greeting", func(c *corev1.ConfigMap) { c.Data["greeting"], c.Data["other"] = "overwritten", "kept" })
		})
		w.step("the spec is invalid", time.Minute, func() { change(w, name, greets("a\nb")) })
		w.step("the ConfigMap is another owner's", time.Minute, func() {
			change(w, name+"-greeting", func(c *corev1.ConfigMap) { c.OwnerReferences = nil })
		})
		w.step("the spec is valid again", time.Minute, func() { change(w, name, greets("Grace")) })
	})
	f.compare(t)
}
