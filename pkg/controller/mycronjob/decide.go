// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/loop"
)

const (
	// skipAfter is how late a Job may start with missedRunPolicy Skip.
	skipAfter = 2 * time.Second
	// maxCaughtUp is how many of the latest due slots run with missedRunPolicy All. Earlier ones count as missed.
	maxCaughtUp = 100
	// maxWait limits the time to the next sync: a timer counts elapsed time, but a slot follows the clock, which an administrator may set.
	maxWait = time.Minute
	// clockAhead is how far in the future the watermark must be before a condition reports it. A Job that was
	// created that long before its slot is of a clock that was wrong: it does not count until then.
	clockAhead = time.Minute
)

// An operator with stale caches must not run a slot that another operator ran, recorded and cleaned up. These times prevent that. A Job is
// deleted keepFor after its creationTimestamp or later. That is a whole second, so the Job exists for more than keepFor minus one second. A
// Job is created later than lateAfter after its slot only if the live objects show that the slot has not run. They are read within
// requestFor. A Job is not created later than actFor after the decision, and its creation times out after requestFor. Both sums are less
// than keepFor minus one second: lateAfter, actFor and requestFor; requestFor, actFor and requestFor.
const (
	keepFor    = 10 * time.Second
	lateAfter  = 2 * time.Second
	actFor     = 2 * time.Second
	requestFor = 3 * time.Second
)

// plan is the decision of one sync.
type plan struct {
	// invalid says why the spec is invalid; "" if the spec is valid. If it is invalid, the plan creates and deletes no Job.
	invalid string
	// table is the timetable of the spec; the zero value if the spec is invalid.
	table timetable
	// accounted is the watermark to record: no slot up to it will run any more. Each due slot up to it ran, is counted as missed, or was
	// suspended. missed is the number to add to status.missedTotal.
	accounted slot
	missed    int64
	// suspended is the value for status.suspended.
	suspended bool
	// replace are the Jobs to delete before a Job is created.
	replace []*batchv1.Job
	// manual is the value of the run-now annotation to create a Job for; "" for none.
	manual string
	// run are the slots to create Jobs for, in this order.
	run []slot
	// held says that a due slot or a run-now Job waits until a running Job has finished.
	held bool
	// expired are the finished Jobs to delete.
	expired []*batchv1.Job
	// next is the first slot after accounted; 0 if there is none, or if the MyCronJob is suspended.
	next slot
	// wait is the time to the next sync, if no event comes earlier; 0 for none.
	wait time.Duration
}

// decide returns the plan for the observed state: to begin a new count, to record Jobs, or to run slots (see doc.go).
func decide(o *observed) plan {
	if errs := o.mcj.Validate(nil); len(errs) > 0 {
		return decideInvalid(o, errs.ToAggregate().Error())
	}
	table, err := newTimetable(o.mcj, words(&o.mcj.Spec))
	if err != nil {
		return decideInvalid(o, err.Error())
	}
	suspend := ptr.Deref(o.mcj.Spec.Suspend, false)
	p := plan{table: table, accounted: watermark(o.mcj), suspended: suspend && o.mcj.Status.Suspended}
	switch {
	case beginsNewCount(o.mcj, table):
		p.endCount(o)
		p.suspended = suspend
	case p.suspended:
		p.runManual(o)
	default:
		p.account(o)
	}
	if !suspend {
		p.next = table.after(p.accounted)
		p.wait = min(table.untilNext(p.accounted, o.now), maxWait)
	}
	p.cleanUp(o)
	return p
}

// decideInvalid returns the plan for an invalid spec. Without a timetable there are no slots: a new count begins when the
// spec is valid again.
func decideInvalid(o *observed, invalid string) plan {
	p := plan{invalid: invalid, accounted: watermark(o.mcj), suspended: o.mcj.Status.Suspended}
	if status := o.mcj.Status; status.Schedule != "" || status.AccountedTime == nil { // The spec was valid before, or is new.
		p.endCount(o)
	}
	return p
}

// account records the due slots up to the newest Job. If no Job is ahead of the watermark, it runs the due slots. When a suspension
// begins, it counts them as missed.
func (p *plan) account(o *observed) {
	due, more := p.table.due(p.accounted, o.now)
	switch {
	case o.newest > p.accounted || o.unrecordedRun() != nil:
		// If more slots are due than in due, some of them may be before newest. The next sync counts these.
		p.record(upTo(due, o.newest), o)
		if !more || o.newest <= due[len(due)-1] {
			p.accounted = max(p.accounted, o.newest)
		}
	case more: // More than maxDue slots are due: every policy counts the first maxDue as missed.
		p.record(due, o)
	case ptr.Deref(o.mcj.Spec.Suspend, false):
		p.recordAll(p.table, o)
		p.accounted, p.suspended = max(p.accounted, slotAt(o.now)), true
		p.runManual(o)
	default:
		p.runDue(o, due)
	}
}

// watermark returns the slot up to which no slot will run any more. Before the first status, it is the second at which the object was
// created.
func watermark(mcj *v1.MyCronJob) slot {
	if at := mcj.Status.AccountedTime; at != nil {
		return slotAt(at.Time)
	}
	return slotAt(mcj.CreationTimestamp.Time)
}

// beginsNewCount returns whether a new count begins now: the timetable differs from that in the status, a suspension
// has ended, or the object was created suspended.
func beginsNewCount(mcj *v1.MyCronJob, table timetable) bool {
	suspend := ptr.Deref(mcj.Spec.Suspend, false)
	if mcj.Status.AccountedTime == nil {
		return suspend && mcj.Generation == 1
	}
	return mcj.Status.Schedule != table.words || (mcj.Status.Suspended && !suspend)
}

// endCount ends the count of the timetable in the status: its due slots without a Job are missed.
func (p *plan) endCount(o *observed) {
	if old, err := newTimetable(o.mcj, o.mcj.Status.Schedule); err == nil && !o.mcj.Status.Suspended {
		p.recordAll(old, o)
	}
	// The new count begins now, even if a wrong clock has set the watermark to a future time. But it does not begin before the newest Job.
	p.accounted = max(slotAt(o.now), o.newest)
}

// recordAll records all slots of a timetable up to now, also those whose jitter has not passed: none of them will run any more.
func (p *plan) recordAll(t timetable, o *observed) {
	for more := true; more; {
		var due []slot
		due, more = t.due(p.accounted, o.now.Add(t.offset))
		p.record(due, o)
	}
}

// record moves the watermark to the last of slots, and counts each of slots that has no Job as missed.
func (p *plan) record(slots []slot, o *observed) {
	if len(slots) == 0 {
		return
	}
	p.accounted = slots[len(slots)-1]
	ran := make(map[slot]bool, len(o.jobs))
	for _, job := range o.jobs {
		ran[slotOf(job)] = true
	}
	for _, s := range slots {
		if !ran[s] {
			p.missed++
		}
	}
}

func upTo(slots []slot, last slot) []slot {
	end, found := slices.BinarySearch(slots, last)
	if found {
		end++
	}
	return slots[:end]
}

// runDue plans the Jobs of the due slots, none of which has a Job.
func (p *plan) runDue(o *observed, due []slot) {
	missed, run := split(o, p.table, due)
	p.record(missed, o)
	p.runManual(o)
	if len(run) == 0 {
		return
	}
	if o.mcj.Spec.ConcurrencyPolicy == v1.ReplaceConcurrent {
		if p.manual == "" { // Otherwise the run-now Job is recorded first. Then the Job of the slot replaces it.
			p.run, p.replace = run, notDeleted(o.active())
		}
		return
	}
	room := o.room()
	if p.manual != "" {
		room--
	}
	p.held = len(run) > room
	p.run = run[:min(len(run), room)]
}

// room returns how many Jobs may be created while those that run go on.
func (o *observed) room() int {
	switch spec := &o.mcj.Spec; {
	case spec.ConcurrencyPolicy == v1.ForbidConcurrent:
		return max(0, 1-len(o.active()))
	case spec.MaxActive != nil:
		return max(0, int(*spec.MaxActive)-len(o.active()))
	}
	return math.MaxInt
}

// split divides the due slots into those that count as missed, and those to run.
func split(o *observed, table timetable, due []slot) (missed, run []slot) {
	// firstWithin returns the index of the first slot that is late by limit at most.
	firstWithin := func(limit time.Duration) int {
		i, _ := slices.BinarySearchFunc(due, o.now.Add(-limit), func(s slot, t time.Time) int {
			return table.start(s).Compare(t)
		})
		return i
	}
	first := 0
	if deadline := o.mcj.Spec.StartingDeadlineSeconds; deadline != nil {
		first = firstWithin(time.Duration(*deadline) * time.Second)
	}
	switch o.mcj.Spec.MissedRunPolicy {
	case v1.AllMissed:
		first = max(first, len(due)-maxCaughtUp)
	case v1.SkipMissed:
		first = max(first, len(due)-1, firstWithin(skipAfter))
	default:
		first = max(first, len(due)-1)
	}
	return due[:first], due[first:]
}

// runManual plans the Job that the run-now annotation requests.
func (p *plan) runManual(o *observed) {
	value := o.mcj.Annotations[v1.AnnotationRunNow]
	if value == "" || value == o.mcj.Status.LastRunNow || o.unrecordedRun() != nil {
		return // An unrecorded Job is recorded first: the number in the next name depends on it.
	}
	if o.room() == 0 {
		p.held = true
		return
	}
	if o.mcj.Spec.ConcurrencyPolicy == v1.ReplaceConcurrent {
		p.replace = notDeleted(o.active())
	}
	p.manual = value
}

func notDeleted(jobs []*batchv1.Job) []*batchv1.Job {
	return slices.DeleteFunc(jobs, func(job *batchv1.Job) bool { return job.DeletionTimestamp != nil })
}

// cleanUp plans the deletion of finished Jobs that exceed the history limits, or the template's ttlSecondsAfterFinished.
// It keeps a Job that is not recorded, or that was created just now (see keepFor).
func (p *plan) cleanUp(o *observed) {
	left := map[batchv1.JobConditionType]int32{
		batchv1.JobComplete: ptr.Deref(o.mcj.Spec.SuccessfulJobsHistoryLimit, 0),
		batchv1.JobFailed:   ptr.Deref(o.mcj.Spec.FailedJobsHistoryLimit, 0),
	}
	ttl := o.mcj.Spec.JobTemplate.Spec.TTLSecondsAfterFinished
	for _, job := range slices.Backward(o.jobs) {
		how := finished(job)
		if how == "" || job.DeletionTimestamp != nil || o.isAhead(job) {
			continue
		}
		left[how]--
		goneIn := job.CreationTimestamp.Add(keepFor).Sub(o.now)
		if left[how] >= 0 {
			if ttl == nil {
				continue
			}
			goneIn = max(goneIn, finishedAt(job).Add(time.Duration(*ttl)*time.Second).Sub(o.now))
		}
		switch {
		case !recorded(o.mcj, job):
		case goneIn > 0:
			p.wait = loop.Soonest(p.wait, goneIn)
		default:
			p.expired = append(p.expired, job)
		}
	}
}

// recorded returns whether the stored status records that job ran.
func recorded(mcj *v1.MyCronJob, job *batchv1.Job) bool {
	if s := slotOf(job); s != 0 {
		return mcj.Status.AccountedTime != nil && s <= slotAt(mcj.Status.AccountedTime.Time)
	}
	number := numberOf(job)
	if number == 1 && mcj.Status.LastRunNowNumber == 0 && mcj.Status.LastRunNow != "" {
		// An older version of the operator, which had no numbers, wrote the status. It may have stopped before it recorded this Job.
		value := job.Annotations[v1.AnnotationRunNow]
		return value == "" || value == mcj.Status.LastRunNow || value != mcj.Annotations[v1.AnnotationRunNow]
	}
	return number <= runNumber(mcj)
}
