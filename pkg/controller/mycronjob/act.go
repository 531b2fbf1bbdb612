// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/loop"
)

// outcome is the part of the result of act that the caches do not show.
type outcome struct {
	// settled is the first slot of plan.run if its result is known; otherwise 0. missed says which result: false if the
	// slot has a Job that the cache does not show, true if it will never have a Job.
	settled slot
	missed  bool
	// settledManual says that the result of plan.manual is known.
	settledManual bool
	// reason and message say why a Job could not be created or deleted; reason is a reason of the conditions, or "".
	reason, message string
	// confirmed says that the cache shows all live Jobs.
	confirmed bool
	// uncounted says that the cache shows missed slots, but the live Jobs did not confirm them: the status must not be written.
	uncounted bool
}

// act carries out the plan. It deletes expired Jobs even if no Job can be created: a quota may be the reason.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (outcome, error) {
	out, err := c.makeJobs(ctx, o, p)
	errs := []error{err}
	for _, job := range p.expired {
		err := c.delete(ctx, o.mcj, job, "Deleted old Job")
		if err != nil && out.reason == "" {
			out.refuse(reasonJobNotDeleted, "delete the old Job "+job.Name, err)
		}
		errs = append(errs, err)
	}
	// A slot is counted as missed only if it has no live Job. The live MyCronJob need not be read: the write of the status
	// fails if the cached status is stale.
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
	decided := c.clock.Now()
	for _, job := range p.replace {
		if err := c.delete(ctx, o.mcj, job, "Replaced Job"); err != nil {
			out.refuse(reasonJobNotMade, "delete the Job "+job.Name+" to replace it", err)
			return out, err
		}
	}
	if p.manual != "" {
		result, err := c.create(ctx, o.mcj, manualJob(o.mcj, p.manual), decided, &out)
		if err != nil {
			return out, err
		}
		out.settledManual = result == createdBefore || result == createdNever
	}
	for i, s := range p.run {
		late := c.clock.Since(p.table.start(s))
		result, err := c.create(ctx, o.mcj, slotJob(o.mcj, s, late), decided, &out)
		if err != nil {
			return out, err
		}
		if i == 0 && result != createdNow {
			out.settled, out.missed = s, result == createdNever
		}
		if result == createdNever {
			break // A slot that is not the first is settled by a later sync, after the slots before it are recorded.
		}
	}
	return out, nil
}

// confirm looks at the live objects if a stale cache could lead to a wrong Job (see keepFor): no cache can show that a
// Job, or its record, does not exist.
func (c *Controller) confirm(ctx context.Context, o *observed, p plan, out *outcome) error {
	ctx, cancel := context.WithTimeout(ctx, requestFor)
	defer cancel()
	mcj := o.mcj
	// Read the Jobs first, and then the MyCronJob: a Job is recorded before it is deleted, so the MyCronJob shows it.
	switch late := len(p.run) > 0 && c.clock.Since(p.table.start(p.run[0])) > lateAfter; {
	case len(p.run) == 0 && p.manual == "":
		return nil
	case p.manual != "", len(p.run) > 1, mcj.Spec.ConcurrencyPolicy != v1.AllowConcurrent, mcj.Spec.MaxActive != nil:
		// A run-now Job has no due time, and counts as late. So do several slots. The other policies, and a limit, depend on all Jobs.
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
	createdNever                  // a retry will not succeed; without meaning if create returns an error
	createdLater                  // when the Job of a deleted MyCronJob is gone: its watch event will follow
)

// create creates job, unless the decision to do so is too old: see actFor. It returns an error if a retry may succeed, and otherwise sets
// the reason in out.
func (c *Controller) create(
	ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, decided time.Time, out *outcome,
) (creation, error) {
	if c.clock.Since(decided) > actFor {
		return createdNever, errStale(mcj)
	}
	ctx, cancel := context.WithTimeout(ctx, requestFor)
	defer cancel()
	created, err := c.kube.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{FieldManager: glassback.Name})
	switch {
	case err == nil:
		klog.FromContext(ctx).V(2).Info("Created Job", "job", klog.KObj(created), "lateMillis", job.Annotations[v1.AnnotationSkew])
		c.written.Record(ctx, cache.MetaObjectToName(mcj), "create jobs.batch", c.jobs, created)
		return createdNow, nil
	case apierrors.IsAlreadyExists(err):
		return c.claim(ctx, mcj, job, out)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		out.reason, out.message = reasonJobRejected, err.Error()
		return createdNever, nil
	}
	out.refuse(reasonJobNotMade, "accept the Jobs", err)
	return createdNever, fmt.Errorf("create Job %s: %w", job.Name, err)
}

// refuse sets the reason and the message if the API server has answered err to what the operator tried. The message omits the text of most
// errors: the text may differ at each attempt, and each new text would be written to the status.
func (out *outcome) refuse(reason, tried string, err error) {
	cause := apierrors.ReasonForError(err)
	if cause == metav1.StatusReasonUnknown {
		return
	}
	text := string(cause)
	if status := apierrors.APIStatus(nil); apierrors.IsForbidden(err) && errors.As(err, &status) {
		text = status.Status().Message
	}
	out.reason, out.message = reason, fmt.Sprintf("The API server does not %s at present, and the operator retries: %s", tried, text)
}

// claim returns whether the live Job that has the name of job counts as created: the MyCronJob must control it.
func (c *Controller) claim(ctx context.Context, mcj *v1.MyCronJob, job *batchv1.Job, out *outcome) (creation, error) {
	live, err := c.kube.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil {
		return createdNever, fmt.Errorf("get Job %s, which exists: %w", job.Name, err)
	}
	if metav1.IsControlledBy(live, mcj) {
		if value := live.Annotations[v1.AnnotationRunNow]; value != "" && value != job.Annotations[v1.AnnotationRunNow] {
			return createdNever, errStale(mcj) // Another operator has used this number of a run-now Job for another annotation value.
		}
		return createdBefore, nil
	}
	// No later Job replaces a run-now Job. So it waits for the garbage collection of that of a former MyCronJob with this name.
	former, ok := loop.ControllerOf(kind.Group, kind.Kind)(live)
	if ok && former == cache.MetaObjectToName(mcj) && job.Annotations[v1.AnnotationRunNow] != "" {
		klog.FromContext(ctx).V(2).Info("Waiting until the Job of a deleted MyCronJob is gone", "job", klog.KObj(live))
		return createdLater, nil
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
	// A conflict means that another Job has the name now, so this Job is gone.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Job %s of MyCronJob %s: %w", job.Name, mcj.Name, err)
	}
	c.written.RecordDelete(ctx, cache.MetaObjectToName(mcj), "delete jobs.batch", c.jobs, job)
	klog.FromContext(ctx).V(2).Info(message, "job", klog.KObj(job))
	return nil
}
