// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedbatchv1 "k8s.io/client-go/kubernetes/typed/batch/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

func (e executor) jobClient() typedbatchv1.JobInterface {
	return e.kube.BatchV1().Jobs(e.o.Object.Namespace)
}

// The commands for Jobs. The Job of a restore has the ID "".
var (
	startBackup  = &verb{text: "create Job of backup", do: executor.startJob, writes: createsJob}
	startRestore = &verb{text: "create Job of restore", logged: true, do: executor.startJob, writes: createsJob}
	// The named Job.
	deleteJob = &verb{text: "delete Job", do: executor.deleteJob, writes: func(_ *observed, c command) write {
		return write{verb: "delete", kind: "Job", name: c.names[0]}
	}}
)

func createsJob(o *observed, c command) write {
	desired := o.desiredJob(c.id)
	return write{"create", "Job", desired.Name, nil, desired}
}

// startJob creates the Job of a backup; with the ID "", one of a restore. It returns no error if it cannot create the Job of a backup,
// since nothing else depends on this Job: the status reports the error, and a sync after secretEvery retries. The same is true of the Job
// of a restore if the API server rejects it, it exceeds a quota, or its name is taken.
func (e executor) startJob(ctx context.Context, c command) error {
	current, desired := e.session, e.o.desiredJob(c.id)
	created, err := e.createJob(ctx, desired)
	switch {
	case err == nil:
		current.jobRejection = ""
		e.written.Record(ctx, e.key(), "create jobs", e.jobs, created)
	case c.id != "", isRejected(err), isQuota(err), isTaken(err):
		current.jobRejection, current.jobRejectedAt = err.Error(), e.clock.Now()
		klog.FromContext(ctx).Info("Could not create a Job", "job", desired.Name, "reason", current.jobRejection)
	default:
		return err
	}
	return nil
}

// createJob creates a Job. If the cache is stale and the Job exists already, it returns the existing Job. It calls checkAccount first,
// since the Pods of a Job mount the password.
func (e executor) createJob(ctx context.Context, desired *batchv1.Job) (*batchv1.Job, error) {
	if err := e.checkAccount(ctx); err != nil {
		return nil, err
	}
	created, err := e.jobClient().Create(ctx, desired, metav1.CreateOptions{FieldManager: glassback.Name})
	if apierrors.IsAlreadyExists(err) {
		return e.ownJob(ctx, desired.Name)
	}
	return created, err
}

// desiredJob returns the Job with an ID: see manifest.BackupOf. With the ID "", it may be the one that first chooses the backup to restore.
func (o *observed) desiredJob(id string) *batchv1.Job {
	a, _ := o.access() // A Job is created only while all Pods have the same access.
	switch id {
	case "":
		return manifest.RestoreJob(o.Object, o.restoredBackup(), o.BackupImage, a)
	case v1.LatestBackup:
		return manifest.RestoreJob(o.Object, id, o.BackupImage, a)
	}
	j := manifest.BackupJob(o.Object, id, o.BackupImage, a)
	if value := o.backupNowOf(id); value != "" {
		j.Annotations[v1.AnnotationBackupNow] = value
	}
	return j
}

// ownJob returns the existing Job with a name, which a stale cache does not show. It returns a problemError if another owner has the Job.
func (e executor) ownJob(ctx context.Context, name string) (*batchv1.Job, error) {
	existing, err := e.jobClient().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get Job %s: %w", name, err)
	}
	if !metav1.IsControlledBy(existing, e.o.Object) || existing.Labels[v1.LabelRedisCluster] != e.o.Object.Name {
		return nil, problemError{reasonConflict, "it exists already, and is not of this RedisCluster: rename or delete it"}
	}
	return existing, nil
}

// isTaken returns whether an error says that an object of another owner already has the name.
func isTaken(err error) bool {
	known, ok := errors.AsType[problemError](err)
	return ok && known.Reason == reasonConflict
}

// deleteJob deletes exactly the observed Job, and its Pods. A Job that had not started may have started since, so deleteJob checks this
// again. An error does not fail the sync: the status reports it.
func (e executor) deleteJob(ctx context.Context, c command) error {
	name := c.names[0]
	for _, j := range e.o.Jobs {
		if j.Name != name {
			continue
		}
		starts, err := e.hasStarted(ctx, j)
		if err == nil && starts {
			continue
		}
		if err == nil {
			err = e.jobClient().Delete(ctx, name, metav1.DeleteOptions{
				Preconditions:     &metav1.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion},
				PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
			})
		}
		if apierrors.IsConflict(err) {
			continue // It has changed: a watch event brings the next sync.
		}
		if err != nil && !apierrors.IsNotFound(err) {
			current := e.session
			current.jobFailure, current.jobFailureOf = fmt.Sprintf("delete Job %s: %v", name, err), j.UID
			klog.FromContext(ctx).Error(err, "Could not delete a Job", "job", name)
			continue
		}
		gone := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.o.Object.Namespace, UID: j.UID}}
		e.written.RecordDelete(ctx, e.key(), "delete jobs", e.jobs, gone)
	}
	return nil
}

// hasStarted returns whether the container of an outdated Job, which did not run when it was observed, has started meanwhile.
func (e executor) hasStarted(ctx context.Context, j *job) (bool, error) {
	if !j.Outdated || !e.o.needsJob(j) {
		return false, nil
	}
	meta := metav1.ObjectMeta{Name: j.Name, Namespace: e.o.Object.Namespace, UID: j.UID}
	pods, err := e.podsOf(ctx, e.o.Object, &batchv1.Job{ObjectMeta: meta})
	return err == nil && whyNotStarting(pods) == "", err
}

// reportJobs sends an event for each result of a Job that is in the new status and was not in the previous one.
func (c *Controller) reportJobs(before, after *v1.RedisCluster) {
	var had, has v1.BackupStatus
	if before.Status.Backup != nil {
		had = *before.Status.Backup
	}
	if after.Status.Backup != nil {
		has = *after.Status.Backup
	}
	if f := has.LastFailure; f != nil && (had.LastFailure == nil || had.LastFailure.ID != f.ID) {
		c.recorder.Eventf(before, corev1.EventTypeWarning, "BackupFailed", "The backup %s failed: %s", f.ID, f.Message)
	}
	if last := has.Last; last != nil && (had.Last == nil || had.Last.ID != last.ID) {
		c.recorder.Eventf(before, corev1.EventTypeNormal, "BackedUp", "Made the backup %s with %d keys", last.ID, last.Keys)
		if last.Warning != "" {
			c.recorder.Eventf(before, corev1.EventTypeWarning, "BackupWarning", "%s", last.Warning)
		}
	}
	if r, had := after.Status.Restore, before.Status.Restore; r != nil && r.CompletedAt != nil && (had == nil || had.CompletedAt == nil) {
		c.recorder.Eventf(before, corev1.EventTypeNormal, "Restored",
			"Restored the backup %s with %d keys; %d of them existed, and %d had expired", r.ID, r.Keys, r.Skipped, r.Expired)
		if r.Warning != "" {
			c.recorder.Eventf(before, corev1.EventTypeWarning, "RestoreWarning", "%s", r.Warning)
		}
	}
}
