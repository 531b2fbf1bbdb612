/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mycronjob

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/report"
)

var (
	createOptions = metav1.CreateOptions{FieldManager: glassback.Name}
	updateOptions = metav1.UpdateOptions{FieldManager: glassback.Name}
)

// outcome is what became of a plan, as far as the caches do not show it.
type outcome struct {
	// settled is the first slot of plan.run, once it is certain what becomes of it:
	// it has a Job that the cache does not show, or, if missed, never gets one.
	settled slot
	missed  bool
	// settledManual is the same for plan.manual.
	settledManual bool
	// reason and message say why a Job could not be made, for a person. reason is
	// one of the conditions' reasons, or "".
	reason, message string
	// confirmed is whether the cache has been found to show all Jobs that there are.
	confirmed bool
}

// act carries out the plan. What is expired is deleted even if no Job can be made:
// that may be the very reason.
func (c *Controller) act(ctx context.Context, mcj *v1.MyCronJob, table timetable, seen observed, p plan) (outcome, error) {
	out, err := c.makeJobs(ctx, mcj, table, seen, p)
	errs := []error{err}
	for _, job := range p.expired {
		errs = append(errs, c.delete(ctx, mcj, job, "Deleted old Job"))
	}
	return out, errors.Join(errs...)
}

// makeJobs makes the Jobs of the plan. It stops at the first that cannot be made:
// the next sync plans anew.
func (c *Controller) makeJobs(ctx context.Context, mcj *v1.MyCronJob, table timetable, seen observed, p plan) (outcome, error) {
	var out outcome
	if err := c.confirm(ctx, mcj, table, seen, p, &out); err != nil {
		return out, err
	}
	begun := c.clock.Now()
	for _, job := range p.replace {
		if err := c.delete(ctx, mcj, job, "Replaced Job"); err != nil {
			return out, err
		}
	}
	if p.manual != "" {
		made, err := c.create(ctx, mcj, manualJob(mcj, p.manual), &out)
		if err != nil {
			return out, err
		}
		out.settledManual = made != madeNow
	}
	for i, s := range p.run {
		if c.clock.Since(begun) > actFor {
			return out, errBehind(mcj)
		}
		late := c.clock.Since(table.start(s))
		made, err := c.create(ctx, mcj, slotJob(mcj, s, late), &out)
		if err != nil {
			return out, err
		}
		if i == 0 && made != madeNow {
			out.settled, out.missed = s, made == madeNever
		}
		if made == madeNever {
			break // If it is not the first, it will be once those before it are recorded.
		}
	}
	return out, nil
}

// confirm looks at the live objects before a Job is made by what a stale cache
// could be wrong about (see keepFor). That something is absent, a Job or a record
// of it, no cache can tell.
func (c *Controller) confirm(ctx context.Context, mcj *v1.MyCronJob, table timetable, seen observed, p plan, out *outcome) error {
	// First the Jobs, then the MyCronJob: a Job that is gone by then was recorded before.
	switch late := len(p.run) > 0 && c.clock.Since(table.start(p.run[0])) > lateAfter; {
	case len(p.run) == 0 && p.manual == "":
		return nil
	case p.manual != "", len(p.run) > 1, mcj.Spec.ConcurrencyPolicy != v1.AllowConcurrent:
		// A run by hand has no time of its own, and is always late; several slots are;
		// and the other policies promise something about other Jobs.
		if err := c.confirmJobs(ctx, mcj, seen); err != nil {
			return err
		}
		out.confirmed = true
	case late:
		_, err := c.kube.BatchV1().Jobs(mcj.Namespace).Get(ctx, slotName(mcj, p.run[0]), metav1.GetOptions{})
		if err == nil {
			break // Whose it is, create finds out.
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("get Job %s before it is made: %w", slotName(mcj, p.run[0]), err)
		}
	default:
		return nil
	}
	live, err := c.client.BatchV1().MyCronJobs(mcj.Namespace).Get(ctx, mcj.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get MyCronJob %s before a Job is made: %w", mcj.Name, err)
	}
	if live.UID != mcj.UID || live.ResourceVersion != mcj.ResourceVersion {
		return errBehind(mcj)
	}
	return nil
}

// confirmJobs makes sure that there is no Job that the cache does not show: before
// slots are counted as missed, too. There it need not look at the MyCronJob, since
// the count is not written over a newer one.
func (c *Controller) confirmJobs(ctx context.Context, mcj *v1.MyCronJob, seen observed) error {
	live, err := c.kube.BatchV1().Jobs(mcj.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{v1.LabelMyCronJob: mcj.Name}.String(),
	})
	if err != nil {
		return fmt.Errorf("list Jobs of MyCronJob %s: %w", mcj.Name, err)
	}
	for i := range live.Items {
		if job := &live.Items[i]; metav1.IsControlledBy(job, mcj) && !seen.has(job) {
			return errBehind(mcj)
		}
	}
	return nil
}

// errBehind is a conflict, since it is one: the sync runs again, with a newer cache.
func errBehind(mcj *v1.MyCronJob) error {
	return apierrors.NewConflict(v1.Resource("mycronjobs"), mcj.Name, errors.New("the cache is behind"))
}

// made is how a Job came to be there, or not.
type made int

const (
	madeNow   made = iota // by this call: the cache is about to show it
	madeAgo               // by an earlier call, or another operator
	madeNever             // and never will be
)

// create makes job. An error may pass; what will not is in out.
func (c *Controller) create(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, out *outcome) (made, error) {
	ctx, cancel := context.WithTimeout(ctx, requestFor)
	defer cancel()
	created, err := c.kube.BatchV1().Jobs(job.Namespace).Create(ctx, job, createOptions)
	switch {
	case err == nil:
		klog.FromContext(ctx).V(2).Info("Created Job", "job", klog.KObj(created), "lateMillis", job.Annotations[v1.AnnotationSkew])
		c.written.Record(cache.MetaObjectToName(mcj), "create jobs.batch", c.jobs, created)
		return madeNow, nil
	case apierrors.IsAlreadyExists(err):
		return c.claim(ctx, mcj, job, out)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		out.reason, out.message = reasonJobRejected, err.Error()
		return madeNever, nil
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		// The text may change with every try, and every change would be written.
		out.reason, out.message = reasonJobNotMade, fmt.Sprintf("The API server does not take the Jobs now, which is tried again: %s", reason)
		if apierrors.IsForbidden(err) {
			out.message = fmt.Sprintf("The API server does not take the Jobs now, which is tried again: %v", err)
		}
	}
	return madeNever, fmt.Errorf("create Job %s: %w", job.Name, err)
}

// claim finds out whose the Job is that has the name of job.
func (c *Controller) claim(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, out *outcome) (made, error) {
	live, err := c.kube.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil {
		return madeNever, fmt.Errorf("get Job %s, which exists: %w", job.Name, err)
	}
	if metav1.IsControlledBy(live, mcj) {
		if value := live.Annotations[v1.AnnotationRunNow]; value != "" && value != job.Annotations[v1.AnnotationRunNow] {
			return madeNever, errBehind(mcj) // Another operator has used the number for another value.
		}
		return madeAgo, nil
	}
	out.reason = reasonSlotTaken
	out.message = fmt.Sprintf("Job %s exists already, and is not this MyCronJob's", job.Name)
	return madeNever, nil
}

// delete deletes exactly this job, and its Pods after it. That it is gone already
// is as good.
func (c *Controller) delete(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, what string) error {
	err := c.kube.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(job.UID)),
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	// A conflict says that another Job has the name now.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Job %s of MyCronJob %s: %w", job.Name, mcj.Name, err)
	}
	c.written.RecordDelete(cache.MetaObjectToName(mcj), "delete jobs.batch", c.jobs, job)
	klog.FromContext(ctx).V(2).Info(what, "job", klog.KObj(job))
	return nil
}

var missedObserver atomic.Pointer[func(namespace string, slots int64)]

// SetMissedObserver has observe told of the slots that a written status counts as missed,
// from now on. It may be called by many goroutines at once.
func SetMissedObserver(observe func(namespace string, slots int64)) { missedObserver.Store(&observe) }

// tell sends an event for each transition from the status that mcj has to now.
func (c *Controller) tell(mcj *v1.MyCronJob, now v1.MyCronJobStatus) {
	told := report.Transitions(c.recorder, mcj, mcj.Status.Conditions, now.Conditions, reasonSuspended)
	// Slots that are missed one by one for a reason that stays, a Job that is refused
	// or one that runs on under Forbid, are told of by that reason alone.
	missed := now.MissedTotal - mcj.Status.MissedTotal
	if observe := missedObserver.Load(); observe != nil && missed > 0 {
		(*observe)(mcj.Namespace, missed)
	}
	stays := meta.IsStatusConditionFalse(now.Conditions, glassback.ConditionReady) || meta.IsStatusConditionTrue(now.Conditions, glassback.ConditionProgressing)
	if missed > 0 && !stays && told != reasonSlotTaken {
		c.recorder.Eventf(mcj, corev1.EventTypeWarning, "SlotsMissed", "Slots up to %s without a Job: %d",
			now.AccountedTime.UTC().Format(time.RFC3339), missed)
	}
}
