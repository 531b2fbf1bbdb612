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
	// maxWait bounds how long a wake-up is ahead: it counts time as it passes, and a
	// slot follows the clock, which somebody may set.
	maxWait = time.Minute
	// clockAhead is how far a clock must have been ahead for somebody to be told.
	clockAhead = time.Minute
)

// An operator whose caches are stale must not run a slot that another one has run,
// recorded and cleaned up. It cannot: a Job stays for keepFor (less the fraction
// of a second that its creation time leaves out); one is made later than
// lateAfter after its slot only when a look at the live objects shows that the
// slot has not run; and what was decided is begun within actFor, and given up
// after requestFor. That adds up to less than keepFor.
const (
	keepFor    = 10 * time.Second
	lateAfter  = 2 * time.Second
	actFor     = 2 * time.Second
	requestFor = 3 * time.Second
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
	// run are the slots to make Jobs for, in this order.
	run []slot
	// held is whether something is due that waits for a Job to finish.
	held bool
	// expired are finished Jobs beyond the history limits.
	expired []*batchv1.Job
	// next is the first slot after accounted; 0 if there is none, or suspended.
	next slot
	// wait is when to sync again without an event; 0 for never.
	wait time.Duration
}

// decide plans one sync: it begins to count anew, or records, or runs (see doc.go).
func decide(mcj *v1.MyCronJob, table timetable, seen observed, now time.Time) plan {
	suspend := ptr.Deref(mcj.Spec.Suspend, false)
	p := plan{accounted: watermark(mcj), suspended: suspend && mcj.Status.Suspended}
	if startsAnew(mcj, table) {
		p.closeBooks(mcj, seen, now)
		p.suspended = suspend
	} else if !p.suspended {
		p.account(mcj, table, seen, now)
	} else {
		p.runManual(mcj, seen)
	}
	if !suspend {
		p.next = table.after(p.accounted)
		p.wakeIn(min(table.untilNext(p.accounted, now), maxWait))
	}
	p.cleanUp(mcj, seen, now)
	return p
}

// account records, or else runs, the slots that are due.
func (p *plan) account(mcj *v1.MyCronJob, table timetable, seen observed, now time.Time) {
	due, more := table.due(p.accounted, now)
	switch {
	case seen.newest > p.accounted || seen.unrecordedRun(mcj) != nil:
		p.record(upTo(due, seen.newest), seen)
		if !more || seen.newest <= due[len(due)-1] {
			p.accounted = max(p.accounted, seen.newest)
		}
	case more: // So many are due that the first of them are missed by any policy.
		p.record(due, seen)
	case ptr.Deref(mcj.Spec.Suspend, false):
		p.record(due, seen)
		p.accounted, p.suspended = max(p.accounted, slotAt(now)), true
		p.runManual(mcj, seen)
	default:
		p.runDue(mcj, table, seen, due, now)
	}
}

// watermark returns the slot up to which everything is accounted for: all that
// came before the object was made is.
func watermark(mcj *v1.MyCronJob) slot {
	if at := mcj.Status.AccountedTime; at != nil {
		return slotAt(at.Time)
	}
	return slotAt(mcj.CreationTimestamp.Time)
}

// startsAnew returns whether counting starts anew at this moment: because the
// timetable is another than that of the status, or a suspension has ended, or
// the object was made suspended.
func startsAnew(mcj *v1.MyCronJob, table timetable) bool {
	suspend := ptr.Deref(mcj.Spec.Suspend, false)
	if mcj.Status.AccountedTime == nil {
		return suspend && mcj.Generation == 1
	}
	return mcj.Status.Schedule != table.words || (mcj.Status.Suspended && !suspend)
}

// closeBooks ends the timetable that the object has had until now: the slots of it
// that are due and have no Job are missed.
func (p *plan) closeBooks(mcj *v1.MyCronJob, seen observed, now time.Time) {
	if old, err := newTimetable(mcj, mcj.Status.Schedule); err == nil && !mcj.Status.Suspended {
		for more := true; more; {
			var due []slot
			due, more = old.due(p.accounted, now)
			p.record(due, seen)
		}
	}
	// At this very moment, even if a clock that was ahead has put the watermark into
	// the future; but not before a Job that is there.
	p.accounted = max(slotAt(now), seen.newest)
}

// record accounts for slots: those without a Job are missed.
func (p *plan) record(slots []slot, seen observed) {
	if len(slots) == 0 {
		return
	}
	p.accounted = slots[len(slots)-1]
	p.missed += withoutJob(slots, seen)
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
	p.record(missed, seen)
	p.runManual(mcj, seen)
	if len(run) == 0 {
		return
	}
	active := seen.active()
	switch mcj.Spec.ConcurrencyPolicy {
	case v1.ForbidConcurrent:
		if len(active) > 0 || p.manual != "" {
			p.held = true
			return
		}
		p.held = len(run) > 1
		run = run[:1]
	case v1.ReplaceConcurrent:
		p.replace = notDeleted(active)
	}
	p.run = run
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
	if value == "" || value == mcj.Status.LastRunNow || seen.unrecordedRun(mcj) != nil {
		return // An unrecorded Job is recorded first: the next name follows from it.
	}
	active := seen.active()
	switch {
	case mcj.Spec.ConcurrencyPolicy == v1.ForbidConcurrent && len(active) > 0:
		p.held = true
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

// recorded returns whether the status, as it is stored, says of job that it ran.
func recorded(mcj *v1.MyCronJob, job *batchv1.Job) bool {
	if s := slotOf(job); s != 0 {
		return mcj.Status.AccountedTime != nil && s <= slotAt(mcj.Status.AccountedTime.Time)
	}
	if number := numberOf(job); number != 1 || runNumber(mcj) == 0 {
		return number <= runNumber(mcj)
	}
	// An operator that knew no numbers may have stopped before it recorded this Job.
	value := job.Annotations[v1.AnnotationRunNow]
	return mcj.Status.LastRunNowNumber != 0 || value == "" || value == mcj.Status.LastRunNow || value != mcj.Annotations[v1.AnnotationRunNow]
}

// wakeIn asks for a sync after d, unless one comes earlier.
func (p *plan) wakeIn(d time.Duration) {
	if d > 0 && (p.wait == 0 || d < p.wait) {
		p.wait = d
	}
}
