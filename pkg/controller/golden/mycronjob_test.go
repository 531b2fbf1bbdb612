// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
)

func newMyCronJob(w *world) (controller, error) {
	return mycronjob.New(mycronjob.Config{
		Kube: w.kube, Client: w.own, MyCronJobs: w.ownFrom.Batch().V1().MyCronJobs(), Jobs: w.kubeFrom.Batch().V1().Jobs(),
		Recorder: w.recorder, Clock: clock.RealClock{},
	})
}

// ended has the controller of Jobs report how a Job has ended.
func ended(w *world, name string, how batchv1.JobConditionType) {
	change(w, name, func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now())}}
	})
}

// runNow asks for a Job at once.
func runNow(w *world, value string) func() {
	return func() {
		change(w, "mycronjob-sample", func(m *v1.MyCronJob) { m.Annotations = map[string]string{v1.AnnotationRunNow: value} })
	}
}

func TestMyCronJobExamples(t *testing.T) {
	f := &file{name: "mycronjob-examples"}
	for _, path := range exampleFiles(t, "mycronjob") {
		scenario(t, f, title(path), newMyCronJob, func(w *world) {
			created := w.read(path)
			w.step("applied", time.Second, func() { w.apply(created...) })
			w.step("two slots", twoSlots[title(path)], nil)
		})
	}
	f.compare(t)
}

// twoSlots is how long it takes from 2000-01-01, a Saturday, until two slots of the example have passed.
var twoSlots = map[string]time.Duration{
	"mycronjob":          10 * time.Second,
	"mycronjob-forbid":   65 * time.Second,
	"mycronjob-jitter":   2*time.Hour + 5*time.Minute,
	"mycronjob-labels":   125 * time.Second,
	"mycronjob-schedule": 4 * 24 * time.Hour,
}

func TestMyCronJobPhases(t *testing.T) {
	const name = "mycronjob-sample"
	f := &file{name: "mycronjob-phases"}
	edit := func(w *world, do func(*v1.MyCronJobSpec)) func() {
		return func() { change(w, name, func(m *v1.MyCronJob) { do(&m.Spec) }) }
	}
	begin := func(w *world, interval int32) {
		w.step("applied", time.Second, func() {
			created := w.read(examples + "/mycronjob.yaml")
			created[0].(*v1.MyCronJob).Spec.IntervalSeconds = ptr.To(interval)
			w.apply(created...)
		})
	}
	scenario(t, f, "Jobs succeed, fail and are cleaned up", newMyCronJob, func(w *world) {
		begin(w, 60)
		w.step("one history is not kept, the other for one Job", time.Second, edit(w, func(s *v1.MyCronJobSpec) {
			s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = ptr.To[int32](0), ptr.To[int32](1)
		}))
		w.step("a slot", time.Minute, nil)
		w.step("its Job succeeds", 20*time.Second, func() { ended(w, name+"-946684860", batchv1.JobComplete) })
		w.step("another slot", 40*time.Second, nil)
		w.step("its Job fails", 20*time.Second, func() { ended(w, name+"-946684920", batchv1.JobFailed) })
		w.step("suspended", 2*time.Minute, edit(w, func(s *v1.MyCronJobSpec) { s.Suspend = ptr.To(true) }))
		w.step("resumed with a schedule", time.Minute, edit(w, func(s *v1.MyCronJobSpec) {
			s.Suspend, s.IntervalSeconds, s.Schedule, s.TimeZone = ptr.To(false), nil, ptr.To("*/2 * * * *"), ptr.To("Asia/Shanghai")
		}))
		w.step("the spec is invalid", time.Minute, edit(w, func(s *v1.MyCronJobSpec) { s.Schedule = ptr.To("* * *") }))
	})
	scenario(t, f, "slots are missed, since another owner's Job has the name, and since a Job runs", newMyCronJob, func(w *world) {
		w.apply(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name + "-946684830"}})
		begin(w, 30)
		w.step("a slot whose name is taken", 35*time.Second, edit(w, func(s *v1.MyCronJobSpec) { s.ConcurrencyPolicy = v1.ForbidConcurrent }))
		w.step("a slot with a Job, and one that it holds up", time.Minute, nil)
		w.step("replaced instead", 30*time.Second, edit(w, func(s *v1.MyCronJobSpec) { s.ConcurrencyPolicy = v1.ReplaceConcurrent }))
	})
	scenario(t, f, "run now", newMyCronJob, func(w *world) {
		begin(w, 3600)
		w.step("the first value", time.Minute, runNow(w, "first"))
		w.step("the second value", time.Minute, runNow(w, "second"))
		w.step("the first value again", time.Minute, runNow(w, "first"))
		w.step("suspended, and a third value", time.Minute, func() {
			change(w, name, func(m *v1.MyCronJob) {
				m.Spec.Suspend, m.Annotations = ptr.To(true), map[string]string{v1.AnnotationRunNow: "2026-01-01T00:00:00Z"}
			})
		})
	})
	f.compare(t)
}
