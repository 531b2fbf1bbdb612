/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mycronjob

import (
	"context"
	"errors"
	"fmt"

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
)

const fieldManager = "glassback"

var (
	createOptions = metav1.CreateOptions{FieldManager: fieldManager}
	updateOptions = metav1.UpdateOptions{FieldManager: fieldManager}
)

// outcome is what became of a plan, as far as the caches do not show it.
type outcome struct {
	// givenUp is the first slot of plan.run, if no Job can be made for it.
	givenUp slot
	// manualGivenUp is whether no Job can be made for plan.manual.
	manualGivenUp bool
	// rejected and taken say why, for a person: the API server does not accept the
	// Job, or somebody else has one of its name.
	rejected, taken string
}

func (o outcome) gaveUp() bool { return o.rejected != "" || o.taken != "" }

// act carries out the plan. It stops at the first error: the next sync plans anew.
func (c *Controller) act(ctx context.Context, mcj *v1.MyCronJob, table timetable, p plan) (outcome, error) {
	var out outcome
	if err := c.confirmLate(ctx, mcj, table, p); err != nil {
		return out, err
	}
	for _, job := range p.replace {
		if err := c.delete(ctx, mcj, job, "Replaced Job"); err != nil {
			return out, err
		}
	}
	if p.manual != "" {
		if err := c.create(ctx, mcj, manualJob(mcj, p.manual), &out); err != nil {
			return out, err
		}
		out.manualGivenUp = out.gaveUp()
	}
	for i, s := range p.run {
		var this outcome
		late := c.clock.Since(table.start(s))
		if err := c.create(ctx, mcj, slotJob(mcj, s, late), &this); err != nil {
			return out, err
		}
		if !this.gaveUp() {
			continue
		}
		if i == 0 { // A later one is the first again once those before it are recorded.
			out.givenUp, out.rejected, out.taken = s, this.rejected, this.taken
		}
		break
	}
	for _, job := range p.expired {
		if err := c.delete(ctx, mcj, job, "Deleted old Job"); err != nil {
			return out, err
		}
	}
	return out, nil
}

// confirmLate makes sure that the cached MyCronJob is up to date before a Job is
// made late (see keepFor): whether a slot has been recorded since, no cache can tell.
func (c *Controller) confirmLate(ctx context.Context, mcj *v1.MyCronJob, table timetable, p plan) error {
	if len(p.run) == 0 || c.clock.Since(table.start(p.run[0])) <= lateAfter {
		return nil
	}
	live, err := c.client.BatchV1().MyCronJobs(mcj.Namespace).Get(ctx, mcj.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get MyCronJob %s before a late Job: %w", mcj.Name, err)
	}
	if live.UID != mcj.UID || live.ResourceVersion != mcj.ResourceVersion {
		return errBehind(mcj)
	}
	return nil
}

// confirmMissed makes sure that no Job is there that the cache does not show,
// before slots are counted as missed: that something is absent, no cache can tell.
// It need not look at the MyCronJob: the count is not written over a newer one.
func (c *Controller) confirmMissed(ctx context.Context, mcj *v1.MyCronJob, seen observed) error {
	live, err := c.kube.BatchV1().Jobs(mcj.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{v1.LabelMyCronJob: mcj.Name}.String(),
	})
	if err != nil {
		return fmt.Errorf("list Jobs of MyCronJob %s before slots are counted as missed: %w", mcj.Name, err)
	}
	for i := range live.Items {
		if job := &live.Items[i]; metav1.IsControlledBy(job, mcj) && !seen.hasJob(slotOf(job)) && slotOf(job) != 0 {
			return errBehind(mcj)
		}
	}
	return nil
}

// errBehind is a conflict, since it is one: the sync runs again, with a newer cache.
func errBehind(mcj *v1.MyCronJob) error {
	return apierrors.NewConflict(v1.Resource("mycronjobs"), mcj.Name, errors.New("the cache is behind"))
}

// create makes job. That it is there already is as good, if it is this
// MyCronJob's own.
func (c *Controller) create(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, out *outcome) error {
	created, err := c.kube.BatchV1().Jobs(job.Namespace).Create(ctx, job, createOptions)
	switch {
	case err == nil:
		klog.FromContext(ctx).V(2).Info("Created Job", "job", klog.KObj(created), "lateMillis", job.Annotations[v1.AnnotationSkew])
		c.written.Record(cache.MetaObjectToName(mcj), c.jobs, created.ResourceVersion)
		return nil
	case apierrors.IsAlreadyExists(err):
		return c.claim(ctx, mcj, job, out)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		out.rejected = err.Error()
		return nil
	default:
		return fmt.Errorf("create Job %s: %w", job.Name, err)
	}
}

// claim finds out whose the Job is that has the name of job.
func (c *Controller) claim(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, out *outcome) error {
	live, err := c.kube.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get Job %s, which exists: %w", job.Name, err)
	}
	if metav1.IsControlledBy(live, mcj) {
		c.written.Record(cache.MetaObjectToName(mcj), c.jobs, live.ResourceVersion)
		return nil
	}
	out.taken = fmt.Sprintf("Job %s exists already, and is not this MyCronJob's", job.Name)
	return nil
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
	c.written.RecordDelete(cache.MetaObjectToName(mcj), c.jobs, job)
	klog.FromContext(ctx).V(2).Info(what, "job", klog.KObj(job))
	return nil
}

// tell sends an event for each transition from the status that mcj has to now.
func (c *Controller) tell(mcj *v1.MyCronJob, now v1.MyCronJobStatus) {
	told := ""
	for _, kind := range []string{v1.ConditionReady, v1.ConditionDegraded} {
		was, is := meta.FindStatusCondition(mcj.Status.Conditions, kind), meta.FindStatusCondition(now.Conditions, kind)
		if is == nil || is.Reason == told || (was != nil && was.Reason == is.Reason) || (was == nil && is.Reason == reasonAsExpected) {
			continue
		}
		severity := corev1.EventTypeNormal
		if bad := (kind == v1.ConditionDegraded) == (is.Status == metav1.ConditionTrue); bad && is.Reason != reasonSuspended {
			severity = corev1.EventTypeWarning
		}
		c.recorder.Event(mcj, severity, is.Reason, is.Message)
		told = is.Reason
	}
	if missed := now.MissedTotal - mcj.Status.MissedTotal; missed > 0 && !meta.IsStatusConditionTrue(now.Conditions, v1.ConditionProgressing) {
		c.recorder.Eventf(mcj, corev1.EventTypeWarning, "SlotsMissed", "%d slots up to %s passed without a Job",
			missed, now.AccountedTime.UTC().Format("2006-01-02T15:04:05Z"))
	}
}
