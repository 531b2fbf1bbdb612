/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mycronjob

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

const (
	// skipAfter is how late missedRunPolicy Skip lets a Job be.
	skipAfter = 2 * time.Second
	// maxCaughtUp bounds how many missed slots missedRunPolicy All runs at once.
	maxCaughtUp = 100
	// keepFor is how long a Job stays at least after it was made, and lateAfter how
	// late a Job may be before the controller looks at the live MyCronJob first. An
	// operator whose cache is stale makes a slot's Job either in time, when the
	// Job of another operator is still there to be in its way, or after a look. What
	// lies between is how long a request may be under way.
	keepFor   = 10 * time.Second
	lateAfter = 5 * time.Second
)

// plan is what one sync is going to do.
type plan struct {
	// accounted is the watermark to record: every slot up to it has run or is
	// counted. missed is how many slots to add to the count with it.
	accounted slot
	missed    int64
	// suspended is whether the suspension has been seen.
	suspended bool
	// replace are the Jobs to delete before any is made.
	replace []*batchv1.Job
	// manual is the value of the run-now annotation to make a Job for; "" for none.
	manual string
	// run are the slots to make Jobs for, in this order. The skipped slots before
	// them are counted when the first of them is recorded.
	run     []slot
	skipped int64
	// held is how many slots are due, and wait for a Job to finish.
	held int
	// expired are finished Jobs beyond the history limits.
	expired []*batchv1.Job
	// next is the first slot after accounted; 0 if there is none, or suspended.
	next slot
	// wait is when to sync again without an event; 0 for never.
	wait time.Duration
}

// decide chooses between the two things that a sync does (see doc.go).
func decide(mcj *v1.MyCronJob, table timetable, seen observed, now time.Time) plan {
	suspend := ptr.Deref(mcj.Spec.Suspend, false)
	p := plan{accounted: watermark(mcj, table, now), suspended: suspend && mcj.Status.Suspended}
	var due []slot
	var more bool
	if !p.suspended {
		due, more = table.due(p.accounted, now)
	}
	switch {
	case seen.newest > p.accounted || !allManualRecorded(mcj, seen):
		p.record(upTo(due, seen.newest), seen)
		if !more {
			p.accounted = max(p.accounted, seen.newest)
		}
	case more: // So many are due that the first of them are missed by any policy.
		p.record(due, seen)
	case suspend:
		if !p.suspended {
			p.record(due, seen)
			p.accounted, p.suspended = max(p.accounted, slotAt(now)), true
		}
		p.runManual(mcj, seen)
	default:
		p.runDue(mcj, table, seen, due, now)
	}
	if !suspend {
		p.next = table.after(p.accounted)
		p.wakeIn(table.untilNext(p.accounted, now))
	}
	if len(p.run) == 0 && p.manual == "" {
		p.cleanUp(mcj, seen, now)
	}
	return p
}

// watermark returns the slot up to which everything is accounted for. Counting
// starts when the object is made, and anew when its timetable changes or its
// suspension ends: slots that it would have had before do not count.
func watermark(mcj *v1.MyCronJob, table timetable, now time.Time) slot {
	status := &mcj.Status
	resumed := status.Suspended && !ptr.Deref(mcj.Spec.Suspend, false)
	switch {
	case status.AccountedTime == nil:
		return slotAt(mcj.CreationTimestamp.Time)
	case resumed, status.Schedule != table.words:
		return max(slotAt(status.AccountedTime.Time), slotAt(now))
	default:
		return slotAt(status.AccountedTime.Time)
	}
}

// record accounts for slots: those without a Job are missed.
func (p *plan) record(slots []slot, seen observed) {
	if len(slots) == 0 {
		return
	}
	p.accounted = slots[len(slots)-1]
	p.missed = withoutJob(slots, seen)
}

func withoutJob(slots []slot, seen observed) int64 {
	ran := make(map[slot]bool, len(seen.jobs))
	for _, job := range seen.jobs {
		ran[slotOf(job)] = true
	}
	var missed int64
	for _, s := range slots {
		if !ran[s] {
			missed++
		}
	}
	return missed
}

func upTo(slots []slot, last slot) []slot {
	end, found := slices.BinarySearch(slots, last)
	if found {
		end++
	}
	return slots[:end]
}

// runDue plans the Jobs of the slots that are due, none of which has one.
func (p *plan) runDue(mcj *v1.MyCronJob, table timetable, seen observed, due []slot, now time.Time) {
	missed, run := split(mcj, table, due, now)
	active := seen.active()
	p.runManual(mcj, seen)
	switch {
	case len(run) == 0:
		p.record(missed, seen)
		return
	case mcj.Spec.ConcurrencyPolicy == v1.ForbidConcurrent && (len(active) > 0 || p.manual != ""):
		p.record(missed, seen)
		p.held = len(run)
		return
	case mcj.Spec.ConcurrencyPolicy == v1.ForbidConcurrent:
		p.held = len(run) - 1
		run = run[:1]
	case mcj.Spec.ConcurrencyPolicy == v1.ReplaceConcurrent:
		p.replace = notDeleted(active)
	}
	p.run, p.skipped = run, int64(len(missed))
}

// split divides the slots that are due into those that are too late, and those
// that are to run.
func split(mcj *v1.MyCronJob, table timetable, due []slot, now time.Time) (missed, run []slot) {
	// firstWithin finds the first slot that is no later than limit.
	firstWithin := func(limit time.Duration) int {
		i, _ := slices.BinarySearchFunc(due, now.Add(-limit), func(s slot, t time.Time) int {
			return table.start(s).Compare(t)
		})
		return i
	}
	first := 0
	if deadline := mcj.Spec.StartingDeadlineSeconds; deadline != nil {
		first = firstWithin(time.Duration(*deadline) * time.Second)
	}
	switch mcj.Spec.MissedRunPolicy {
	case v1.AllMissed:
		first = max(first, len(due)-maxCaughtUp)
	case v1.SkipMissed:
		first = max(first, len(due)-1, firstWithin(skipAfter))
	default:
		first = max(first, len(due)-1)
	}
	return due[:first], due[first:]
}

// runManual plans the Job that the run-now annotation asks for.
func (p *plan) runManual(mcj *v1.MyCronJob, seen observed) {
	value := mcj.Annotations[v1.AnnotationRunNow]
	if value == "" || value == mcj.Status.LastRunNow || seen.ranNow(value) {
		return
	}
	active := seen.active()
	switch {
	case mcj.Spec.ConcurrencyPolicy == v1.ForbidConcurrent && len(active) > 0:
		p.held++
		return
	case mcj.Spec.ConcurrencyPolicy == v1.ReplaceConcurrent:
		p.replace = notDeleted(active)
	}
	p.manual = value
}

func notDeleted(jobs []*batchv1.Job) []*batchv1.Job {
	return slices.DeleteFunc(jobs, func(job *batchv1.Job) bool { return job.DeletionTimestamp != nil })
}

// cleanUp plans the deletion of the finished Jobs that are beyond the history
// limits, or past the template's ttlSecondsAfterFinished. A Job that is not
// recorded, or that was made just now, is kept (see keepFor).
func (p *plan) cleanUp(mcj *v1.MyCronJob, seen observed, now time.Time) {
	left := map[batchv1.JobConditionType]int32{
		batchv1.JobComplete: ptr.Deref(mcj.Spec.SuccessfulJobsHistoryLimit, 0),
		batchv1.JobFailed:   ptr.Deref(mcj.Spec.FailedJobsHistoryLimit, 0),
	}
	ttl := mcj.Spec.JobTemplate.Spec.TTLSecondsAfterFinished
	for _, job := range slices.Backward(seen.jobs) {
		how := finished(job)
		if how == "" || job.DeletionTimestamp != nil {
			continue
		}
		left[how]--
		goneIn := job.CreationTimestamp.Add(keepFor).Sub(now)
		if left[how] >= 0 {
			if ttl == nil {
				continue
			}
			goneIn = max(goneIn, finishedAt(job).Add(time.Duration(*ttl)*time.Second).Sub(now))
		}
		switch {
		case !recorded(mcj, job):
		case goneIn > 0:
			p.wakeIn(goneIn)
		default:
			p.expired = append(p.expired, job)
		}
	}
}

func allManualRecorded(mcj *v1.MyCronJob, seen observed) bool {
	return !slices.ContainsFunc(seen.jobs, func(job *batchv1.Job) bool {
		return slotOf(job) == 0 && !recorded(mcj, job)
	})
}

// recorded returns whether the status, as it is stored, says of job that it ran.
func recorded(mcj *v1.MyCronJob, job *batchv1.Job) bool {
	if s := slotOf(job); s != 0 {
		return mcj.Status.AccountedTime != nil && s <= slotAt(mcj.Status.AccountedTime.Time)
	}
	value := job.Annotations[v1.AnnotationRunNow]
	return value == mcj.Status.LastRunNow || value != mcj.Annotations[v1.AnnotationRunNow]
}

// wakeIn asks for a sync after d, unless one comes earlier.
func (p *plan) wakeIn(d time.Duration) {
	if d > 0 && (p.wait == 0 || d < p.wait) {
		p.wait = d
	}
}
