// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

const (
	// sampleCronJob is the MyCronJob whose Jobs the demo waits for.
	sampleCronJob = "mycronjob-sample"
	// minJobs is the number of its Jobs that must complete.
	minJobs = 2
)

// job is a Job of a MyCronJob.
type job struct {
	name   string
	due    time.Time     // its slot or, for run-now, its creation
	runNow bool          // it has no slot
	late   time.Duration // from its slot to its creation
	ended  time.Time     // zero while it runs
	failed bool
}

// lookForJobs lists the Jobs of a MyCronJob.
func lookForJobs(ctx context.Context, a *api, e *example) error {
	jobs, err := a.kube.BatchV1().Jobs(e.object.GetNamespace()).List(ctx,
		metav1.ListOptions{LabelSelector: v1.LabelMyCronJob + "=" + e.object.GetName()})
	if err != nil {
		return fmt.Errorf("list the Jobs of %s: %w", e.name(), err)
	}
	e.observeJobs(jobs.Items)
	return nil
}

// observeJobs updates the Jobs of an example. Deleted Jobs keep their last states.
func (e *example) observeJobs(items []batchv1.Job) {
	for i := range items {
		seen := jobOf(&items[i])
		at, known := slices.BinarySearchFunc(e.jobs, seen, compareJobs)
		if known {
			e.jobs[at] = seen
		} else {
			e.jobs = slices.Insert(e.jobs, at, seen)
		}
	}
}

func compareJobs(a, b job) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.name, b.name)) }

func jobOf(object *batchv1.Job) job {
	j := job{name: object.Name, due: object.CreationTimestamp.Time, runNow: true}
	if second, err := strconv.ParseInt(object.Annotations[v1.AnnotationSlot], 10, 64); err == nil {
		j.due, j.runNow = time.Unix(second, 0), false
	}
	if late, err := strconv.ParseInt(object.Annotations[v1.AnnotationSkew], 10, 64); err == nil {
		j.late = time.Duration(late) * time.Millisecond
	}
	for _, c := range object.Status.Conditions {
		if c.Status == "True" && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			j.ended, j.failed = c.LastTransitionTime.Time, c.Type == batchv1.JobFailed
		}
	}
	return j
}

func (e *example) completed() int {
	n := 0
	for _, j := range e.jobs {
		if !j.ended.IsZero() && !j.failed {
			n++
		}
	}
	return n
}

// lacksJobs returns a message until minJobs of sampleCronJob have completed, and then "".
func lacksJobs(e *example) string {
	if e.object.GetName() == sampleCronJob && e.completed() < minJobs {
		return fmt.Sprintf("%d of %d Jobs have completed", e.completed(), minJobs)
	}
	return ""
}

func completedJobs(e *example) string { return fmt.Sprintf("%d/%d", e.completed(), len(e.jobs)) }

func lastJob(e *example) string {
	if len(e.jobs) == 0 {
		return ""
	}
	last := e.jobs[len(e.jobs)-1]
	return clock(last.due) + " " + last.state()
}

func (j job) state() string {
	switch {
	case j.ended.IsZero():
		return "running"
	case j.failed:
		return "failed"
	}
	return "completed"
}

// story describes a Job, without its name.
func (j job) story() string {
	story := fmt.Sprintf("due %s, %d ms late, %s", clock(j.due), j.late.Milliseconds(), j.state())
	if j.runNow {
		story = fmt.Sprintf("run now, made %s, %s", clock(j.due), j.state())
	}
	if !j.ended.IsZero() {
		story += " " + clock(j.ended)
	}
	return story
}

func clock(t time.Time) string { return t.Format(time.TimeOnly) }
