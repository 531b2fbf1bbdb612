/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mycronjob

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// Reasons of the conditions.
const (
	reasonScheduled   = "Scheduled"
	reasonSuspended   = "Suspended"
	reasonInvalidSpec = "InvalidSpec"
	reasonJobRejected = "JobRejected"

	reasonSettled = "Settled"
	reasonHeld    = "SlotsHeld"

	reasonAsExpected    = "AsExpected"
	reasonSlotTaken     = "SlotTaken"
	reasonLastJobFailed = "LastJobFailed"
)

// invalidStatus is the status of an object whose spec has errs. It has no
// timetable: when the spec is mended, counting starts anew.
func invalidStatus(mcj *v1.MyCronJob, seen observed, errs field.ErrorList, now time.Time) v1.MyCronJobStatus {
	status := *mcj.Status.DeepCopy()
	status.ObservedGeneration = mcj.Generation
	status.Schedule = ""
	status.NextScheduleTime = nil
	status.Active = int32(len(seen.active()))
	c := conditions{&status, mcj.Generation, now}
	message := errs.ToAggregate().Error()
	c.set(v1.ConditionReady, false, reasonInvalidSpec, message)
	c.set(v1.ConditionProgressing, false, reasonInvalidSpec, "No Job is made until the spec is valid")
	c.set(v1.ConditionDegraded, true, reasonInvalidSpec, message)
	return status
}

// status is the status after a sync that saw this, planned p and came to out.
func status(mcj *v1.MyCronJob, table timetable, seen observed, p plan, out outcome, now time.Time) v1.MyCronJobStatus {
	status := *mcj.Status.DeepCopy()
	status.ObservedGeneration = mcj.Generation
	status.Schedule = table.words
	status.Suspended = p.suspended
	status.Active = int32(len(seen.active()))
	status.MissedTotal += p.missed
	accounted := p.accounted
	if out.givenUp != 0 {
		accounted = out.givenUp
		status.MissedTotal += p.skipped + 1
	}
	status.AccountedTime = ptr.To(accounted.metaTime())
	status.NextScheduleTime = nil
	if next := p.next; next != 0 {
		if out.givenUp != 0 {
			next = table.after(accounted)
		}
		status.NextScheduleTime = ptr.To(next.metaTime())
	}
	if value := mcj.Annotations[v1.AnnotationRunNow]; value != "" && (seen.ranNow(value) || out.manualGivenUp) {
		status.LastRunNow = value
	}
	statusOfJobs(&status, seen)
	c := conditions{&status, mcj.Generation, now}
	c.ready(mcj, seen, p, out)
	c.progressing(p)
	c.degraded(mcj, seen, out)
	return status
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
	status     *v1.MyCronJobStatus
	generation int64
	now        time.Time
}

func (c conditions) set(kind string, is bool, reason, message string) {
	value := metav1.ConditionFalse
	if is {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&c.status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message,
		ObservedGeneration: c.generation, LastTransitionTime: metav1.NewTime(c.now.Truncate(time.Second)),
	})
}

// stays returns whether a condition keeps its reason: what it told of a slot holds
// until a Job is made for a later one, or the spec changes.
func (c conditions) stays(kind, reason string, mcj *v1.MyCronJob, seen observed) bool {
	was := meta.FindStatusCondition(mcj.Status.Conditions, kind)
	return was != nil && was.Reason == reason && was.ObservedGeneration == mcj.Generation &&
		(mcj.Status.AccountedTime == nil || seen.newest <= slotAt(mcj.Status.AccountedTime.Time))
}

func (c conditions) ready(mcj *v1.MyCronJob, seen observed, p plan, out outcome) {
	switch {
	case p.suspended:
		c.set(v1.ConditionReady, false, reasonSuspended, "No Job is made while spec.suspend is true")
	case out.rejected != "":
		c.set(v1.ConditionReady, false, reasonJobRejected, out.rejected)
	case c.stays(v1.ConditionReady, reasonJobRejected, mcj, seen):
	default:
		c.set(v1.ConditionReady, true, reasonScheduled, "Jobs are made by schedule: "+c.status.Schedule)
	}
}

func (c conditions) progressing(p plan) {
	if p.held > 0 {
		c.set(v1.ConditionProgressing, true, reasonHeld, "Slots that are due wait for a running Job to finish")
		return
	}
	c.set(v1.ConditionProgressing, false, reasonSettled, "No slot waits")
}

func (c conditions) degraded(mcj *v1.MyCronJob, seen observed, out outcome) {
	var last *batchv1.Job // the last one that finished
	for _, job := range slices.Backward(seen.jobs) {
		if finished(job) != "" {
			last = job
			break
		}
	}
	switch {
	case out.rejected != "":
		c.set(v1.ConditionDegraded, true, reasonJobRejected, out.rejected)
	case out.taken != "":
		c.set(v1.ConditionDegraded, true, reasonSlotTaken, out.taken)
	case c.stays(v1.ConditionDegraded, reasonJobRejected, mcj, seen), c.stays(v1.ConditionDegraded, reasonSlotTaken, mcj, seen):
	case last != nil && finished(last) == batchv1.JobFailed:
		c.set(v1.ConditionDegraded, true, reasonLastJobFailed, fmt.Sprintf("Job %s failed", last.Name))
	case last == nil && c.stays(v1.ConditionDegraded, reasonLastJobFailed, mcj, seen):
	default:
		c.set(v1.ConditionDegraded, false, reasonAsExpected, "Jobs are made, and the last one that finished was successful")
	}
}
