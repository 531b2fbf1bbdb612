// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// outcome is the result of act, as far as the caches do not show it.
type outcome struct {
	// settled is the first slot of plan.run, if its result is known: it has a Job that the cache does not show, or, if
	// missed, will never have one.
	settled slot
	missed  bool
	// settledManual says the same of plan.manual.
	settledManual bool
	// reason and message say why a Job could not be created; reason is a reason of the conditions, or "".
	reason, message string
	// confirmed says that the cache shows all live Jobs.
	confirmed bool
	// uncounted says that slots are missed by the cache, but a look at the live Jobs did not confirm it: the status must not be written.
	uncounted bool
}

// act carries out the plan. It deletes expired Jobs even if no Job can be created: a quota may be the reason.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (outcome, error) {
	out, err := c.makeJobs(ctx, o, p)
	errs := []error{err}
	for _, job := range p.expired {
		errs = append(errs, c.delete(ctx, o.mcj, job, "Deleted old Job"))
	}
	// A slot is counted as missed only if it has no live Job. This need not look at the live MyCronJob: the count is not
	// written over a newer one.
	if (p.missed > 0 || out.missed) && !out.confirmed {
		err := c.confirmJobs(ctx, o)
		out.uncounted = err != nil
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// makeJobs creates the Jobs of the plan. It stops at the first one that cannot be created: the next sync decides again.
func (c *Controller) makeJobs(ctx context.Context, o *observed, p plan) (outcome, error) {
	var out outcome
	if err := c.confirm(ctx, o, p, &out); err != nil {
		return out, err
	}
	begun := c.clock.Now()
	for _, job := range p.replace {
		if err := c.delete(ctx, o.mcj, job, "Replaced Job"); err != nil {
			return out, err
		}
	}
	if p.manual != "" {
		result, err := c.create(ctx, o.mcj, manualJob(o.mcj, p.manual), &out)
		if err != nil {
			return out, err
		}
		out.settledManual = result != createdNow
	}
	for i, s := range p.run {
		if c.clock.Since(begun) > actFor {
			return out, errStale(o.mcj)
		}
		late := c.clock.Since(p.table.start(s))
		result, err := c.create(ctx, o.mcj, slotJob(o.mcj, s, late), &out)
		if err != nil {
			return out, err
		}
		if i == 0 && result != createdNow {
			out.settled, out.missed = s, result == createdNever
		}
		if result == createdNever {
			break // If this is not the first slot, it is settled when the slots before it are recorded.
		}
	}
	return out, nil
}

// confirm looks at the live objects if a stale cache could lead to a wrong Job (see keepFor): no cache can show that a
// Job, or its record, does not exist.
func (c *Controller) confirm(ctx context.Context, o *observed, p plan, out *outcome) error {
	mcj := o.mcj
	// First the Jobs, then the MyCronJob: a Job that is deleted in between was recorded before.
	switch late := len(p.run) > 0 && c.clock.Since(p.table.start(p.run[0])) > lateAfter; {
	case len(p.run) == 0 && p.manual == "":
		return nil
	case p.manual != "", len(p.run) > 1, mcj.Spec.ConcurrencyPolicy != v1.AllowConcurrent:
		// A run-now Job has no time of its own, and counts as late; so do several slots; and the other policies make promises about other Jobs.
		if err := c.confirmJobs(ctx, o); err != nil {
			return err
		}
		out.confirmed = true
	case late:
		_, err := c.kube.BatchV1().Jobs(mcj.Namespace).Get(ctx, slotName(mcj, p.run[0]), metav1.GetOptions{})
		if err == nil {
			break // create looks at its owner.
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
		return errStale(mcj)
	}
	return nil
}

// confirmJobs returns an error if there is a live Job that the cache does not show.
func (c *Controller) confirmJobs(ctx context.Context, o *observed) error {
	live, err := c.kube.BatchV1().Jobs(o.mcj.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{v1.LabelMyCronJob: o.mcj.Name}.String(),
	})
	if err != nil {
		return fmt.Errorf("list Jobs of MyCronJob %s: %w", o.mcj.Name, err)
	}
	for i := range live.Items {
		if job := &live.Items[i]; metav1.IsControlledBy(job, o.mcj) && !o.has(job) {
			return errStale(o.mcj)
		}
	}
	return nil
}

// errStale returns a conflict: the cache is stale, and the sync runs again with a newer one.
func errStale(mcj *v1.MyCronJob) error {
	return apierrors.NewConflict(v1.Resource("mycronjobs"), mcj.Name, errors.New("the cache is behind"))
}

// creation is the result of create.
type creation int

const (
	createdNow    creation = iota // by this call: a watch event will follow
	createdBefore                 // by an earlier call, or by another operator
	createdNever                  // and a retry will not succeed
)

// create creates job. It returns an error if a retry may succeed, and otherwise sets the reason in out.
func (c *Controller) create(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, out *outcome) (creation, error) {
	ctx, cancel := context.WithTimeout(ctx, requestFor)
	defer cancel()
	created, err := c.kube.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{FieldManager: glassback.Name})
	switch {
	case err == nil:
		klog.FromContext(ctx).V(2).Info("Created Job", "job", klog.KObj(created), "lateMillis", job.Annotations[v1.AnnotationSkew])
		c.written.Record(cache.MetaObjectToName(mcj), "create jobs.batch", c.jobs, created)
		return createdNow, nil
	case apierrors.IsAlreadyExists(err):
		return c.claim(ctx, mcj, job, out)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		out.reason, out.message = reasonJobRejected, err.Error()
		return createdNever, nil
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		// Without the text: it may differ at each attempt, and each difference would be written to the status.
		cause := string(reason)
		if apierrors.IsForbidden(err) {
			cause = err.Error()
		}
		out.reason = reasonJobNotMade
		out.message = "The API server does not accept the Jobs at present, and the operator retries: " + cause
	}
	return createdNever, fmt.Errorf("create Job %s: %w", job.Name, err)
}

// claim looks at the owner of the live Job that has the name of job.
func (c *Controller) claim(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, out *outcome) (creation, error) {
	live, err := c.kube.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil {
		return createdNever, fmt.Errorf("get Job %s, which exists: %w", job.Name, err)
	}
	if metav1.IsControlledBy(live, mcj) {
		if value := live.Annotations[v1.AnnotationRunNow]; value != "" && value != job.Annotations[v1.AnnotationRunNow] {
			return createdNever, errStale(mcj) // Another operator has used the number for another value of the annotation.
		}
		return createdBefore, nil
	}
	out.reason = reasonSlotTaken
	out.message = fmt.Sprintf("Job %s exists already, and is not this MyCronJob's", job.Name)
	return createdNever, nil
}

// delete deletes exactly this Job, and then its Pods. It succeeds if the Job is already gone. message is for the log.
func (c *Controller) delete(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, message string) error {
	err := c.kube.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(job.UID)),
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	// A conflict says that another Job has the name now, so this one is gone.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Job %s of MyCronJob %s: %w", job.Name, mcj.Name, err)
	}
	c.written.RecordDelete(cache.MetaObjectToName(mcj), "delete jobs.batch", c.jobs, job)
	klog.FromContext(ctx).V(2).Info(message, "job", klog.KObj(job))
	return nil
}
