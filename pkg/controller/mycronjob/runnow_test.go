// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// The names of the first Jobs for these values, as commit 0908c11 made them.
const runA, runB = "sample-raf63fc4c8", "sample-raf63ff4c8"

// hourly is a MyCronJob without a slot in the next minutes.
func hourly(m *v1.MyCronJob) {
	m.Spec.IntervalSeconds, m.Status.Schedule = ptr.To[int32](3600), "every 3600s"
}

// setRunNow sets the run-now annotation.
func (s *server) setRunNow(value string) {
	s.edit(func(cron *v1.MyCronJob) { cron.Annotations = map[string]string{v1.AnnotationRunNow: value} })
}

// rest syncs until nothing is left to do, twelve seconds at a time: by then a Job may be cleaned up. Jobs complete at once.
func (s *server) rest(t *testing.T) {
	t.Helper()
	for range 10 {
		was := s.Version()
		c := s.connect()
		if _, _, err := c.sync(t); err != nil {
			t.Fatal(err)
		}
		for _, job := range s.jobs() {
			if finished(job) == "" {
				s.editJob(job.Name, complete)
			}
		}
		s.clock.SetTime(s.clock.Now().Add(12 * time.Second))
		if s.Version() == was {
			return
		}
	}
	t.Fatal("it never rests")
}

// runs returns the names of all Jobs that were made by hand.
func (s *server) runs() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.created())), func(name string) bool { return !strings.HasPrefix(name, "sample-r") })
}

// TestEachChangeOfRunNowMakesAJob has values return, while their Jobs are kept and after they were cleaned up.
func TestEachChangeOfRunNowMakesAJob(t *testing.T) {
	for sentence, history := range map[string]int32{"Jobs are kept": 10, "Jobs are cleaned up": 0} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(cronjob(hourly, func(m *v1.MyCronJob) { m.Spec.SuccessfulJobsHistoryLimit = ptr.To(history) }))
			for _, value := range []string{"A", "B", "A", "A", "B"} {
				s.setRunNow(value)
				s.rest(t)
			}
			if want := []string{runA, "sample-run2", "sample-run3", "sample-run4"}; !slices.Equal(s.runs(), want) {
				t.Errorf("Jobs %q, want %q", s.runs(), want)
			}
			if status := s.cron().Status; status.LastRunNow != "B" || status.LastRunNowNumber != 4 {
				t.Errorf("the status has %q with number %d", status.LastRunNow, status.LastRunNowNumber)
			}
		})
	}
}

// TestACrashBeforeRunNowIsRecorded stops the operator after it has made a Job. The value may change until the next operator starts.
func TestACrashBeforeRunNowIsRecorded(t *testing.T) {
	for sentence, test := range map[string]struct {
		then []string
		want []string
	}{
		"nothing changes":      {nil, []string{runA, "sample-run2"}},
		"a value that returns": {[]string{"A"}, []string{runA, "sample-run2", "sample-run3"}},
		"there and back":       {[]string{"C", "B"}, []string{runA, "sample-run2"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(cronjob(hourly))
			s.setRunNow("A")
			s.rest(t)
			s.setRunNow("B")
			if requests, _, err := s.connect().sync(t); err != nil || requests[len(requests)-1] != "create jobs sample-run2" {
				t.Fatalf("requests %q, error %v", requests, err)
			}
			for _, value := range test.then {
				s.setRunNow(value)
			}
			s.rest(t)
			if !slices.Equal(s.runs(), test.want) {
				t.Errorf("Jobs %q, want %q", s.runs(), test.want)
			}
		})
	}
}

// TestAnUpgradeRunsNothingAgain begins with what commit 0908c11 has stored: a status without
// numbers, and Jobs whose names all follow from their values.
func TestAnUpgradeRunsNothingAgain(t *testing.T) {
	made := func(name, value string) *batchv1.Job {
		job := jobAt(cronjob(), 0, complete)
		job.Name, job.Annotations, job.CreationTimestamp = name, map[string]string{v1.AnnotationRunNow: value}, metav1.NewTime(t0.time())
		return job
	}
	for sentence, test := range map[string]struct {
		last, asked string
		jobs        []*batchv1.Job
	}{
		"its Jobs are kept":               {"B", "B", []*batchv1.Job{made(runA, "A"), made(runB, "B")}},
		"its Jobs were cleaned up":        {"B", "B", nil},
		"the annotation was taken away":   {"B", "", []*batchv1.Job{made(runA, "A"), made(runB, "B")}},
		"it stopped before it recorded B": {"A", "B", []*batchv1.Job{made(runA, "A"), made(runB, "B")}},
		"it recorded nothing at all":      {"", "A", []*batchv1.Job{made(runA, "A")}},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(cronjob(hourly, func(m *v1.MyCronJob) { m.Status.LastRunNow = test.last }), test.jobs...)
			s.setRunNow(test.asked)
			s.rest(t)
			if len(s.runs()) > 0 {
				t.Fatalf("Jobs %q, want none", s.runs())
			}
			s.setRunNow("C")
			s.rest(t)
			s.setRunNow("A")
			s.rest(t)
			if want := []string{"sample-run2", "sample-run3"}; !slices.Equal(s.runs(), want) {
				t.Errorf("then Jobs %q, want %q", s.runs(), want)
			}
		})
	}
}

// TestRunNowOfAMyCronJobThatIsCreatedAgain deletes a MyCronJob, and creates it again with the same annotation before its Job is
// garbage-collected.
func TestRunNowOfAMyCronJobThatIsCreatedAgain(t *testing.T) {
	s := newServer(cronjob(hourly))
	s.setRunNow("A")
	s.rest(t)
	s.Remove("mycronjobs", key)
	s.Put(cronjob(hourly, func(m *v1.MyCronJob) {
		m.UID, m.Annotations = "again", map[string]string{v1.AnnotationRunNow: "A"}
	}))
	s.rest(t)
	if status := s.cron().Status; status.LastRunNow != "" || status.LastRunNowNumber != 0 {
		t.Errorf("while the former Job exists, the status has %q with number %d", status.LastRunNow, status.LastRunNowNumber)
	}
	s.Remove("jobs", cache.NewObjectName(key.Namespace, runA))
	s.rest(t)
	if jobs := s.jobs(); len(jobs) != 1 || jobs[0].Name != runA || !metav1.IsControlledBy(jobs[0], s.cron()) {
		t.Errorf("the Jobs are %v, want %s of the new MyCronJob", jobs, runA)
	}
	if status := s.cron().Status; status.LastRunNow != "A" || status.LastRunNowNumber != 1 {
		t.Errorf("the status has %q with number %d", status.LastRunNow, status.LastRunNowNumber)
	}
}
