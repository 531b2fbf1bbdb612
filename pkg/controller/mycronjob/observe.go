// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// controllerIndex finds Jobs by the UID of their controller.
const controllerIndex = "controllerUID"

func indexByController(obj any) ([]string, error) {
	job, ok := obj.(*batchv1.Job)
	if !ok {
		return nil, nil
	}
	if owner := metav1.GetControllerOfNoCopy(job); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

// observed is the state that one sync decides on.
type observed struct {
	mcj *v1.MyCronJob
	// jobs are the Jobs that the MyCronJob controls, in the order of their slots. A run-now Job is sorted by the second
	// of its creation. The Jobs belong to the cache: do not change them.
	jobs []*batchv1.Job
	// newest is the latest slot that has a Job, without Jobs that are ahead; 0 if no slot has one.
	newest slot
	now    time.Time
}

// observe reads the Jobs of a MyCronJob from the cache.
func (c *Controller) observe(_ context.Context, mcj *v1.MyCronJob) (*observed, error) {
	objects, err := c.jobs.ByIndex(controllerIndex, string(mcj.UID))
	if err != nil {
		return nil, fmt.Errorf("list Jobs of MyCronJob %s: %w", mcj.Name, err)
	}
	o := &observed{mcj: mcj, now: c.clock.Now()}
	for _, object := range objects {
		if job, ok := object.(*batchv1.Job); ok && job.Namespace == mcj.Namespace {
			o.jobs = append(o.jobs, job)
			if !o.isAhead(job) {
				o.newest = max(o.newest, slotOf(job))
			}
		}
	}
	slices.SortFunc(o.jobs, func(a, b *batchv1.Job) int {
		return cmp.Or(cmp.Compare(orderOf(a), orderOf(b)), cmp.Compare(a.Name, b.Name))
	})
	return o, nil
}

// isAhead returns whether the slot of a Job is in the future, and so far after its creation that a clock was wrong then.
func (o *observed) isAhead(job *batchv1.Job) bool {
	s := slotOf(job)
	return s > slotAt(o.now) && s > slotAt(job.CreationTimestamp.Add(clockAhead))
}

// slotOf returns the slot of a Job; 0 for a run-now Job. It reads the name, which cannot change.
func slotOf(job *batchv1.Job) slot {
	owner := metav1.GetControllerOfNoCopy(job)
	if owner == nil {
		return 0
	}
	digits, ok := strings.CutPrefix(job.Name, owner.Name+"-")
	second, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return slot(second)
}

func orderOf(job *batchv1.Job) slot {
	if s := slotOf(job); s != 0 {
		return s
	}
	return slotAt(job.CreationTimestamp.Time)
}

// has returns whether the cache shows job.
func (o *observed) has(job *batchv1.Job) bool {
	return slices.ContainsFunc(o.jobs, func(cached *batchv1.Job) bool { return cached.UID == job.UID })
}

// unrecordedRun returns the latest run-now Job that the status does not record; nil if there is none. Several Jobs
// may have the number 1, because their names contain a hash instead: see hashName. Of these it prefers the Job of the present run-now
// annotation.
func (o *observed) unrecordedRun() *batchv1.Job {
	var latest *batchv1.Job
	for _, job := range o.jobs {
		if recorded(o.mcj, job) || slotOf(job) != 0 {
			continue
		}
		asked := job.Annotations[v1.AnnotationRunNow] == o.mcj.Annotations[v1.AnnotationRunNow]
		if latest == nil || numberOf(job) > numberOf(latest) || (numberOf(job) == numberOf(latest) && asked) {
			latest = job
		}
	}
	return latest
}

// numberOf returns the number of a run-now Job; 0 for any other Job. It reads the name, as slotOf does.
func numberOf(job *batchv1.Job) int64 {
	owner := metav1.GetControllerOfNoCopy(job)
	if owner == nil {
		return 0
	}
	if digits, ok := strings.CutPrefix(job.Name, owner.Name+"-run"); ok {
		if number, err := strconv.ParseInt(digits, 10, 64); err == nil && number > 1 {
			return number
		}
		return 0
	}
	if strings.HasPrefix(job.Name, owner.Name+"-r") {
		return 1
	}
	return 0
}

// active returns the Jobs that have not finished.
func (o *observed) active() []*batchv1.Job {
	var active []*batchv1.Job
	for _, job := range o.jobs {
		if finished(job) == "" {
			active = append(active, job)
		}
	}
	return active
}

// endOf returns the condition that says how a Job ended; nil while it runs.
func endOf(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		condition := &job.Status.Conditions[i]
		ended := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if ended && condition.Status == corev1.ConditionTrue {
			return condition
		}
	}
	return nil
}

// finished returns Complete or Failed, or "" while the Job runs.
func finished(job *batchv1.Job) batchv1.JobConditionType {
	return ptr.Deref(endOf(job), batchv1.JobCondition{}).Type
}

// finishedAt returns the time at which the Job finished; the zero time while it runs.
func finishedAt(job *batchv1.Job) metav1.Time {
	return ptr.Deref(endOf(job), batchv1.JobCondition{}).LastTransitionTime
}
