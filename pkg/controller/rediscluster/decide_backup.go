// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// The functions below decide when a backup is made. A backup has three writes: the status gets its ID in running, the Job is created, and
// the status gets the result. After a crash between any two of them, the next sync continues: an ID without a Job gets its Job, and a Job
// without a result in the status is read again. So no time of the schedule has two Jobs, and none is lost.
//
// The status counts the times of the schedule from lastScheduleTime on. Of several that were missed, only the last one has a backup. It has
// the last value of AnnotationBackupNow that had one: the value when any backup began. The Job has it too, for a status that was lost.

// runningBackup returns the ID of the backup that is being made; "" for none. If the status was lost, the Job says it. An ID after now,
// of a wrong clock, counts only if it has a Job.
func (o *observed) runningBackup() string {
	if s := o.rdc.Status.Backup; s != nil && s.Running != "" {
		if at, ok := timeOfBackup(s.Running); o.jobOf(s.Running) != nil || (ok && !at.After(o.now)) {
			return s.Running
		}
	}
	for _, j := range o.jobs {
		if !j.restores() && j.Ended == "" && !j.Deleting {
			return j.ID
		}
	}
	return ""
}

// jobOf returns the Job with an ID: see backupOf. It returns nil if it does not exist.
func (o *observed) jobOf(id string) *job {
	if i := slices.IndexFunc(o.jobs, func(j *job) bool { return j.ID == id }); i >= 0 {
		return o.jobs[i]
	}
	return nil
}

// dueBackup returns the ID of the backup that is to be made now; "" for none.
func (o *observed) dueBackup() string {
	spec, status := o.rdc.Spec.Backup, o.rdc.Status.Backup
	if spec == nil || status == nil || status.Schedule != spec.Schedule || status.LastScheduleTime == nil {
		return "" // The schedule counts from this sync on.
	}
	schedule, err := v1.ParseBackupSchedule(spec.Schedule)
	if err != nil {
		return "" // The spec is valid.
	}
	if due := lastTime(schedule, status.LastScheduleTime.UTC(), o.now.UTC()); !due.IsZero() {
		return backupID(due)
	}
	return ""
}

// lastTime returns the last time of a schedule that is after from and not after now; zero if there is none. It bisects: of the times from
// which the next one has come, it finds the last.
func lastTime(schedule cron.Schedule, from, now time.Time) time.Time {
	hasCome := func(t time.Time) bool {
		next := schedule.Next(t)
		return !next.IsZero() && !next.After(now)
	}
	if !hasCome(from) {
		return time.Time{}
	}
	for later := now; later.Sub(from) > time.Second; {
		if middle := from.Add(later.Sub(from) / 2); hasCome(middle) {
			from = middle
		} else {
			later = middle
		}
	}
	last := schedule.Next(from)
	if next := schedule.Next(last); !next.IsZero() && !next.After(now) {
		return next
	}
	return last
}

// lastBackupNow returns the last value of AnnotationBackupNow for which a backup began; "" if there is none. If the status does not have
// it, a Job says whether it is the present one: a CRD of an earlier version has no such field. That of a dropped backup does not count.
func (o *observed) lastBackupNow() string {
	status := ptr.Deref(o.rdc.Status.Backup, v1.BackupStatus{})
	if dropped := status.Running != "" && o.runningBackup() != status.Running; status.LastBackupNow != "" && !dropped {
		return status.LastBackupNow
	}
	value := o.rdc.Annotations[v1.AnnotationBackupNow]
	if !slices.ContainsFunc(o.jobs, func(j *job) bool { return j.BackupNow == value }) {
		return ""
	}
	return value
}

// backupNowOf returns the value of AnnotationBackupNow that the Job of a backup has. A backup that had begun takes no later value.
func (o *observed) backupNowOf(id string) string {
	value := o.rdc.Annotations[v1.AnnotationBackupNow]
	if id == o.runningBackup() {
		return cmp.Or(o.lastBackupNow(), value)
	}
	return value
}

// requestedBackup returns the ID of the backup that AnnotationBackupNow requests; "" if there is none, or if it has begun. The ID is the
// present second, unless another backup may have it: the seconds of a schedule are 0.
func (o *observed) requestedBackup() string {
	if value := o.rdc.Annotations[v1.AnnotationBackupNow]; value == "" || value == o.lastBackupNow() {
		return ""
	}
	status := ptr.Deref(o.rdc.Status.Backup, v1.BackupStatus{})
	last, failure := ptr.Deref(status.Last, v1.BackupResult{}), ptr.Deref(status.LastFailure, v1.BackupFailure{})
	at := o.now.Truncate(time.Second)
	for at.Second() == 0 || o.jobOf(backupID(at)) != nil || backupID(at) == last.ID || backupID(at) == failure.ID {
		at = at.Add(-time.Second)
	}
	return backupID(at)
}

// untilBackup returns how long to wait for the next time of the schedule; 0 if there is none.
func (o *observed) untilBackup() time.Duration {
	spec := o.rdc.Spec.Backup
	if spec == nil {
		return 0
	}
	schedule, err := v1.ParseBackupSchedule(spec.Schedule)
	if err != nil {
		return 0
	}
	next := schedule.Next(o.now.UTC())
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(o.now), time.Millisecond)
}

// backupInterval returns the longest time between two of the next times of the schedule; 0 if there are none.
func backupInterval(expression string, now time.Time) time.Duration {
	schedule, err := v1.ParseBackupSchedule(expression)
	if err != nil {
		return 0
	}
	var longest time.Duration
	at := schedule.Next(now.UTC())
	for range 10 {
		next := schedule.Next(at)
		if next.IsZero() {
			break
		}
		longest, at = max(longest, next.Sub(at)), next
	}
	return longest
}

// message returns why a Job failed.
func (j *job) message() string {
	if j.Result == nil {
		return ""
	}
	return j.Result.Message
}

// backupCommands returns the commands that create the Job of a backup and delete those that are not needed. p is what else is done.
func backupCommands(o *observed, p plan) []command {
	var commands []command
	for _, j := range o.jobs {
		if !j.Deleting && (j.Outdated || !o.needsJob(j)) {
			commands = append(commands, command{verb: deleteJob, names: []string{j.Name}})
		}
	}
	if id := o.nextBackup(); id != "" && o.jobOf(id) == nil && o.whyNoBackup(p) == "" && o.triesJob() {
		commands = append(commands, command{verb: startBackup, id: id})
	}
	return commands
}

// nextBackup returns the ID of the backup that is being made, or else of the one that is due or requested; "" for none.
func (o *observed) nextBackup() string {
	if o.rdc.Spec.Backup == nil {
		return ""
	}
	if running := o.runningBackup(); running != "" {
		return running
	}
	return cmp.Or(o.dueBackup(), o.requestedBackup())
}

// needsJob returns whether a Job is kept: the one that runs, the last one that succeeded, the last one that failed, and that of the spec's
// restoreFrom.
func (o *observed) needsJob(j *job) bool {
	switch {
	case j.ID == "":
		return o.rdc.Spec.RestoreFrom != nil
	case j.ID == v1.LatestBackup: // Without its result, which is lost if its Pod is gone, another one chooses.
		lost := j.Ended == batchv1.JobComplete && j.Result != nil && j.Result.ID == ""
		return o.toBeRestored() && o.restoredBackup() == v1.LatestBackup && !lost
	case o.rdc.Spec.Backup == nil:
		return false
	case j.ID == o.runningBackup():
		return true
	}
	return !slices.ContainsFunc(o.jobs, func(other *job) bool {
		return other.Ended == j.Ended && cmp.Or(other.EndedAt.Compare(j.EndedAt), cmp.Compare(other.ID, j.ID)) > 0
	})
}

// whyNoBackup returns why no backup can begin now; "" if one can. p is what else is done.
func (o *observed) whyNoBackup(p plan) string {
	_, same := o.access()
	switch {
	case o.backupImage == "":
		return noImage
	case o.toBeRestored():
		return "a backup is being restored"
	case !o.formed:
		return "the cluster is being formed"
	case o.openSlots() || p.movesSlots():
		return "slots are being moved"
	case p.switches() || slices.ContainsFunc(o.members, (*member).preventsFailover):
		return "the nodes switch to another protocol"
	case (p.announces() && len(p.commands) > 0) || o.changesAddress():
		return "a node changes its address"
	case !same:
		return "the Pods are being replaced by others with another user or protocol"
	case o.whyNoPods() != "":
		return o.whyNoPods()
	}
	return uncovered(o)
}

// triesJob returns whether a Job can be created now. After a rejection, the operator waits.
func (o *observed) triesJob() bool {
	return o.jobRejection == "" || o.now.Sub(o.jobRejectedAt) >= secretEvery
}

// noImage is why there are neither backups nor restores.
const noImage = "the operator was started without --backup-image, which is the image of the Jobs"

// openSlots returns whether a node has marks of slots that move.
func (o *observed) openSlots() bool {
	return slices.ContainsFunc(o.answering(), func(m *member) bool { return len(m.self().Importing)+len(m.self().Migrating) > 0 })
}

// movesSlots returns whether the plan gives slots to another node.
func (p plan) movesSlots() bool {
	return p.loss != nil || slices.ContainsFunc(p.commands, func(c command) bool {
		return slices.Contains([]verb{addSlots, moveSlots, openSlots, resumeMove, closeSlots, failover}, c.verb)
	})
}

// toBeRestored returns whether the keys of spec.restoreFrom are not all in the cluster yet.
func (o *observed) toBeRestored() bool {
	return o.rdc.Spec.RestoreFrom != nil && (o.rdc.Status.Restore == nil || o.rdc.Status.Restore.CompletedAt == nil)
}

// restoredBackup returns the ID of the backup that is to be restored; LatestBackup until the latest is chosen. The status has the choice
// before the first key is sent: so all tries restore the same backup, also if there are others by then.
func (o *observed) restoredBackup() string {
	id := o.rdc.Spec.RestoreFrom.Backup
	if s := o.rdc.Status.Restore; id == v1.LatestBackup && s != nil && s.ID != "" {
		return s.ID
	}
	return id
}

// jobOfRestore returns the Job that restores a backup, or first chooses which; nil if it does not exist.
func (o *observed) jobOfRestore() *job {
	j := o.jobOf("") // One of an earlier version chooses by itself.
	if j == nil && o.restoredBackup() == v1.LatestBackup {
		return o.jobOf(v1.LatestBackup)
	}
	return j
}

// withKeys returns a node that has keys; nil if none has.
func (o *observed) withKeys() *member {
	for _, m := range o.answering() {
		if m.view.Keys > 0 {
			return m
		}
	}
	return nil
}

// restoreBackup creates the Job that restores spec.restoreFrom, and waits for it; if that is the latest backup, before that the Job that
// chooses it. The status says that it has begun before the Job exists:
// until then, the cluster must have no keys. It comes late: the nodes have their slots, replicas and users.
func restoreBackup(o *observed) *plan {
	if !o.toBeRestored() {
		return nil
	}
	id := o.restoredBackup()
	held := func(reason, message string) *plan {
		return &plan{step: message, wait: poll, problems: []problem{{reason, message}}}
	}
	j := o.jobOfRestore()
	_, same := o.access()
	switch {
	case j == nil && o.rdc.Status.Restore == nil && o.withKeys() != nil:
		return held(reasonRestoreRefused, fmt.Sprintf("The backup %s is not restored, since %s has keys already. Remove spec.restoreFrom to "+
			"keep them, or delete the keys; after a RedisCluster of the same name, the claims have them", id, o.withKeys().name))
	case j == nil && o.backupImage == "":
		return held(reasonNoImage, "The backup cannot be restored: "+noImage)
	case j == nil && o.jobRejection != "":
		p := held(reasonJobRejected, "The API server rejects the Job "+o.desiredJob("").Name+": "+o.jobRejection)
		if o.triesJob() {
			p.commands = []command{{verb: startRestore}}
		}
		return p
	case j == nil && !same:
		return wait(check, "Waiting for the Pods to be replaced, before the backup is restored")
	case j == nil:
		return do([]command{{verb: startRestore}}, "Restoring the backup %s", id)
	case j.Deleting:
		return wait(check, "Waiting for the Job %s to be deleted", j.Name)
	case j.Ended == batchv1.JobFailed:
		return held(reasonRestoreFailed, fmt.Sprintf("The Job %s, which restores the backup %s, failed: %s. Correct the cause, and delete "+
			"the Job to try again, or remove spec.restoreFrom to use the cluster as it is", j.Name, id, j.message()))
	case j.Ended == batchv1.JobComplete && j.Result == nil:
		return wait(check, "Waiting for the result of the Job %s: %s", j.Name, o.jobFailure)
	case j.Ended == batchv1.JobComplete && j.ID == v1.LatestBackup:
		return wait(check, "Restoring the backup %s", cmp.Or(j.Result.ID, id)) // The status gets the choice.
	case j.Ended == batchv1.JobComplete:
		return nil // The status gets its result.
	case j.NotStarting != "":
		return held(reasonNotStarting, fmt.Sprintf("The Pod of the Job %s, which restores the backup %s, does not start: %s",
			j.Name, id, j.NotStarting))
	}
	p := wait(poll, "Restoring the backup %s by the Job %s", id, j.Name)
	p.byJob = true
	return p
}

// backupStatus returns the status of the backups, while p is what the operator does next.
func backupStatus(o *observed, p plan) *v1.BackupStatus {
	spec := o.rdc.Spec.Backup
	if spec == nil {
		return nil
	}
	status := &v1.BackupStatus{}
	if o.rdc.Status.Backup != nil {
		status = o.rdc.Status.Backup.DeepCopy()
	}
	now := &metav1.Time{Time: o.now.Truncate(time.Second)}
	switch {
	case spec.Schedule == "":
		status.Schedule, status.ScheduledSince, status.LastScheduleTime = "", nil, nil
	case status.Schedule != spec.Schedule || status.ScheduledSince == nil:
		status.Schedule, status.ScheduledSince, status.LastScheduleTime = spec.Schedule, now, now
	case status.LastScheduleTime == nil || status.LastScheduleTime.After(o.now): // A clock was wrong.
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
	for _, c := range p.upkeep {
		at, ok := timeOfBackup(c.id)
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

// restoreStatus returns the status of the restore, while p is what the operator does next: when it began, which backup is the latest, and
// the result of its Job, once the Job has succeeded.
func restoreStatus(o *observed, p plan) *v1.RestoreStatus {
	if !o.toBeRestored() {
		return o.rdc.Status.Restore
	}
	j := o.jobOfRestore()
	starts := slices.ContainsFunc(p.commands, func(c command) bool { return c.verb == startRestore })
	if j == nil && !starts {
		return o.rdc.Status.Restore
	}
	status := o.rdc.Status.Restore.DeepCopy()
	if status == nil {
		status = &v1.RestoreStatus{StartedAt: &metav1.Time{Time: o.now.Truncate(time.Second)}}
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
	case o.backupImage == "":
		return false, reasonNoImage, "No backups are made: " + noImage
	case status.Running != "" && o.jobRejection != "":
		return false, reasonJobRejected, fmt.Sprintf("The Job %s: %s", backupName(o.rdc, status.Running), o.jobRejection)
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
	for _, failed := range []string{o.jobRejection, o.jobFailure} {
		if failed != "" {
			message += ". " + failed
		}
	}
	return ok, reason, message
}

// BackupMetrics are the figures of the backups of a RedisCluster.
type BackupMetrics struct {
	// Failed is whether the last backup failed, or none can be made.
	Failed bool
	// Succeeded is when the last good backup ended; zero if there is none. Keys and Bytes are its numbers.
	Succeeded   time.Time
	Keys, Bytes int64
	// Since is when the operator noticed the schedule; zero without one.
	Since time.Time
	// Interval is the longest time between two of the next times of the schedule; 0 without one.
	Interval time.Duration
}

// backupMetrics returns the figures of a status; nil without spec.backup.
func backupMetrics(o *observed, p plan, status *v1.BackupStatus) *BackupMetrics {
	if status == nil {
		return nil
	}
	ok, reason, _ := backedUp(o, p, status)
	m := &BackupMetrics{Failed: !ok && reason != ReasonNoBackupYet, Interval: backupInterval(status.Schedule, o.now)}
	if status.ScheduledSince != nil {
		m.Since = status.ScheduledSince.Time
	}
	if status.Last != nil && status.LastSuccessfulTime != nil {
		m.Succeeded, m.Keys, m.Bytes = status.LastSuccessfulTime.Time, status.Last.Keys, status.Last.Bytes
	}
	return m
}
