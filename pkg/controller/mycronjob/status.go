// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
	reasonManyActive    = "ManyJobsActive"
	reasonJobNotDeleted = "JobNotDeleted"
)

// manyActive is how many Jobs may run at the same time before a condition reports it, without spec.maxActive.
const manyActive = 100

// statusOf returns the status after a sync that carried out p.
func statusOf(o *observed, p plan, out outcome) v1.MyCronJobStatus {
	status := *o.mcj.Status.DeepCopy()
	status.ObservedGeneration = o.mcj.Generation
	status.Schedule = p.table.words
	status.Suspended = p.suspended
	status.Active = int32(len(o.active()))
	status.MissedTotal += p.missed
	accounted, next := p.accounted, p.next
	if out.settled != 0 {
		accounted, next = out.settled, p.table.after(out.settled)
		if out.missed {
			status.MissedTotal++
		}
	}
	status.AccountedTime = ptr.To(accounted.metaTime())
	status.NextScheduleTime = nil
	if next != 0 {
		status.NextScheduleTime = ptr.To(next.metaTime())
	}
	c := report.Conditions{List: &status.Conditions, Generation: o.mcj.Generation, Now: o.now}
	if p.invalid != "" {
		c.Set(glassback.ConditionReady, false, reasonInvalidSpec, p.invalid)
		c.Set(glassback.ConditionProgressing, false, reasonInvalidSpec, "No Job is made until the spec is valid")
		c.Set(glassback.ConditionDegraded, true, reasonInvalidSpec, p.invalid)
		return status
	}
	recordRun(&status, o, out)
	recordJobs(&status, o)
	ready(c, o, p, out)
	progressing(c, p)
	degraded(c, o, out)
	return status
}

// recordRun records the latest run-now Job.
func recordRun(status *v1.MyCronJobStatus, o *observed, out outcome) {
	value := o.mcj.Annotations[v1.AnnotationRunNow]
	switch job := o.unrecordedRun(); {
	case job != nil: // A Job that has lost its annotation counts as the Job of the present value.
		status.LastRunNow = cmp.Or(job.Annotations[v1.AnnotationRunNow], value)
		status.LastRunNowNumber = max(runNumber(o.mcj), numberOf(job))
	case out.settledManual:
		status.LastRunNow, status.LastRunNowNumber = value, runNumber(o.mcj)+1
	case value == "" || value == o.mcj.Status.LastRunNow:
		status.LastRunNowNumber = runNumber(o.mcj) // The status may come from an older version, which had no numbers.
	}
}

// recordJobs updates the times of the latest Jobs. It keeps the times of Jobs that have been deleted since.
func recordJobs(status *v1.MyCronJobStatus, o *observed) {
	if s := o.newest; s != 0 && (status.LastScheduleTime == nil || s > slotAt(status.LastScheduleTime.Time)) {
		status.LastScheduleTime = ptr.To(s.metaTime())
	}
	for _, job := range o.jobs {
		if slotOf(job) == o.newest && o.newest != 0 {
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

// stays returns whether a condition has one of these reasons and keeps it: a reason about a slot stays until a later slot
// has a Job, or the spec changes.
func stays(o *observed, kind string, reasons ...string) bool {
	was := meta.FindStatusCondition(o.mcj.Status.Conditions, kind)
	return was != nil && slices.Contains(reasons, was.Reason) && was.ObservedGeneration == o.mcj.Generation &&
		o.newest <= watermark(o.mcj)
}

func ready(c report.Conditions, o *observed, p plan, out outcome) {
	ahead := p.accounted.time().Sub(c.Now)
	switch {
	case p.suspended:
		c.Set(glassback.ConditionReady, false, reasonSuspended, "No Job is made while spec.suspend is true")
	case ahead > clockAhead:
		c.Set(glassback.ConditionReady, false, reasonClockBehind, fmt.Sprintf("Slots are accounted for up to %s, which is in the future: "+
			"a clock is or was wrong. No Job is made until then; suspend and resume to begin a new count now",
			p.accounted.time().UTC().Format(time.RFC3339)))
	case out.reason == reasonJobRejected || out.reason == reasonJobNotMade:
		c.Set(glassback.ConditionReady, false, out.reason, out.message)
	case stays(o, glassback.ConditionReady, reasonJobRejected, reasonJobNotMade):
	default:
		c.Set(glassback.ConditionReady, true, reasonScheduled, "Jobs are made by schedule: "+p.table.words)
	}
}

func progressing(c report.Conditions, p plan) {
	if p.held {
		c.Set(glassback.ConditionProgressing, true, reasonHeld, "Slots that are due wait for a running Job to finish")
		return
	}
	c.Set(glassback.ConditionProgressing, false, reasonSettled, "No slot waits")
}

func degraded(c report.Conditions, o *observed, out outcome) {
	last := lastFinished(o)
	was := meta.FindStatusCondition(o.mcj.Status.Conditions, glassback.ConditionDegraded)
	// A failure is reported until a later Job succeeds, even if the history keeps no failed Jobs.
	failedBefore := was != nil && was.Reason == reasonLastJobFailed
	switch {
	case out.reason != "":
		c.Set(glassback.ConditionDegraded, true, out.reason, out.message)
	case stays(o, glassback.ConditionDegraded, reasonJobRejected, reasonJobNotMade, reasonSlotTaken):
	case len(o.active()) > manyActive && o.mcj.Spec.MaxActive == nil:
		c.Set(glassback.ConditionDegraded, true, reasonManyActive, fmt.Sprintf("More than %d Jobs run at the same time: do they ever end? "+
			"Set maxActive, or activeDeadlineSeconds in jobTemplate.spec", manyActive))
	case last != nil && finished(last) == batchv1.JobFailed:
		c.Set(glassback.ConditionDegraded, true, reasonLastJobFailed, fmt.Sprintf("Job %s failed", last.Name))
	case failedBefore && (last == nil || !finishedAt(last).After(was.LastTransitionTime.Time)):
		c.Set(glassback.ConditionDegraded, true, reasonLastJobFailed, was.Message)
	default:
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Jobs are made, and the last one that finished was successful")
	}
}

// lastFinished returns the Job that finished last; nil if no Job has finished.
func lastFinished(o *observed) *batchv1.Job {
	var last *batchv1.Job
	for _, job := range o.jobs {
		if finished(job) != "" && (last == nil || !finishedAt(job).Time.Before(finishedAt(last).Time)) {
			last = job
		}
	}
	return last
}
