// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/report"
)

func TestSync(t *testing.T) {
	// noJobs is an API server that answers each creation of a Job with an error.
	refuses := func(verb string, err error) func(fakeapi.Request) error {
		return func(r fakeapi.Request) error {
			if r.Verb == verb {
				return err
			}
			return nil
		}
	}
	noJobs := func(err error) func(fakeapi.Request) error { return refuses("create", err) }
	keepsJobs := refuses("delete", apierrors.NewForbidden(batchv1.Resource("jobs"), "sample-1641736205", errors.New("a webhook keeps it")))
	invalid := noJobs(apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "sample-1641736205", nil))
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sample-1641736205", Namespace: "default", UID: "other"}}
	// settled is an object whose status is that of its last sync.
	settled := func(change ...func(*v1.MyCronJob)) *v1.MyCronJob {
		s := newServer(cronjob(change...))
		if _, _, err := s.connect().sync(t); err != nil {
			t.Fatal(err)
		}
		return s.cron()
	}
	const create, status = "create jobs sample-1641736205", "update mycronjobs/status sample"
	type want struct {
		requests []string
		after    time.Duration
		err      string
		events   []string
		ready    string // reason of the condition Ready
		degraded string // reason of the condition Degraded
		missed   int64
	}
	for name, test := range map[string]struct {
		mcj    *v1.MyCronJob
		jobs   []*batchv1.Job
		now    time.Duration
		before func(fakeapi.Request) error
		want   want
	}{
		"a new object gets a status": {
			mcj: cronjob(),
			want: want{
				requests: []string{status}, after: 5 * time.Second,
				events: []string{"Normal Scheduled Jobs are made by schedule: every 5s"}, ready: reasonScheduled, degraded: report.ReasonAsExpected,
			},
		},
		"settled: nothing is written": {
			mcj: settled(), want: want{after: 5 * time.Second, ready: reasonScheduled, degraded: report.ReasonAsExpected},
		},
		"a slot that is due gets its Job, and no other write is made": {
			mcj: settled(), now: 5 * time.Second,
			want: want{requests: []string{create}, after: 5 * time.Second, ready: reasonScheduled, degraded: report.ReasonAsExpected},
		},
		"a late Job is made after a look at the live object": {
			mcj: settled(func(m *v1.MyCronJob) { m.Spec.IntervalSeconds, m.Status.Schedule = ptr.To[int32](300), "every 300s" }),
			now: 320 * time.Second,
			want: want{
				requests: []string{"get jobs sample-1641736500", "get mycronjobs sample", "create jobs sample-1641736500"}, after: time.Minute,
				ready: reasonScheduled, degraded: report.ReasonAsExpected,
			},
		},
		"a Job of our own with the slot's name is as good": {
			mcj: settled(), now: 5 * time.Second,
			jobs: []*batchv1.Job{jobAt(cronjob(), 5, func(job *batchv1.Job) { delete(job.Labels, v1.LabelMyCronJob) })},
			want: want{
				requests: []string{create, "get jobs sample-1641736205", status}, after: 5 * time.Second,
				ready: reasonScheduled, degraded: report.ReasonAsExpected,
			},
		},
		"a Job of another owner is left alone, and its slot is missed": {
			mcj: settled(), jobs: []*batchv1.Job{foreign}, now: 5 * time.Second,
			want: want{
				requests: []string{create, "get jobs sample-1641736205", "list jobs", status}, after: 5 * time.Second,
				events: []string{
					"Warning SlotTaken Job sample-1641736205 exists already, and is not this MyCronJob's",
				},
				ready: reasonScheduled, degraded: reasonSlotTaken, missed: 1,
			},
		},
		"a Job that the API server refuses is not tried again, and its slot is missed": {
			mcj: settled(), now: 5 * time.Second, before: invalid,
			want: want{
				requests: []string{create, "list jobs", status}, after: 5 * time.Second,
				events: []string{
					`Warning JobRejected Job.batch "sample-1641736205" is invalid`,
				},
				ready: reasonJobRejected, degraded: reasonJobRejected, missed: 1,
			},
		},
		"an error half-way is returned, and what is known is reported": {
			mcj: cronjob(), now: 5 * time.Second,
			before: noJobs(errors.New("connection refused")),
			want: want{
				requests: []string{create, status}, after: 5 * time.Second, err: "create Job sample-1641736205: connection refused",
				events: []string{"Normal Scheduled Jobs are made by schedule: every 5s"}, ready: reasonScheduled, degraded: report.ReasonAsExpected,
			},
		},
		"a Job that is forbidden is tried again, and the status says so": {
			mcj: settled(), now: 5 * time.Second,
			before: noJobs(apierrors.NewForbidden(batchv1.Resource("jobs"), "sample-1641736205", errors.New("exceeded quota"))),
			want: want{
				requests: []string{create, status}, after: 5 * time.Second,
				err: `create Job sample-1641736205: jobs.batch "sample-1641736205" is forbidden: exceeded quota`,
				events: []string{"Warning JobNotMade The API server does not accept the Jobs at present, and the operator retries: " +
					`jobs.batch "sample-1641736205" is forbidden: exceeded quota`},
				ready: reasonJobNotMade, degraded: reasonJobNotMade,
			},
		},
		"what is expired is deleted even if a Job cannot be made": {
			mcj: settled(func(m *v1.MyCronJob) {
				m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0)
				m.Status.AccountedTime = ptr.To((t0 + 5).metaTime())
			}),
			jobs: []*batchv1.Job{jobAt(cronjob(), 5, complete)}, now: 15 * time.Second,
			before: noJobs(errors.New("connection refused")),
			want: want{
				requests: []string{"create jobs sample-1641736215", "delete any version of jobs sample-1641736205", "list jobs", status},
				after:    5 * time.Second,
				err:      "create Job sample-1641736215: connection refused",
				ready:    reasonScheduled, degraded: report.ReasonAsExpected, missed: 1,
				events: []string{"Warning SlotsMissed Slots up to 2022-01-09T13:50:10Z without a Job: 1"},
			},
		},
		"an old Job that cannot be deleted is reported": {
			mcj: settled(func(m *v1.MyCronJob) {
				m.Spec.Suspend, m.Spec.SuccessfulJobsHistoryLimit = ptr.To(true), ptr.To[int32](0)
				m.Status.AccountedTime = ptr.To((t0 + 5).metaTime())
			}),
			jobs: []*batchv1.Job{jobAt(cronjob(), 5, complete)}, now: time.Minute, before: keepsJobs,
			want: want{
				requests: []string{"delete any version of jobs sample-1641736205", status},
				err:      `delete Job sample-1641736205 of MyCronJob sample: jobs.batch "sample-1641736205" is forbidden: a webhook keeps it`,
				ready:    reasonSuspended, degraded: reasonJobNotDeleted,
				events: []string{"Warning JobNotDeleted The API server does not delete the old Job sample-1641736205 at present, " +
					`and the operator retries: jobs.batch "sample-1641736205" is forbidden: a webhook keeps it`},
			},
		},
		"a running Job that cannot be replaced is reported": {
			mcj: settled(func(m *v1.MyCronJob) {
				m.Spec.ConcurrencyPolicy = v1.ReplaceConcurrent
				m.Status.AccountedTime = ptr.To((t0 + 5).metaTime())
			}),
			jobs: []*batchv1.Job{jobAt(cronjob(), 5)}, now: 10 * time.Second, before: keepsJobs,
			want: want{
				requests: []string{"list jobs", "get mycronjobs sample", "delete any version of jobs sample-1641736205", status},
				after:    5 * time.Second,
				err:      `delete Job sample-1641736205 of MyCronJob sample: jobs.batch "sample-1641736205" is forbidden: a webhook keeps it`,
				ready:    reasonJobNotMade, degraded: reasonJobNotMade,
				events: []string{"Warning JobNotMade The API server does not delete the Job sample-1641736205 to replace it at present, " +
					`and the operator retries: jobs.batch "sample-1641736205" is forbidden: a webhook keeps it`},
			},
		},
		"an invalid spec makes no Job, and is not tried again": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](0) }), now: 3 * time.Second,
			want: want{
				requests: []string{status}, events: []string{"Warning InvalidSpec spec.intervalSeconds: Invalid value: 0: must be from 1 to 31536000"},
				ready: reasonInvalidSpec, degraded: reasonInvalidSpec,
			},
		},
		"an object that is being deleted is left alone": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.DeletionTimestamp = ptr.To(metav1.Now()) }), now: 5 * time.Second,
		},
		"a paused object is left alone": {
			mcj: cronjob(func(m *v1.MyCronJob) { m.Annotations = map[string]string{glassback.AnnotationPaused: "true"} }), now: 5 * time.Second,
		},
		"an object that is gone is nothing to do": {},
		"a failed Job degrades": {
			mcj: settled(), jobs: []*batchv1.Job{jobAt(cronjob(), 5, failed)}, now: 6 * time.Second,
			want: want{
				requests: []string{status}, after: 4 * time.Second, events: []string{"Warning LastJobFailed Job sample-1641736205 failed"},
				ready: reasonScheduled, degraded: reasonLastJobFailed,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(test.mcj, test.jobs...)
			s.Before = test.before
			s.clock.SetTime(t0.time().Add(test.now))
			c := s.connect()
			var was *v1.MyCronJob
			if test.mcj != nil {
				was = s.cron().DeepCopy()
			}
			var observed int64
			c.missed = func(namespace string, slots int64) {
				if observed += slots; namespace != cronjob().Namespace || slots < 1 {
					t.Errorf("the observer was told of %d slots in namespace %s", slots, namespace)
				}
			}
			requests, after, err := c.sync(t)
			if !slices.Equal(requests, test.want.requests) {
				t.Errorf("requests %q, want %q", requests, test.want.requests)
			}
			if after != test.want.after {
				t.Errorf("after %s, want %s", after, test.want.after)
			}
			if text := fmt.Sprint(err); text != cmp.Or(test.want.err, "<nil>") {
				t.Errorf("error %q, want %q", text, test.want.err)
			}
			if events := c.sent(); !slices.Equal(events, test.want.events) {
				t.Errorf("events %q, want %q", events, test.want.events)
			}
			if test.mcj == nil {
				return
			}
			for kind, reason := range map[string]string{glassback.ConditionReady: test.want.ready, glassback.ConditionDegraded: test.want.degraded} {
				got := ""
				if condition := meta.FindStatusCondition(s.cron().Status.Conditions, kind); condition != nil {
					got = condition.Reason
				}
				if got != reason {
					t.Errorf("%s has reason %q, want %q", kind, got, reason)
				}
			}
			if missed := s.cron().Status.MissedTotal - was.Status.MissedTotal; missed != test.want.missed {
				t.Errorf("%d slots counted as missed, want %d", missed, test.want.missed)
			}
			if observed != test.want.missed {
				t.Errorf("the observer was told of %d missed slots, want %d", observed, test.want.missed)
			}
		})
	}
}

// sent returns the events that the controller has sent.
func (c *client) sent() []string { return fakeapi.RecordedEvents(c.events) }

func TestSyncDoesNotActOnACacheOlderThanItsWrites(t *testing.T) {
	s := newServer(cronjob())
	c := s.connect()
	if _, _, err := c.sync(t); err != nil {
		t.Fatal(err)
	}
	c.catchUp()
	s.clock.SetTime(t0.time().Add(5 * time.Second))
	if requests, _, _ := c.sync(t); len(requests) != 1 {
		t.Fatalf("requests %q, want one create", requests)
	}
	if requests, after, _ := c.sync(t); len(requests) != 0 || after != 5*time.Second {
		t.Errorf("requests %q and after %s before the cache shows the Job, want none and 5s", requests, after)
	}
	c.catchUp()
	if requests, _, _ := c.sync(t); !slices.Equal(requests, []string{"update mycronjobs/status sample"}) {
		t.Errorf("requests %q once the cache shows the Job, want the status", requests)
	}
	if got := s.cron().Status.LastScheduleTime; got == nil || slotAt(got.Time) != t0+5 {
		t.Errorf("lastScheduleTime %v, want the slot", got)
	}
}

func TestLateJobIsNotMadeFromAStaleCache(t *testing.T) {
	s := newServer(cronjob(func(m *v1.MyCronJob) {
		m.Spec.IntervalSeconds, m.Status.Schedule = ptr.To[int32](3600), "every 3600s"
		m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0)
	}))
	behind := s.connect()
	// Another operator runs the slot, records it, and deletes its Job.
	s.edit(func(cron *v1.MyCronJob) { cron.Status.AccountedTime = ptr.To((t0 + 600).metaTime()) })
	s.clock.SetTime((t0 + 600).time().Add(lateAfter + time.Millisecond))
	requests, _, err := behind.sync(t)
	if len(s.created()) > 0 || !slices.Contains(requests, "get mycronjobs sample") {
		t.Errorf("requests %q, want a look at the live object and no Job", requests)
	}
	if !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
}

func TestAFailureIsToldOfUntilASuccess(t *testing.T) {
	s := newServer(cronjob(func(m *v1.MyCronJob) {
		m.Spec.FailedJobsHistoryLimit = ptr.To[int32](0)
		m.Status.AccountedTime = ptr.To((t0 + 10).metaTime())
	}), jobAt(cronjob(), 5, complete), jobAt(cronjob(), 10, failed))
	degraded := func(seconds slot) string {
		t.Helper()
		s.clock.SetTime((t0 + seconds).time().Add(time.Millisecond))
		for range 3 {
			if _, _, err := s.connect().sync(t); err != nil {
				t.Fatal(err)
			}
		}
		return meta.FindStatusCondition(s.cron().Status.Conditions, glassback.ConditionDegraded).Reason
	}
	if got := degraded(11); got != reasonLastJobFailed {
		t.Errorf("Degraded because of %s, want the failure", got)
	}
	s.Remove("jobs", jobKey("sample-1641736210"))
	if got := degraded(12); got != reasonLastJobFailed {
		t.Errorf("Degraded because of %s once the failed Job is gone, want the failure still", got)
	}
	s.Put(jobAt(cronjob(), 15, complete))
	if got := degraded(17); got != report.ReasonAsExpected {
		t.Errorf("Degraded because of %s after a success, want it to be over", got)
	}
}

// Jobs that never end pile up under Allow: 720 an hour.
func TestManyRunningJobsAreReported(t *testing.T) {
	limited := func(m *v1.MyCronJob) { m.Spec.MaxActive = ptr.To[int32](1000) }
	for _, test := range []struct {
		running slot
		mcj     *v1.MyCronJob
		want    string
	}{
		{manyActive, cronjob(), report.ReasonAsExpected},
		{manyActive + 1, cronjob(), reasonManyActive},
		{manyActive + 1, cronjob(limited), report.ReasonAsExpected},
	} {
		var jobs []*batchv1.Job
		for i := range test.running {
			jobs = append(jobs, jobAt(test.mcj, 5*(i+1)))
		}
		o := observedAt(time.Duration(5*test.running)*time.Second, test.mcj, jobs...)
		status := statusOf(o, decide(o), outcome{})
		if c := meta.FindStatusCondition(status.Conditions, glassback.ConditionDegraded); c.Reason != test.want {
			t.Errorf("with %d Jobs, Degraded is %s: %s", test.running, c.Reason, c.Message)
		}
	}
}

func TestALongBatchIsPlannedAnew(t *testing.T) {
	s := newServer(cronjob(func(m *v1.MyCronJob) { m.Spec.MissedRunPolicy = v1.AllMissed }))
	s.clock.SetTime(t0.time().Add(17 * time.Second))
	s.After = func(fakeapi.Request) error { // an API server that is slow
		s.clock.SetTime(s.clock.Now().Add(actFor + time.Millisecond))
		return nil
	}
	_, _, err := s.connect().sync(t)
	if n := len(s.created()); n != 1 || !apierrors.IsConflict(err) {
		t.Errorf("%d Jobs were made by what was seen long ago, error %v; want the first alone, and a conflict", n, err)
	}
}

func TestARunNowJobIsNotCreatedByAnOldDecision(t *testing.T) {
	s := newServer(cronjob(func(m *v1.MyCronJob) {
		m.Spec.ConcurrencyPolicy = v1.ReplaceConcurrent
		m.Annotations = map[string]string{v1.AnnotationRunNow: "1"}
	}))
	for range 2 { // The first sync creates a Job, and the second records it.
		if _, _, err := s.connect().sync(t); err != nil {
			t.Fatal(err)
		}
	}
	before := len(s.created())
	s.edit(func(m *v1.MyCronJob) { m.Annotations[v1.AnnotationRunNow] = "2" })
	s.After = func(r fakeapi.Request) error { // The deletion of the Job that is replaced takes long.
		if r.Verb == "delete" {
			s.clock.SetTime(s.clock.Now().Add(actFor + time.Millisecond))
		}
		return nil
	}
	if _, _, err := s.connect().sync(t); len(s.created()) != before || !apierrors.IsConflict(err) {
		t.Errorf("%d Jobs were created, error %v; want none, and a conflict", len(s.created())-before, err)
	}
	if _, _, err := s.connect().sync(t); len(s.created()) != before+1 || err != nil {
		t.Errorf("%d Jobs were created by a new decision, error %v; want one", len(s.created())-before, err)
	}
}

func TestSlotJob(t *testing.T) {
	m := cronjob(func(m *v1.MyCronJob) { m.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = ptr.To[int32](1) })
	job := slotJob(m, t0+5, 1500*time.Millisecond)
	want := metav1.ObjectMeta{
		Name: "sample-1641736205", Namespace: "default",
		Labels: map[string]string{"team": "a", v1.LabelMyCronJob: "sample"},
		Annotations: map[string]string{
			"note": "b", v1.AnnotationSlot: "1641736205", v1.AnnotationSkew: "1500",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "batch.wzj.kubebuilder.io/v1", Kind: "MyCronJob", Name: "sample", UID: "uid-1",
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
	if !equal(job.ObjectMeta, want) {
		t.Errorf("metadata %+v, want %+v", job.ObjectMeta, want)
	}
	if job.Spec.TTLSecondsAfterFinished != nil {
		t.Error("the Job has a time to live: it may vanish before its slot is recorded")
	}
	if slotOf(job) != t0+5 {
		t.Errorf("slotOf gives %d, want %d", slotOf(job), t0+5)
	}
	if name := manualJob(m, strings.Repeat("x", 300)).Name; len(name) != len(job.Name) {
		t.Errorf("%s has %d characters, want as many as a slot's Job", name, len(name))
	}
}

func TestPlan(t *testing.T) {
	slower := func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](7200) }
	for sentence, test := range map[string]struct {
		change func(*server)
		want   []string // the lines of the plan without fields; nil for no plan
	}{
		"settled: nothing to do":   {func(*server) {}, []string{"nothing to do"}},
		"a due slot: its Job":      {func(s *server) { s.clock.Step(time.Hour) }, []string{"create Job sample-1641736800"}},
		"run now: its Job":         {func(s *server) { s.setRunNow("A") }, []string{"create Job " + runA}},
		"another schedule: status": {func(s *server) { s.edit(slower) }, []string{"update MyCronJob sample"}},
		"paused: no plan": {func(s *server) {
			s.edit(func(m *v1.MyCronJob) { m.Annotations = map[string]string{glassback.AnnotationPaused: "true"} })
		}, nil},
		"no object: no plan": {func(s *server) { s.Remove("mycronjobs", key) }, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(cronjob(hourly))
			s.rest(t)
			test.change(s)
			c := s.connect()
			s.Forget()
			plan, err := c.Plan(t.Context(), key, false)
			if err != nil || (plan == nil) != (test.want == nil) {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			if requests := s.Requests(); len(requests) > 0 {
				t.Errorf("it made the requests %v", requests)
			}
			if plan == nil {
				return
			}
			lines := slices.DeleteFunc(plan.Lines(0), func(line string) bool { return strings.HasPrefix(line, " ") })
			if !slices.Equal(lines, test.want) || plan.Settled() != (test.want[0] == "nothing to do") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestRecord(t *testing.T) {
	recordtest.Covers(t, observed{}, recordedObserved{}, "mcj")
	recordtest.Covers(t, plan{}, recordedPlan{}, "table")
	recordtest.Plain(t, nil, observed{})
}
