// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/must"
)

// t0 is a slot of every interval that the tests use.
const t0 = slot(1_641_736_200)

// cronjob is a valid MyCronJob made at t0, whose slots are accounted for up to it.
func cronjob(change ...func(*v1.MyCronJob)) *v1.MyCronJob {
	m := &v1.MyCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Name: "sample", Namespace: "default", UID: "uid-1", Generation: 1, ResourceVersion: "1", CreationTimestamp: t0.metaTime(),
		},
		Spec: v1.MyCronJobSpec{JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"}},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers:    []corev1.Container{{Name: "hello", Image: "busybox", Args: []string{"date"}}},
				RestartPolicy: corev1.RestartPolicyOnFailure,
			}}},
		}},
		Status: v1.MyCronJobStatus{Schedule: "every 5s", AccountedTime: ptr.To(t0.metaTime())},
	}
	m.Default()
	for _, f := range change {
		f(m)
	}
	return m
}

type jobOption func(*batchv1.Job)

// early makes a Job one that a clock which was ahead created at t0.
func early(job *batchv1.Job) {
	job.CreationTimestamp = t0.metaTime()
	complete(job)
}

func complete(job *batchv1.Job) { finish(job, batchv1.JobComplete) }
func failed(job *batchv1.Job)   { finish(job, batchv1.JobFailed) }
func deleting(job *batchv1.Job) { job.DeletionTimestamp = ptr.To(metav1.Now()) }

func finish(job *batchv1.Job, how batchv1.JobConditionType) {
	job.Status.Conditions = []batchv1.JobCondition{{
		Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(job.CreationTimestamp.Add(time.Second)),
	}}
}

// jobAt is the Job of the slot so many seconds after t0, made in time.
func jobAt(m *v1.MyCronJob, seconds slot, options ...jobOption) *batchv1.Job {
	job := slotJob(m, t0+seconds, 0)
	job.UID = types.UID(job.Name)
	job.CreationTimestamp = (t0 + seconds).metaTime()
	for _, option := range options {
		option(job)
	}
	return job
}

// observedAt is what observe returns of m and its Jobs, so long after t0.
func observedAt(after time.Duration, m *v1.MyCronJob, jobs ...*batchv1.Job) *observed {
	o := &observed{mcj: m, jobs: jobs, now: t0.time().Add(after)}
	for _, job := range jobs {
		if !o.isAhead(job) {
			o.newest = max(o.newest, slotOf(job))
		}
	}
	return o
}

func TestDecide(t *testing.T) {
	forbid := func(m *v1.MyCronJob) { m.Spec.ConcurrencyPolicy = v1.ForbidConcurrent }
	atMost2 := func(m *v1.MyCronJob) { m.Spec.MaxActive = ptr.To[int32](2) }
	replace := func(m *v1.MyCronJob) { m.Spec.ConcurrencyPolicy = v1.ReplaceConcurrent }
	all := func(m *v1.MyCronJob) { m.Spec.MissedRunPolicy = v1.AllMissed }
	skip := func(m *v1.MyCronJob) { m.Spec.MissedRunPolicy = v1.SkipMissed }
	suspend := func(m *v1.MyCronJob) { m.Spec.Suspend = ptr.To(true) }
	suspended := func(m *v1.MyCronJob) { m.Status.Suspended = true }
	jittered := func(m *v1.MyCronJob) {
		m.Spec.IntervalSeconds, m.Spec.JitterSeconds, m.Status.Schedule = ptr.To[int32](600), ptr.To[int32](599), "every 600s"
	}
	invalid := func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](-1) }
	accounted := func(seconds slot) func(*v1.MyCronJob) {
		return func(m *v1.MyCronJob) { m.Status.AccountedTime = ptr.To((t0 + seconds).metaTime()) }
	}
	runNow := func(value string) func(*v1.MyCronJob) {
		return func(m *v1.MyCronJob) { m.Annotations = map[string]string{v1.AnnotationRunNow: value} }
	}
	manual := func(value string) *batchv1.Job {
		job := manualJob(cronjob(), value)
		job.CreationTimestamp = (t0 + 1).metaTime()
		return job
	}
	type want struct {
		accounted slot // after t0
		missed    int64
		run       []slot // after t0
		manual    string
		replaced  int
		held      bool
		expired   int
		next      slot // after t0; -1 for none
		wait      time.Duration
	}
	for name, test := range map[string]struct {
		mcj  *v1.MyCronJob
		jobs []*batchv1.Job
		now  time.Duration // after t0
		want want
	}{
		"nothing is due before the next slot": {mcj: cronjob(), now: 2 * time.Second, want: want{next: 5, wait: 3 * time.Second}},
		"a slot is due in its very first moment": {
			mcj: cronjob(), now: 5 * time.Second, want: want{run: []slot{5}, next: 5, wait: 5 * time.Second},
		},
		"a slot that has a Job is recorded": {
			mcj: cronjob(), jobs: []*batchv1.Job{jobAt(cronjob(), 5)}, now: 5 * time.Second,
			want: want{accounted: 5, next: 10, wait: 5 * time.Second},
		},
		"of missed slots the latest runs": {
			mcj: cronjob(), now: 17 * time.Second,
			want: want{accounted: 10, missed: 2, run: []slot{15}, next: 15, wait: 3 * time.Second},
		},
		"All runs every missed slot": {
			mcj: cronjob(all), now: 17 * time.Second, want: want{run: []slot{5, 10, 15}, next: 5, wait: 3 * time.Second},
		},
		"All runs the latest hundred at most": {
			mcj: cronjob(all), now: 600 * time.Second,
			want: want{accounted: 100, missed: 20, run: sequence(105, 600, 5), next: 105, wait: 5 * time.Second},
		},
		"Skip gives up what is late": {
			mcj: cronjob(skip), now: 17*time.Second + 500*time.Millisecond,
			want: want{accounted: 15, missed: 3, next: 20, wait: 2500 * time.Millisecond},
		},
		"a slot past the deadline is missed": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.Spec.StartingDeadlineSeconds = ptr.To[int64](1) }), now: 7 * time.Second,
			want: want{accounted: 5, missed: 1, next: 10, wait: 3 * time.Second},
		},
		"Forbid holds a slot while a Job runs": {
			mcj: cronjob(forbid, accounted(5)), jobs: []*batchv1.Job{jobAt(cronjob(), 5)}, now: 10 * time.Second,
			want: want{accounted: 5, held: true, next: 10, wait: 5 * time.Second},
		},
		"Forbid and All run one at a time": {
			mcj: cronjob(forbid, all), now: 15 * time.Second,
			want: want{run: []slot{5}, held: true, next: 5, wait: 5 * time.Second},
		},
		"maxActive lets a Job run beside another": {
			mcj: cronjob(atMost2, accounted(5)), jobs: []*batchv1.Job{jobAt(cronjob(), 5)}, now: 10 * time.Second,
			want: want{accounted: 5, run: []slot{10}, next: 10, wait: 5 * time.Second},
		},
		"maxActive holds a slot while so many run": {
			mcj: cronjob(atMost2, accounted(10)), jobs: []*batchv1.Job{jobAt(cronjob(), 5), jobAt(cronjob(), 10)}, now: 15 * time.Second,
			want: want{accounted: 10, held: true, next: 15, wait: 5 * time.Second},
		},
		"maxActive and All run so many": {
			mcj: cronjob(atMost2, all), now: 15 * time.Second,
			want: want{run: []slot{5, 10}, held: true, next: 5, wait: 5 * time.Second},
		},
		"run-now counts for maxActive": {
			mcj: cronjob(runNow("x"), atMost2, all), now: 10 * time.Second,
			want: want{manual: "x", run: []slot{5}, held: true, next: 5, wait: 5 * time.Second},
		},
		"run-now waits for maxActive": {
			mcj:  cronjob(runNow("x"), atMost2, accounted(10)),
			jobs: []*batchv1.Job{jobAt(cronjob(), 5), jobAt(cronjob(), 10)}, now: 12 * time.Second,
			want: want{accounted: 10, held: true, next: 15, wait: 3 * time.Second},
		},
		"a full history is cleaned up even when a slot is due": {
			mcj:  cronjob(accounted(5), func(m *v1.MyCronJob) { m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0) }),
			jobs: []*batchv1.Job{jobAt(cronjob(), 5, complete)}, now: 15 * time.Second,
			want: want{accounted: 10, missed: 1, run: []slot{15}, expired: 1, next: 15, wait: 5 * time.Second},
		},
		"Replace deletes what runs": {
			mcj: cronjob(replace, accounted(5)), jobs: []*batchv1.Job{jobAt(cronjob(), 5)}, now: 10 * time.Second,
			want: want{accounted: 5, run: []slot{10}, replaced: 1, next: 10, wait: 5 * time.Second},
		},
		"Replace leaves what is being deleted already": {
			mcj: cronjob(replace, accounted(5)), jobs: []*batchv1.Job{jobAt(cronjob(), 5, deleting)}, now: 10 * time.Second,
			want: want{accounted: 5, run: []slot{10}, next: 10, wait: 5 * time.Second},
		},
		"suspension counts what was due before it": {mcj: cronjob(suspend), now: 7 * time.Second, want: want{accounted: 7, missed: 1, next: -1}},
		"slots during a suspension do not count": {
			mcj: cronjob(suspended), now: 3601 * time.Second,
			want: want{accounted: 3601, next: 3605, wait: 4 * time.Second},
		},
		"a new schedule starts when it is seen, and what was due by the old one is missed": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](60) }), now: 13 * time.Second,
			want: want{accounted: 13, missed: 2, next: 60, wait: 47 * time.Second},
		},
		"a suspension counts a slot whose jitter has not passed": {
			mcj: cronjob(jittered, suspend), now: 600 * time.Second, want: want{accounted: 600, missed: 1, next: -1},
		},
		"a new schedule does, too": {
			mcj: cronjob(jittered, func(m *v1.MyCronJob) { m.Spec.IntervalSeconds, m.Spec.Schedule = nil, ptr.To("*/10 * * * *") }),
			now: 600 * time.Second, want: want{accounted: 600, missed: 1, next: 1200, wait: time.Minute},
		},
		"the end of a suspension gives up a watermark in the future, and Jobs of slots in the future": {
			mcj: cronjob(suspended, accounted(86400)), jobs: []*batchv1.Job{jobAt(cronjob(), 86400, early)}, now: 12 * time.Second,
			want: want{accounted: 12, next: 15, wait: 3 * time.Second},
		},
		"then the slots run": {
			mcj: cronjob(accounted(12)), jobs: []*batchv1.Job{jobAt(cronjob(), 86400, early)}, now: 15 * time.Second,
			want: want{accounted: 12, run: []slot{15}, next: 15, wait: 5 * time.Second},
		},
		"a Job of a slot in the future counts when the slot comes": {
			mcj: cronjob(accounted(86395)), jobs: []*batchv1.Job{jobAt(cronjob(), 86400, early)}, now: 86400 * time.Second,
			want: want{accounted: 86400, next: 86405, wait: 5 * time.Second},
		},
		"and not a moment before": {
			mcj: cronjob(accounted(86390)), jobs: []*batchv1.Job{jobAt(cronjob(), 86400, early)}, now: 86395 * time.Second,
			want: want{accounted: 86390, run: []slot{86395}, next: 86395, wait: 5 * time.Second},
		},
		"a spec that was corrected starts now": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.Status.Schedule = "" }), now: time.Hour,
			want: want{accounted: 3600, next: 3605, wait: 5 * time.Second},
		},
		"a watermark in the future is given up when the schedule is edited": {
			mcj: cronjob(accounted(99999), func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](60) }), now: 13 * time.Second,
			want: want{accounted: 13, next: 60, wait: 47 * time.Second},
		},
		"a wake-up is never more than a minute ahead": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.Spec.IntervalSeconds, m.Status.Schedule = ptr.To[int32](3600), "every 3600s" }), now: time.Second,
			want: want{next: 600, wait: time.Minute},
		},
		"a new object starts when it was made": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.Status = v1.MyCronJobStatus{} }), now: 7 * time.Second,
			want: want{run: []slot{5}, next: 5, wait: 3 * time.Second},
		},
		"more slots than one sync takes are missed in part": {
			mcj:  cronjob(func(m *v1.MyCronJob) { m.Spec.IntervalSeconds, m.Status.Schedule = ptr.To[int32](1), "every 1s" }),
			now:  200_000 * time.Second,
			want: want{accounted: 100_000, missed: 100_000, next: 100_001, wait: time.Second},
		},
		"a clock that went back makes nothing": {mcj: cronjob(), now: -time.Hour, want: want{next: 5, wait: time.Minute}},
		"run-now makes a Job between slots": {
			mcj: cronjob(runNow("x")), now: 2 * time.Second, want: want{manual: "x", next: 5, wait: 3 * time.Second},
		},
		"run-now is not repeated while its Job is not recorded": {
			mcj: cronjob(runNow("x")), jobs: []*batchv1.Job{manual("x")}, now: 5 * time.Second,
			want: want{next: 5, wait: 5 * time.Second},
		},
		"run-now waits under Forbid": {
			mcj: cronjob(runNow("x"), forbid, accounted(5)), jobs: []*batchv1.Job{jobAt(cronjob(), 5)}, now: 7 * time.Second,
			want: want{accounted: 5, held: true, next: 10, wait: 3 * time.Second},
		},
		"run-now goes before a slot under Replace": {
			mcj: cronjob(runNow("x"), replace, accounted(5)), jobs: []*batchv1.Job{jobAt(cronjob(), 5)}, now: 10 * time.Second,
			want: want{accounted: 5, manual: "x", replaced: 1, next: 10, wait: 5 * time.Second},
		},
		"old Jobs beyond the limits go": {
			mcj: cronjob(accounted(30)), now: 32 * time.Second,
			jobs: []*batchv1.Job{
				jobAt(cronjob(), 5, complete), jobAt(cronjob(), 10, failed), jobAt(cronjob(), 15, complete),
				jobAt(cronjob(), 20, failed), jobAt(cronjob(), 25, complete), jobAt(cronjob(), 30, complete),
			},
			want: want{accounted: 30, expired: 2, next: 35, wait: 3 * time.Second},
		},
		"a Job stays ten seconds after it was made": {
			mcj:  cronjob(accounted(5), func(m *v1.MyCronJob) { m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0) }),
			jobs: []*batchv1.Job{jobAt(cronjob(), 5, complete)}, now: 7 * time.Second,
			want: want{accounted: 5, next: 10, wait: 3 * time.Second},
		},
		"a Job that is not recorded stays": {
			mcj:  cronjob(func(m *v1.MyCronJob) { m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0) }),
			jobs: []*batchv1.Job{jobAt(cronjob(), 5, complete)}, now: 17 * time.Second,
			want: want{accounted: 5, next: 10, wait: 3 * time.Second},
		},
		"the template's time to live is kept here": {
			mcj: cronjob(accounted(20), func(m *v1.MyCronJob) {
				m.Spec.IntervalSeconds, m.Status.Schedule = ptr.To[int32](3600), "every 3600s"
				m.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = ptr.To[int32](30)
			}),
			jobs: []*batchv1.Job{jobAt(cronjob(), 5, complete), jobAt(cronjob(), 20, complete)}, now: 40 * time.Second,
			want: want{accounted: 20, expired: 1, next: 600, wait: 11 * time.Second},
		},
		"an invalid spec ends the count": {
			mcj: cronjob(invalid), now: 12 * time.Second, jobs: []*batchv1.Job{jobAt(cronjob(), 5, complete)},
			want: want{accounted: 12, missed: 1, next: -1},
		},
		"jitter shifts the start and not the slot": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.Spec.JitterSeconds = ptr.To[int32](3) }), now: 5 * time.Second,
			want: want{next: 5, wait: jitter(cronjob(func(m *v1.MyCronJob) { m.Spec.JitterSeconds = ptr.To[int32](3) }))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.mcj.DeepCopy()
			p := decide(observedAt(test.now, test.mcj, test.jobs...))
			got := want{
				accounted: p.accounted - t0, missed: p.missed, manual: p.manual, replaced: len(p.replace),
				held: p.held, expired: len(p.expired), next: -1, wait: p.wait,
			}
			for _, s := range p.run {
				got.run = append(got.run, s-t0)
			}
			if p.next != 0 {
				got.next = p.next - t0
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("decided\n%+v, want\n%+v", got, test.want)
			}
			if !equality.Semantic.DeepEqual(before, test.mcj) {
				t.Error("decide changed its input")
			}
		})
	}
}

func timetableFor(t *testing.T, m *v1.MyCronJob) timetable {
	t.Helper()
	table, err := newTimetable(m, words(&m.Spec))
	must.Succeed(t, err)
	return table
}

func sequence(first, last, step slot) []slot {
	var slots []slot
	for s := first; s <= last; s += step {
		slots = append(slots, s)
	}
	return slots
}

// TestTimetable has a schedule whose slots move with the summer time of its zone. See also the tests of ParseSchedule.
func TestTimetable(t *testing.T) {
	table := timetableFor(t, cronjob(func(m *v1.MyCronJob) {
		m.Spec.Schedule, m.Spec.TimeZone = ptr.To("0 12 * * *"), ptr.To("Europe/Berlin")
	}))
	first := table.after(slotAt(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)))
	got := []string{first.time().UTC().Format(time.RFC3339), table.after(first).time().UTC().Format(time.RFC3339)}
	if want := []string{"2026-03-28T11:00:00Z", "2026-03-29T10:00:00Z"}; !slices.Equal(got, want) {
		t.Errorf("slots %v, want %v", got, want)
	}
}
