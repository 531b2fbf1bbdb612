// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// backupStatus returns the status of the backups. p is the operator's next plan.
func backupStatus(o *observed, p plan) *v1.BackupStatus {
	spec := o.Object.Spec.Backup
	if spec == nil {
		return nil
	}
	status := &v1.BackupStatus{}
	if o.Object.Status.Backup != nil {
		status = o.Object.Status.Backup.DeepCopy()
	}
	now := &metav1.Time{Time: o.Now.Truncate(time.Second)}
	switch {
	case spec.Schedule == "":
		status.Schedule, status.ScheduledSince, status.LastScheduleTime = "", nil, nil
	case status.Schedule != spec.Schedule || status.ScheduledSince == nil:
		status.Schedule, status.ScheduledSince, status.LastScheduleTime = spec.Schedule, now, now
	case status.LastScheduleTime == nil || status.LastScheduleTime.After(o.Now): // A clock was wrong.
		status.LastScheduleTime = now
	}
	status.Running, status.LastBackupNow = o.runningBackup(), o.lastBackupNow()
	if j := o.jobOf(status.Running); status.Running != "" && j != nil && j.Ended != "" && j.Result != nil {
		status.Running = ""
		ended := &metav1.Time{Time: j.EndedAt}
		if j.Ended == batchv1.JobComplete {
			status.LastSuccessfulTime, status.Last = ended, &v1.BackupResult{
				ID: j.ID, Keys: j.Result.Keys, Bytes: j.Result.Bytes, Warning: j.Result.Warning,
			}
		} else {
			status.LastFailure = &v1.BackupFailure{ID: j.ID, Time: ended, Message: j.Result.Message}
		}
	}
	for _, c := range p.Upkeep {
		at, ok := manifest.TimeOfBackup(c.id)
		if !ok || c.verb != startBackup {
			continue
		}
		if status.Running = c.id; c.id == o.dueBackup() {
			status.LastScheduleTime = &metav1.Time{Time: at}
		}
		status.LastBackupNow = cmp.Or(o.backupNowOf(c.id), status.LastBackupNow)
	}
	return status
}

// restoreStatus returns the status of the restore: when it began, which backup is the latest, and the result of its Job, once the Job has
// succeeded. p is the operator's next plan.
func restoreStatus(o *observed, p plan) *v1.RestoreStatus {
	if !o.toBeRestored() {
		return o.Object.Status.Restore
	}
	j := o.jobOfRestore()
	if j == nil && p.Policy != "beginRestore" {
		return o.Object.Status.Restore
	}
	status := o.Object.Status.Restore.DeepCopy()
	if status == nil {
		status = &v1.RestoreStatus{StartedAt: &metav1.Time{Time: o.Now.Truncate(time.Second)}}
	}
	if j == nil || j.Ended != batchv1.JobComplete || j.Result == nil {
		return status
	}
	if j.ID == v1.LatestBackup {
		status.ID = j.Result.ID
		return status
	}
	return &v1.RestoreStatus{
		StartedAt: status.StartedAt, ID: cmp.Or(j.Result.ID, o.restoredBackup()),
		Keys: j.Result.Keys, Skipped: j.Result.Skipped, Expired: j.Result.Expired, Warning: j.Result.Warning,
		CompletedAt: &metav1.Time{Time: j.EndedAt},
	}
}

// backedUp returns the condition BackedUp, by the status of the backups.
func backedUp(o *observed, p plan, status *v1.BackupStatus) (ok bool, reason, message string) {
	failure := status.LastFailure
	switch {
	case o.BackupImage == "":
		return false, reasonNoImage, "No backups are made: " + noImage
	case status.Running != "" && o.JobRejection != "":
		return false, reasonJobRejected, fmt.Sprintf("The Job %s: %s", manifest.BackupName(o.Object, status.Running), o.JobRejection)
	case failure != nil && (status.LastSuccessfulTime == nil || failure.Time.After(status.LastSuccessfulTime.Time)):
		ok, reason, message = false, reasonBackupFailed, fmt.Sprintf("The backup %s failed: %s", failure.ID, failure.Message)
	case status.Last != nil:
		ok, reason, message = true, reasonBackedUp, fmt.Sprintf("The last backup is %s. It has %d keys", status.Last.ID, status.Last.Keys)
		if status.Last.Warning != "" {
			message += ". Warning: " + status.Last.Warning
		}
	default:
		reason, message = ReasonNoBackupYet, "No backup has ended yet"
	}
	if due := o.nextBackup(); due != "" && o.jobOf(due) == nil {
		if why := o.whyNoBackup(p); why != "" {
			if due == o.requestedBackup() { // Its ID is the time at which it begins.
				due = "for " + v1.AnnotationBackupNow
			}
			message += fmt.Sprintf(". The backup %s waits: %s", due, why)
		}
	}
	if j := o.jobOf(status.Running); status.Running != "" && j != nil && j.NotStarting != "" {
		message += fmt.Sprintf(". The Pod of the Job %s does not start: %s", j.Name, j.NotStarting)
	}
	for _, failed := range []string{o.JobRejection, o.JobFailure} {
		if failed != "" {
			message += ". " + failed
		}
	}
	return ok, reason, message
}
