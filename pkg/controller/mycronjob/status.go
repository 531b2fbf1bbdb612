/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mycronjob

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/report"
)

// Reasons of the conditions.
const (
	reasonScheduled   = "Scheduled"
	reasonSuspended   = "Suspended"
	reasonInvalidSpec = "InvalidSpec"
	reasonJobRejected = "JobRejected" // also of Degraded
	reasonJobNotMade  = "JobNotMade"  // also of Degraded
	reasonClockBehind = "ClockBehind"

	reasonSettled = "Settled"
	reasonHeld    = "SlotsHeld"

	reasonSlotTaken     = "SlotTaken"
	reasonLastJobFailed = "LastJobFailed"
)

// statusOfInvalid is the status of an object whose spec has errs. It has no
// timetable: when the spec is mended, counting starts anew.
func statusOfInvalid(mcj *v1.MyCronJob, seen observed, errs field.ErrorList, now time.Time) v1.MyCronJobStatus {
	status := *mcj.Status.DeepCopy()
	status.ObservedGeneration = mcj.Generation
	status.Active = int32(len(seen.active()))
	if status.Schedule != "" || status.AccountedTime == nil { // It was valid until now, or is new.
		p := plan{accounted: watermark(mcj)}
		p.closeBooks(mcj, seen, now)
		status.MissedTotal += p.missed
		status.AccountedTime = ptr.To(p.accounted.metaTime())
		status.Schedule, status.NextScheduleTime = "", nil
	}
	c := conditionsOf(&status, mcj, now)
	message := errs.ToAggregate().Error()
	c.Set(glassback.ConditionReady, false, reasonInvalidSpec, message)
	c.Set(glassback.ConditionProgressing, false, reasonInvalidSpec, "No Job is made until the spec is valid")
	c.Set(glassback.ConditionDegraded, true, reasonInvalidSpec, message)
	return status
}

// statusAfter is the status after a sync that saw this, planned p and came to out.
func statusAfter(mcj *v1.MyCronJob, table timetable, seen observed, p plan, out outcome, now time.Time) v1.MyCronJobStatus {
	status := *mcj.Status.DeepCopy()
	status.ObservedGeneration = mcj.Generation
	status.Schedule = table.words
	status.Suspended = p.suspended
	status.Active = int32(len(seen.active()))
	status.MissedTotal += p.missed
	accounted, next := p.accounted, p.next
	if out.settled != 0 {
		accounted, next = out.settled, table.after(out.settled)
		if out.missed {
			status.MissedTotal++
		}
	}
	status.AccountedTime = ptr.To(accounted.metaTime())
	status.NextScheduleTime = nil
	if next != 0 {
		status.NextScheduleTime = ptr.To(next.metaTime())
	}
	recordRun(&status, mcj, seen, out)
	statusOfJobs(&status, seen)
	c := conditionsOf(&status, mcj, now)
	c.ready(mcj, seen, p, out)
	c.progressing(p)
	c.degraded(mcj, seen, out)
	return status
}

// recordRun records the latest Job that was run by hand.
func recordRun(status *v1.MyCronJobStatus, mcj *v1.MyCronJob, seen observed, out outcome) {
	value := mcj.Annotations[v1.AnnotationRunNow]
	switch job := seen.unrecordedRun(mcj); {
	case job != nil: // If something took its annotation away, it is the one that was asked for.
		status.LastRunNow = cmp.Or(job.Annotations[v1.AnnotationRunNow], value)
		status.LastRunNowNumber = max(runNumber(mcj), numberOf(job))
	case out.settledManual:
		status.LastRunNow, status.LastRunNowNumber = value, runNumber(mcj)+1
	case value == "" || value == mcj.Status.LastRunNow:
		status.LastRunNowNumber = runNumber(mcj) // Of an operator that knew no numbers.
	}
}

// statusOfJobs brings the times up to those of the Jobs that are there. What it
// knows of Jobs that have been deleted since stays.
func statusOfJobs(status *v1.MyCronJobStatus, seen observed) {
	if s := seen.newest; s != 0 && (status.LastScheduleTime == nil || s > slotAt(status.LastScheduleTime.Time)) {
		status.LastScheduleTime = ptr.To(s.metaTime())
	}
	for _, job := range seen.jobs {
		if slotOf(job) == seen.newest && seen.newest != 0 {
			if late, err := strconv.ParseInt(job.Annotations[v1.AnnotationSkew], 10, 64); err == nil {
				status.SkewMillis = &late
			}
		}
		if finished(job) == batchv1.JobComplete {
			if at := finishedAt(job); status.LastSuccessfulTime == nil || status.LastSuccessfulTime.Before(&at) {
				status.LastSuccessfulTime = &at
			}
		}
	}
}

// conditions sets the conditions of one status.
type conditions struct {
	report.Conditions
	schedule string // in words
}

func conditionsOf(status *v1.MyCronJobStatus, mcj *v1.MyCronJob, now time.Time) conditions {
	return conditions{report.Conditions{List: &status.Conditions, Generation: mcj.Generation, Now: now}, status.Schedule}
}

// stays returns whether a condition keeps its reason: what it told of a slot holds
// until a Job is made for a later one, or the spec changes.
func (c conditions) stays(kind, reason string, mcj *v1.MyCronJob, seen observed) bool {
	was := meta.FindStatusCondition(mcj.Status.Conditions, kind)
	return was != nil && was.Reason == reason && was.ObservedGeneration == mcj.Generation && seen.newest <= watermark(mcj)
}

func (c conditions) ready(mcj *v1.MyCronJob, seen observed, p plan, out outcome) {
	ahead := p.accounted.time().Sub(c.Now)
	switch {
	case p.suspended:
		c.Set(glassback.ConditionReady, false, reasonSuspended, "No Job is made while spec.suspend is true")
	case ahead > clockAhead:
		c.Set(glassback.ConditionReady, false, reasonClockBehind, fmt.Sprintf("Slots are accounted for up to %s, which is to come: "+
			"a clock is or was wrong. No Job is made until then; suspend and resume to start anew now", p.accounted.time().UTC().Format(time.RFC3339)))
	case out.reason == reasonJobRejected || out.reason == reasonJobNotMade:
		c.Set(glassback.ConditionReady, false, out.reason, out.message)
	case c.stays(glassback.ConditionReady, reasonJobRejected, mcj, seen), c.stays(glassback.ConditionReady, reasonJobNotMade, mcj, seen):
	default:
		c.Set(glassback.ConditionReady, true, reasonScheduled, "Jobs are made by schedule: "+c.schedule)
	}
}

func (c conditions) progressing(p plan) {
	if p.held {
		c.Set(glassback.ConditionProgressing, true, reasonHeld, "Slots that are due wait for a running Job to finish")
		return
	}
	c.Set(glassback.ConditionProgressing, false, reasonSettled, "No slot waits")
}

func (c conditions) degraded(mcj *v1.MyCronJob, seen observed, out outcome) {
	last := lastFinished(seen)
	was := meta.FindStatusCondition(mcj.Status.Conditions, glassback.ConditionDegraded)
	// A failure is told of until a Job has ended well after it, even if the history
	// keeps no failed Jobs.
	failedBefore := was != nil && was.Reason == reasonLastJobFailed
	switch {
	case out.reason != "":
		c.Set(glassback.ConditionDegraded, true, out.reason, out.message)
	case c.stays(glassback.ConditionDegraded, reasonJobRejected, mcj, seen), c.stays(glassback.ConditionDegraded, reasonJobNotMade, mcj, seen),
		c.stays(glassback.ConditionDegraded, reasonSlotTaken, mcj, seen):
	case last != nil && finished(last) == batchv1.JobFailed:
		c.Set(glassback.ConditionDegraded, true, reasonLastJobFailed, fmt.Sprintf("Job %s failed", last.Name))
	case failedBefore && (last == nil || !finishedAt(last).After(was.LastTransitionTime.Time)):
		c.Set(glassback.ConditionDegraded, true, reasonLastJobFailed, was.Message)
	default:
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Jobs are made, and the last one that finished was successful")
	}
}

// lastFinished returns the Job that finished last, nil if none has.
func lastFinished(seen observed) *batchv1.Job {
	var last *batchv1.Job
	for _, job := range seen.jobs {
		if finished(job) != "" && (last == nil || !finishedAt(job).Time.Before(finishedAt(last).Time)) {
			last = job
		}
	}
	return last
}
