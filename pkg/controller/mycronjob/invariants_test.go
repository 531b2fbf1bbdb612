// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
)

var equal = equality.Semantic.DeepEqual

// TestInvariants runs two operators on one object through random histories: their
// caches lag, each by itself; they crash after any write and are started again;
// answers are lost; Jobs end; time passes, a little or a lot. However that goes,
// no slot runs twice, only Allow runs Jobs at the same time, and in the end every slot has run or is counted.
// GLASSBACK_SEEDS=n runs so many histories.
func TestInvariants(t *testing.T) {
	fakeapi.Histories(t, 500, 50, 150, func(run *fakeapi.History) (step, settle func()) {
		h := newHistory(run)
		return h.step, h.settle
	})
}

// history is one random run.
type history struct {
	*fakeapi.History

	server    *server
	operators [2]*client
	pace      int  // how much time passes at once, at the most, in milliseconds
	countable bool // whether the timetable stayed the same all the time
	asked     int  // how often the value of run-now has changed
}

func newHistory(run *fakeapi.History) *history {
	random := run.Random
	pick := func(n int) bool { return random.IntN(n) == 0 }
	m := cronjob(func(m *v1.MyCronJob) {
		m.Status = v1.MyCronJobStatus{}
		m.Spec.ConcurrencyPolicy = []v1.ConcurrencyPolicy{v1.AllowConcurrent, v1.ForbidConcurrent, v1.ReplaceConcurrent}[random.IntN(3)]
		m.Spec.MissedRunPolicy = []v1.MissedRunPolicy{v1.LatestMissed, v1.SkipMissed, v1.AllMissed}[random.IntN(3)]
		m.Spec.SuccessfulJobsHistoryLimit = ptr.To(int32(random.IntN(3)))
		m.Spec.FailedJobsHistoryLimit = ptr.To(int32(random.IntN(2)))
		m.Spec.IntervalSeconds = ptr.To([]int32{1, 5, 20}[random.IntN(3)])
		if pick(3) {
			m.Spec.StartingDeadlineSeconds = ptr.To[int64](8)
		}
		if pick(4) && *m.Spec.IntervalSeconds > 2 {
			m.Spec.JitterSeconds = ptr.To[int32](2)
		}
		if pick(4) {
			m.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = ptr.To[int32](0)
		}
		if m.Spec.MissedRunPolicy == v1.AllMissed && m.Spec.ConcurrencyPolicy == v1.ReplaceConcurrent {
			m.Spec.ConcurrencyPolicy = v1.AllowConcurrent
		}
		if m.Spec.ConcurrencyPolicy == v1.AllowConcurrent && pick(2) {
			m.Spec.MaxActive = ptr.To[int32](2)
		}
	})
	h := &history{History: run, server: newServer(m), countable: true, pace: []int{300, 3000}[random.IntN(2)]}
	for i := range h.operators {
		h.operators[i] = h.server.connect()
	}
	return h
}

func (h *history) note(format string, args ...any) {
	at := fmt.Sprintf("%s v%d: ", h.server.clock.Now().UTC().Format("15:04:05.000"), h.server.Version())
	h.Note(at+format, args...)
}

func (h *history) step() {
	i := h.Random.IntN(len(h.operators))
	switch n := h.Random.IntN(100); {
	case n < 25:
		d := time.Duration(h.Random.IntN(h.pace)) * time.Millisecond
		if h.Random.IntN(12) == 0 && h.pace > 1000 {
			d = time.Duration(h.Random.IntN(90)) * time.Second
		}
		h.server.clock.SetTime(h.server.clock.Now().Add(d))
		h.expireJobs()
	case n < 60:
		h.sync(i)
	case n < 82:
		h.catchUpSome(i)
	case n < 92:
		h.finishJob()
	case n < 96:
		h.note("operator %d is started anew", i)
		h.operators[i] = h.server.connect()
	case n < 97:
		h.edit()
	case n < 99:
		h.runNow()
	default:
		h.foreignJob()
	}
	for name, times := range h.server.created() {
		if times > 1 {
			h.Errorf("Job %s was made %d times", name, times)
		}
	}
	h.checkConcurrency()
}

// checkConcurrency checks that no more Jobs run than the policy and maxActive allow.
func (h *history) checkConcurrency() {
	most := 1
	if spec := h.server.cron().Spec; spec.ConcurrencyPolicy == v1.AllowConcurrent {
		most = int(ptr.Deref(spec.MaxActive, math.MaxInt32))
	}
	var running []string
	for _, job := range h.server.jobs() {
		if metav1.IsControlledBy(job, h.server.cron()) && finished(job) == "" {
			running = append(running, job.Name)
		}
	}
	if len(running) > most {
		h.Errorf("Jobs %q run at the same time, and at most %d under %s", running, most, h.server.cron().Spec.ConcurrencyPolicy)
	}
}

// catchUpSome lets one of the caches of operator i catch up by some states, or fully.
func (h *history) catchUpSome(i int) {
	c, last := h.operators[i], h.server.Version()
	if h.Random.IntN(3) > 0 {
		c.catchUp()
		return
	}
	one := []*fakeapi.Cache{c.crons, c.jobs}[h.Random.IntN(2)]
	one.See(one.At() + h.Random.Int64N(last-one.At()+1))
}

// sync runs operator i once, with a fault of all its writes now and then.
func (h *history) sync(i int) {
	c := h.operators[i]
	fault := fakeapi.NoFault
	if n := h.Random.IntN(12); n < 3 {
		fault = []fakeapi.Fault{fakeapi.Refused, fakeapi.AnswerLost, fakeapi.Crash}[n]
	}
	crashed := h.server.Interrupt(func(int) fakeapi.Fault { return fault }, func() {
		requests, after, err := c.sync(h.T)
		h.note("operator %d synced at cron state %d, job state %d: %q after %s, error %v, %d missed", i, c.crons.At(), c.jobs.At(), requests,
			after, err, h.server.cron().Status.MissedTotal)
	})
	if crashed {
		made := h.server.Requests()
		h.note("operator %d crashed after %s", i, made[len(made)-1])
		h.operators[i] = h.server.connect()
	}
}

func (h *history) finishJob() {
	jobs := h.server.jobs()
	if len(jobs) == 0 {
		return
	}
	job := jobs[h.Random.IntN(len(jobs))]
	if finished(job) != "" {
		return
	}
	h.note("Job %s ends", job.Name)
	h.server.editJob(job.Name, func(job *batchv1.Job) {
		finish(job, []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}[h.Random.IntN(2)])
	})
}

// expireJobs does what Kubernetes does with a Job that has a time to live.
func (h *history) expireJobs() {
	for _, job := range h.server.jobs() {
		if ttl := job.Spec.TTLSecondsAfterFinished; ttl != nil && finished(job) != "" {
			h.server.Remove("jobs", jobKey(job.Name))
		}
	}
}

// runNow asks for a run by hand, often by a value that there was before.
func (h *history) runNow() {
	value := []string{"A", "B", "C"}[h.Random.IntN(3)]
	if value != h.server.cron().Annotations[v1.AnnotationRunNow] {
		h.asked++
	}
	h.note("a user sets run-now to %s", value)
	h.server.setRunNow(value)
}

// edit changes the timetable.
func (h *history) edit() {
	if h.Random.IntN(4) > 0 {
		return
	}
	h.countable = false
	h.note("another client edits the object")
	h.server.edit(func(cron *v1.MyCronJob) {
		if h.Random.IntN(2) == 0 {
			cron.Spec.Suspend = ptr.To(!*cron.Spec.Suspend)
		} else {
			cron.Spec.IntervalSeconds = ptr.To([]int32{3, 5, 7}[h.Random.IntN(3)])
		}
	})
}

// foreignJob takes the name of a slot that is to come.
func (h *history) foreignJob() {
	job := jobAt(h.server.cron(), 0)
	job.Name = fmt.Sprintf("sample-%d", slotAt(h.server.clock.Now())/5*5+5)
	job.OwnerReferences, job.Labels = nil, nil
	if h.server.job(job.Name) == nil {
		h.note("another client makes %s", job.Name)
		h.server.Put(job)
	}
}

// settle lets everything work without faults until nothing is left to do, and checks that all is accounted for.
func (h *history) settle() {
	if *h.server.cron().Spec.Suspend {
		return
	}
	for range 300 {
		quiet := true
		for i, c := range h.operators {
			c.catchUp()
			requests, _, err := c.sync(h.T)
			h.note("settling: operator %d %q, error %v", i, requests, err)
			quiet = quiet && len(requests) == 0
		}
		running := 0
		for _, job := range h.server.jobs() {
			if job.Labels != nil && finished(job) == "" {
				running++
				h.server.editJob(job.Name, complete)
			}
		}
		if quiet && running == 0 {
			h.account()
			return
		}
	}
	h.Error("it never settled")
}

// accountRuns checks that each change of run-now that a sync has seen got one Job.
func (h *history) accountRuns() {
	status, value := h.server.cron().Status, h.server.cron().Annotations[v1.AnnotationRunNow]
	ran := 0
	for name := range h.server.created() {
		if strings.HasPrefix(name, "sample-r") {
			ran++
		}
	}
	if status.LastRunNow != value || int64(ran) != status.LastRunNowNumber || ran > h.asked {
		h.Errorf("run-now changed %d times, to %q at last: %d Jobs, and the status has %q with number %d",
			h.asked, value, ran, status.LastRunNow, status.LastRunNowNumber)
	}
}

func (h *history) account() {
	h.accountRuns()
	status, table := h.server.cron().Status, timetableFor(h.T, h.server.cron())
	if due, _ := table.due(slotAt(status.AccountedTime.Time), h.server.clock.Now()); len(due) > 0 {
		h.Errorf("slots %v are due and not accounted for", due)
	}
	if !h.countable {
		return
	}
	slots, _ := table.due(slotAt(h.server.cron().CreationTimestamp.Time), status.AccountedTime.Add(table.offset))
	ran := int64(0)
	for name := range h.server.created() {
		if !strings.HasPrefix(name, "sample-r") {
			ran++
		}
	}
	if ran+status.MissedTotal != int64(len(slots)) {
		h.Errorf("%d slots ran and %d are counted as missed, of %d", ran, status.MissedTotal, len(slots))
	}
}
