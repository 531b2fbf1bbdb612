/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mycronjob

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// observed is what one sync sees of a MyCronJob's Jobs. The Jobs are the cache's
// own: nobody may change them.
type observed struct {
	// jobs are those that the MyCronJob controls, oldest slot first; those that
	// were run by hand stand where the second of their creation puts them.
	jobs []*batchv1.Job
	// newest is the latest slot that has a Job, 0 if none has.
	newest slot
}

func (c *Controller) observe(mcj *v1.MyCronJob) (observed, error) {
	objects, err := c.jobs.ByIndex(controllerIndex, string(mcj.UID))
	if err != nil {
		return observed{}, fmt.Errorf("list Jobs of MyCronJob %s: %w", mcj.Name, err)
	}
	var seen observed
	for _, o := range objects {
		if job, ok := o.(*batchv1.Job); ok && job.Namespace == mcj.Namespace {
			seen.jobs = append(seen.jobs, job)
			seen.newest = max(seen.newest, slotOf(job))
		}
	}
	slices.SortFunc(seen.jobs, func(a, b *batchv1.Job) int {
		return cmp.Or(cmp.Compare(orderOf(a), orderOf(b)), cmp.Compare(a.Name, b.Name))
	})
	return seen, nil
}

// slotOf returns the slot that job was made for, 0 if it was run by hand. It goes
// by the name, since that is what nobody can change.
func slotOf(job *batchv1.Job) slot {
	owner := metav1.GetControllerOfNoCopy(job)
	if owner == nil {
		return 0
	}
	digits, _ := strings.CutPrefix(job.Name, owner.Name+"-")
	second, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
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
func (o observed) has(job *batchv1.Job) bool {
	return slices.ContainsFunc(o.jobs, func(cached *batchv1.Job) bool { return cached.UID == job.UID })
}

// unrecordedRun returns the latest Job that was run by hand, if the status does not
// have it yet; nil otherwise. Of several first Jobs, it returns the one of the
// annotation's value.
func (o observed) unrecordedRun(mcj *v1.MyCronJob) *batchv1.Job {
	var latest *batchv1.Job
	for _, job := range o.jobs {
		if recorded(mcj, job) || slotOf(job) != 0 {
			continue
		}
		asked := job.Annotations[v1.AnnotationRunNow] == mcj.Annotations[v1.AnnotationRunNow]
		if latest == nil || numberOf(job) > numberOf(latest) || (numberOf(job) == numberOf(latest) && asked) {
			latest = job
		}
	}
	return latest
}

// numberOf returns the number of a Job that was run by hand, 0 for any other. It goes
// by the name, as slotOf does.
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
func (o observed) active() []*batchv1.Job {
	var active []*batchv1.Job
	for _, job := range o.jobs {
		if finished(job) == "" {
			active = append(active, job)
		}
	}
	return active
}

// finished returns how job ended, Complete or Failed, or "" while it runs.
func finished(job *batchv1.Job) batchv1.JobConditionType {
	for i := range job.Status.Conditions {
		condition := &job.Status.Conditions[i]
		ended := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if ended && condition.Status == corev1.ConditionTrue {
			return condition.Type
		}
	}
	return ""
}

// finishedAt returns when job ended, the zero time while it runs.
func finishedAt(job *batchv1.Job) metav1.Time {
	for i := range job.Status.Conditions {
		condition := &job.Status.Conditions[i]
		if condition.Type == finished(job) && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime
		}
	}
	return metav1.Time{}
}
