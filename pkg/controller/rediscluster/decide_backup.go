// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// The functions below decide when a backup is made. A backup needs three writes: its ID goes into status.backup.running, the Job is
// created, and the result goes into the status. After a crash between two of them, the next sync continues: an ID without a Job gets its
// Job, and the result of a Job that is not in the status is read again. So each time of the schedule has at most one Job, and none is lost.
//
// The times of the schedule count from status.backup.lastScheduleTime on. If several were missed, only the last one gets a backup.
// status.backup.lastBackupNow is the last value of AnnotationBackupNow that was set when a backup began. The Job records the value, too,
// since a status can be lost.

// runningBackup returns the ID of the backup that is being made; "" for none. If the status was lost, it returns the ID of the Job. An ID
// in the future comes from a wrong clock, and counts only if it has a Job.
func (o *observed) runningBackup() string {
	if s := o.Object.Status.Backup; s != nil && s.Running != "" {
		if at, ok := manifest.TimeOfBackup(s.Running); o.jobOf(s.Running) != nil || (ok && !at.After(o.Now)) {
			return s.Running
		}
	}
	for _, j := range o.Jobs {
		if !j.restores() && j.Ended == "" && !j.Deleting {
			return j.ID
		}
	}
	return ""
}

// jobOf returns the Job with an ID (see manifest.BackupOf); nil if there is none.
func (o *observed) jobOf(id string) *job {
	if i := slices.IndexFunc(o.Jobs, func(j *job) bool { return j.ID == id }); i >= 0 {
		return o.Jobs[i]
	}
	return nil
}

// dueBackup returns the ID of the backup that is to be made now; "" for none.
func (o *observed) dueBackup() string {
	spec, status := o.Object.Spec.Backup, o.Object.Status.Backup
	if spec == nil || status == nil || status.Schedule != spec.Schedule || status.LastScheduleTime == nil {
		return "" // The schedule counts from this sync on.
	}
	schedule, err := v1.ParseBackupSchedule(spec.Schedule)
	if err != nil {
		return "" // Unreachable: the spec is valid.
	}
	if due := lastTime(schedule, status.LastScheduleTime.UTC(), o.Now.UTC()); !due.IsZero() {
		return manifest.BackupID(due)
	}
	return ""
}

// lastTime returns the last time of a schedule that is after from and not after now; zero if there is none. It finds by bisection the last
// moment from which the next time of the schedule has come.
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

// lastBackupNow returns the last value of AnnotationBackupNow for which a backup began; "" if there is none. The status may not have it:
// a CRD of an earlier version has no such field. Then lastBackupNow returns the present value if a Job has it. The value in the status does
// not count if the running backup in the status was dropped.
func (o *observed) lastBackupNow() string {
	status := ptr.Deref(o.Object.Status.Backup, v1.BackupStatus{})
	if dropped := status.Running != "" && o.runningBackup() != status.Running; status.LastBackupNow != "" && !dropped {
		return status.LastBackupNow
	}
	value := o.Object.Annotations[v1.AnnotationBackupNow]
	if !slices.ContainsFunc(o.Jobs, func(j *job) bool { return j.BackupNow == value }) {
		return ""
	}
	return value
}

// backupNowOf returns the value of AnnotationBackupNow for the Job of a backup. A backup that has begun does not take a later value.
func (o *observed) backupNowOf(id string) string {
	value := o.Object.Annotations[v1.AnnotationBackupNow]
	if id == o.runningBackup() {
		return cmp.Or(o.lastBackupNow(), value)
	}
	return value
}

// requestedBackup returns the ID of the backup that AnnotationBackupNow requests; "" if there is none, or if it has begun. The ID is the
// present second, or the last one before it that no other backup has. Second 0 is left to the schedule.
func (o *observed) requestedBackup() string {
	if value := o.Object.Annotations[v1.AnnotationBackupNow]; value == "" || value == o.lastBackupNow() {
		return ""
	}
	status := ptr.Deref(o.Object.Status.Backup, v1.BackupStatus{})
	last, failure := ptr.Deref(status.Last, v1.BackupResult{}), ptr.Deref(status.LastFailure, v1.BackupFailure{})
	at := o.Now.Truncate(time.Second)
	for at.Second() == 0 || o.jobOf(manifest.BackupID(at)) != nil || manifest.BackupID(at) == last.ID || manifest.BackupID(at) == failure.ID {
		at = at.Add(-time.Second)
	}
	return manifest.BackupID(at)
}

// untilBackup returns how long to wait for the next time of the schedule; 0 if there is none.
func (o *observed) untilBackup() time.Duration {
	spec := o.Object.Spec.Backup
	if spec == nil {
		return 0
	}
	schedule, err := v1.ParseBackupSchedule(spec.Schedule)
	if err != nil {
		return 0
	}
	next := schedule.Next(o.Now.UTC())
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(o.Now), time.Millisecond)
}

// backupInterval returns the longest interval between the next times of the schedule; 0 if there are none.
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

// backupCommands returns the commands that create the Job of a backup, and delete Jobs that are outdated or not needed. p is the plan of
// the policies.
func backupCommands(o *observed, p plan) []command {
	var commands []command
	for _, j := range o.Jobs {
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
	if o.Object.Spec.Backup == nil {
		return ""
	}
	if running := o.runningBackup(); running != "" {
		return running
	}
	return cmp.Or(o.dueBackup(), o.requestedBackup())
}

// needsJob returns whether a Job is kept: the one that runs, the last one that succeeded, the last one that failed, and that of the spec's
// restoreFrom. One whose Pod does not end is kept until the status has its result.
func (o *observed) needsJob(j *job) bool {
	switch {
	case j.Lingering && !o.needsResult(j):
		return false
	case j.ID == "":
		return o.Object.Spec.RestoreFrom != nil
	case j.ID == v1.LatestBackup: // The result is lost if the Pod is gone. Then a new Job chooses.
		lost := j.Ended == batchv1.JobComplete && j.Result != nil && j.Result.ID == ""
		return o.toBeRestored() && o.restoredBackup() == v1.LatestBackup && !lost
	case o.Object.Spec.Backup == nil:
		return false
	case j.ID == o.runningBackup():
		return true
	}
	return !slices.ContainsFunc(o.Jobs, func(other *job) bool {
		return other.Ended == j.Ended && cmp.Or(other.EndedAt.Compare(j.EndedAt), cmp.Compare(other.ID, j.ID)) > 0
	})
}

// whyNoBackup returns why no backup can begin now; "" if a backup can. p is the plan of the policies.
func (o *observed) whyNoBackup(p plan) string {
	_, same := o.access()
	switch {
	case o.BackupImage == "":
		return noImage
	case o.toBeRestored():
		return "a backup is being restored"
	case !o.Formed:
		return "the cluster is being formed"
	case o.openSlots() || p.movesSlots():
		return "slots are being moved"
	case p.switches() || slices.ContainsFunc(o.Members, (*member).preventsFailover):
		return "the nodes switch to another protocol"
	case (p.announces() && len(p.Commands) > 0) || o.changesAddress():
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
	return o.JobRejection == "" || o.Now.Sub(o.JobRejectedAt) >= secretEvery
}

// noImage is the reason if the operator can make neither backups nor restores.
const noImage = "the operator was started without --backup-image, which is the image of the Jobs"

// openSlots returns whether a node has slots that are migrating or importing.
func (o *observed) openSlots() bool {
	return slices.ContainsFunc(o.answering(), func(m *member) bool { return len(m.self().Importing)+len(m.self().Migrating) > 0 })
}

// movesSlots returns whether the plan gives slots to another node.
func (p plan) movesSlots() bool {
	return p.Loss != nil || slices.ContainsFunc(p.Commands, func(c command) bool {
		return slices.Contains([]*verb{addSlots, moveSlots, openSlots, resumeMove, closeSlots, failover}, c.verb)
	})
}

func (o *observed) toBeRestored() bool { return manifest.ToBeRestored(o.Object) }

// restoredBackup returns the ID of the backup that is to be restored; LatestBackup until the latest backup is chosen. The choice is in the
// status before the first key is sent. So each attempt restores the same backup, even if there are newer ones by then.
func (o *observed) restoredBackup() string {
	id := o.Object.Spec.RestoreFrom.Backup
	if s := o.Object.Status.Restore; id == v1.LatestBackup && s != nil && s.ID != "" {
		return s.ID
	}
	return id
}

// jobOfRestore returns the Job that restores a backup, or the Job that first chooses it; nil if there is none.
func (o *observed) jobOfRestore() *job {
	j := o.jobOf("") // The Job of an earlier version also chooses the backup.
	if j == nil && o.restoredBackup() == v1.LatestBackup {
		return o.jobOf(v1.LatestBackup)
	}
	return j
}

// withKeys returns a node that has keys; nil if none has.
func (o *observed) withKeys() *member {
	for _, m := range o.answering() {
		if m.View.Keys > 0 {
			return m
		}
	}
	return nil
}

// beginRestore has the status record that the restore has begun, before the first slot is assigned: no client can have written to a new
// cluster then. If there are keys, they are of an earlier RedisCluster or of its clients: see restoreBackup.
func beginRestore(o *observed) *plan {
	if !o.toBeRestored() || o.Object.Status.Restore != nil || len(o.answering()) < len(o.Members) || o.withKeys() != nil {
		return nil // A member that does not answer yet may have keys, also if it is to go.
	}
	return wait(brief, "Beginning to restore the backup %s", o.restoredBackup())
}

// restoreBackup creates the Job that restores spec.restoreFrom, and waits for it. If spec.restoreFrom names the latest backup, another Job
// first chooses that backup. This policy is one of the last, so the nodes already have their slots, replicas and users.
func restoreBackup(o *observed) *plan {
	if !o.toBeRestored() {
		return nil
	}
	id := o.restoredBackup()
	held := func(reason, message string) *plan {
		return &plan{Step: message, Wait: duration(poll), Problems: []problem{{reason, message}}}
	}
	j := o.jobOfRestore()
	_, same := o.access()
	switch {
	case j == nil && o.Object.Status.Restore == nil && o.withKeys() != nil:
		return held(reasonRestoreRefused, fmt.Sprintf("The backup %s is not restored, since %s has keys already. Remove spec.restoreFrom to "+
			"keep them, or delete the keys; after a RedisCluster of the same name, the claims have them", id, o.withKeys().Name))
	case j == nil && o.BackupImage == "":
		return held(reasonNoImage, "The backup cannot be restored: "+noImage)
	case j == nil && !same:
		return wait(check, "Waiting for the Pods to be replaced, before the backup is restored")
	case j == nil && o.JobRejection != "":
		p := held(reasonJobRejected, "The API server rejects the Job "+o.desiredJob("").Name+": "+o.JobRejection)
		if o.triesJob() {
			p.Commands = []command{{verb: startRestore}}
		}
		return p
	case j == nil:
		return do([]command{{verb: startRestore}}, "Restoring the backup %s", id)
	case j.Deleting:
		return wait(check, "Waiting for the Job %s to be deleted", j.Name)
	case j.Ended == batchv1.JobFailed:
		return held(reasonRestoreFailed, fmt.Sprintf("The Job %s, which restores the backup %s, failed: %s. Correct the cause, and delete "+
			"the Job to try again, or remove spec.restoreFrom to use the cluster as it is", j.Name, id, ptr.Deref(j.Result, jobResult{}).Message))
	case j.Ended == batchv1.JobComplete && j.Result == nil:
		return wait(check, "Waiting for the result of the Job %s: %s", j.Name, o.JobFailure)
	case j.Ended == batchv1.JobComplete && j.ID == v1.LatestBackup:
		return wait(check, "Restoring the backup %s", cmp.Or(j.Result.ID, id)) // This sync writes the choice to the status.
	case j.Ended == batchv1.JobComplete:
		return nil // This sync writes the result to the status.
	case j.NotStarting != "":
		return held(reasonNotStarting, fmt.Sprintf("The Pod of the Job %s, which restores the backup %s, does not start: %s",
			j.Name, id, j.NotStarting))
	}
	p := wait(poll, "Restoring the backup %s by the Job %s", id, j.Name)
	p.ByJob = true
	return p
}

// access returns how a Job reaches the nodes. It returns false while the nodes differ in user, password or TLS: their Pods are being
// replaced.
func (o *observed) access() (manifest.Access, bool) {
	transport, same := o.transport()
	var a manifest.Access
	var port int
	for i, m := range o.withPods() {
		overTLS := transport != manifest.TransportPlain
		user, password := manifest.LoginTo(m.Pod)
		secret := ""
		if overTLS {
			secret = manifest.SecretOfTLS(m.Pod)
		}
		if i == 0 {
			a, port = manifest.Access{User: user, Password: password, Authority: secret}, manifest.PortFor(m.Pod, overTLS)
		}
		same = same && a.User == user && ptr.Equal(a.Password, password) && a.Authority == secret
		if m.answers() && len(a.Addresses) < manifest.MaxAddresses {
			a.Addresses = append(a.Addresses, net.JoinHostPort(m.ip(), strconv.Itoa(manifest.PortFor(m.Pod, overTLS))))
		}
	}
	a.Addresses = append([]string{net.JoinHostPort(manifest.ServerName(o.Object), strconv.Itoa(port))}, a.Addresses...)
	return a, same
}
