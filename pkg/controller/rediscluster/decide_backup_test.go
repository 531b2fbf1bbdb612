// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
)

const (
	testImage = "glassback/glassback:test"
	// dueID is the backup that is due at seenAt, with a schedule of each hour.
	dueID = "20260109T130000Z"
	// requestID is the backup that begins at seenAt if one is requested.
	requestID = "20260109T134959Z"
)

func at(hour, minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 9, hour, minute, 0, 0, time.UTC))
}

// hourly sets spec.backup, of which the status has accounted for all times up to a time.
func hourly(until metav1.Time) alter {
	return func(o *observed) {
		o.backupImage = testImage
		o.rdc.Spec.Backup = &v1.Backup{Schedule: "0 * * * *", Retention: ptr.To[int32](7), BackupStore: inClaim()}
		o.rdc.Status.Backup = &v1.BackupStatus{Schedule: "0 * * * *", ScheduledSince: ptr.To(at(0, 0)), LastScheduleTime: &until}
	}
}

func inClaim() v1.BackupStore {
	return v1.BackupStore{PersistentVolumeClaim: &v1.ClaimReference{ClaimName: "backups"}}
}

// requested sets AnnotationBackupNow. The status has begun backups for the values until that was "1".
func requested(value string) alter {
	return func(o *observed) {
		o.rdc.Annotations = map[string]string{v1.AnnotationBackupNow: value}
		o.rdc.Status.Backup.LastBackupNow = "1"
	}
}

func withoutSchedule(o *observed) {
	o.rdc.Spec.Backup.Schedule = ""
	o.rdc.Status.Backup = &v1.BackupStatus{LastBackupNow: o.rdc.Status.Backup.LastBackupNow}
}

// due is a backup that is to be made at seenAt.
var due = hourly(at(12, 30))

func runningBackup(id string) alter {
	return func(o *observed) { o.rdc.Status.Backup.Running = id }
}

// jobIs adds the Job of a backup; with the ID "", the one that restores a backup, and with LatestBackup, the one that chooses which.
func jobIs(id string, ended batchv1.JobConditionType, changes ...func(*job)) alter {
	return func(o *observed) {
		j := &job{Name: restoreName(o.rdc), UID: types.UID("job-" + id), ID: id, Ended: ended}
		switch id {
		case "":
		case v1.LatestBackup:
			j.Name = choiceName(o.rdc)
		default:
			j.Name = backupName(o.rdc, id)
		}
		if ended != "" {
			j.EndedAt, j.Result = at(13, 40).Time, &jobResult{ID: id, Keys: 30, Bytes: 900, Message: "no disk"}
		}
		for _, change := range changes {
			change(j)
		}
		o.jobs = append(o.jobs, j)
	}
}

// restoring sets spec.restoreFrom. The cluster has no keys.
func restoring(o *observed) {
	o.backupImage = testImage
	for _, m := range o.members {
		if m.view != nil {
			m.view.Keys = 0
		}
	}
	o.rdc.Spec.RestoreFrom = &v1.RestoreFrom{Name: "other", Backup: v1.LatestBackup, BackupStore: inClaim()}
}

func restored(o *observed) {
	restoring(o)
	o.rdc.Status.Restore = &v1.RestoreStatus{ID: "20260108T130000Z", Keys: 30, CompletedAt: ptr.To(at(12, 0))}
}

func withoutImage(o *observed) { o.backupImage = "" }

func deleting(j *job) { j.Deleting = true }

func outdated(j *job) { j.NotStarting, j.Outdated = "ErrImagePull", true }

func jobRejected(before time.Duration) alter {
	return func(o *observed) { o.jobRejection, o.jobRejectedAt = "exceeded quota", seenAt.Add(-before) }
}

func TestDecideBackups(t *testing.T) {
	const create = "create Job of backup " + dueID
	begins, requestBegins, none := settledIs.making(create), settledIs.making("create Job of backup "+requestID), hourly(at(13, 0))
	decisions{
		"a time of the schedule has come":                 {seen: with(six(), due), want: begins},
		"of several times that were missed, the last one": {seen: with(six(), hourly(at(3, 10))), want: begins},
		"exactly at the time": {
			seen: with(six(), due, func(o *observed) { o.now = at(13, 0).Time }), want: begins,
		},
		"the time has had its backup": {seen: with(six(), hourly(at(13, 0))), want: settledIs},
		"shortly before the next time, the next sync is at that time": {
			seen: with(six(), hourly(at(13, 0)), func(o *observed) { o.now = at(14, 0).Add(-3 * time.Second) }),
			want: decision{wait: 3 * time.Second},
		},
		"a new schedule counts from now on": {
			seen: with(six(), due, func(o *observed) { o.rdc.Spec.Backup.Schedule = "30 * * * *" }), want: settledIs,
		},
		"the status has no backup yet": {
			seen: with(six(), due, func(o *observed) { o.rdc.Status.Backup = nil }), want: settledIs,
		},
		"one runs": {seen: with(six(), due, runningBackup("20260109T120000Z"), jobIs("20260109T120000Z", "")), want: settledIs},
		"one has ended: its result is written first": {
			seen: with(six(), due, runningBackup("20260109T120000Z"), jobIs("20260109T120000Z", batchv1.JobComplete)), want: settledIs,
		},
		"the operator ended before it created the Job": {
			seen: with(six(), hourly(at(13, 0)), runningBackup(dueID)), want: begins,
		},
		"the status was lost, and the Job runs": {seen: with(six(), due, jobIs("20260109T120000Z", "")), want: settledIs},
		"without an image there is none":        {seen: with(six(), due, withoutImage), want: settledIs},
		"not while a backup is being restored": {
			seen: with(six(), due, restoring, jobIs("", "")), want: decision{step: "Restoring the backup latest", wait: poll},
		},
		"after it was restored": {seen: with(six(), due, restored), want: begins},
		"the Job that chose what was restored is no backup": {
			seen: with(six(), due, restored, jobIs(v1.LatestBackup, "")), want: settledIs.making("delete Job demo-restore-latest", create),
		},
		"not while slots are open": {
			seen: with(six(), due, moving("100", 0, 1, true)), want: moves("100", "move slots demo-0 demo-1 100"),
		},
		"not while slots are about to move": {
			seen: with(sixAnd(master(""), replica(6)), due), want: moves("Moving slots", "move slots demo-0 demo-6 0-63"),
		},
		"not before the cluster is formed": {
			seen: with(six(), due, unformed, clearStatus, noPod(0, 1, 2, 3, 4, 5), due),
			want: waits("Waiting for demo-0").making(every("create Pod demo-%d", 0, 1, 2, 3, 4, 5)...),
		},
		"not while a master does not answer": {seen: with(six(), due, silenced(time.Minute, 1)), want: waits("Waiting for demo-1")},
		"while a replica does not answer": {
			seen: with(six(), due, silenced(time.Minute, 4)), want: waits("Waiting for demo-4").making(create),
		},
		"while Pods are replaced": {
			seen: with(six(), due, podIs(old, 3)), want: does("Replacing demo-3", "evict Pod demo-3").making(create),
		},
		"not while a master is replaced": {
			seen: with(six(), due, podIs(old, 0)), want: does("demo-3 takes over", "failover demo-3"),
		},
		"after a rejection, the operator waits": {seen: with(six(), due, jobRejected(secretEvery-1)), want: settledIs},
		"and then tries again":                  {seen: with(six(), due, jobRejected(secretEvery)), want: begins},
		"one is requested":                      {seen: with(six(), none, requested("2")), want: requestBegins},
		"the request has had its backup":        {seen: with(six(), none, requested("1")), want: settledIs},
		"the request was withdrawn":             {seen: with(six(), none, requested("")), want: settledIs},
		"one is requested, without a schedule":  {seen: with(six(), none, requested("2"), withoutSchedule), want: requestBegins},
		"without a schedule and a request":      {seen: with(six(), none, requested("1"), withoutSchedule), want: settledIs},
		"with spec.backup, the first is requested": {
			seen: with(six(), none, requested("2"), func(o *observed) { o.rdc.Status.Backup = nil }), want: requestBegins,
		},
		"one is due, and one is requested": {seen: with(six(), due, requested("2")), want: begins},
		"one is requested, and one runs": {
			seen: with(six(), none, requested("2"), runningBackup(dueID), jobIs(dueID, "")), want: settledIs,
		},
		"the ID of a request is the second in which it begins": {
			seen: with(six(), none, requested("2"), func(o *observed) { o.now = o.now.Add(7500 * time.Millisecond) }),
			want: settledIs.making("create Job of backup 20260109T135007Z"),
		},
		"the ID of a request is of no Job": {
			seen: with(six(), none, requested("2"), jobIs(requestID, batchv1.JobComplete)),
			want: settledIs.making("create Job of backup 20260109T134958Z"),
		},
		"the ID of a request is not the last one, nor that of the last failure": {
			seen: with(six(), none, requested("2"), func(o *observed) {
				o.rdc.Status.Backup.Last = &v1.BackupResult{ID: requestID}
				o.rdc.Status.Backup.LastFailure = &v1.BackupFailure{ID: "20260109T134958Z"}
			}),
			want: settledIs.making("create Job of backup 20260109T134957Z"),
		},
		"the operator ended before it created the Job of a request": {
			seen: with(six(), none, requested("1"), runningBackup("20260109T134807Z")),
			want: settledIs.making("create Job of backup 20260109T134807Z"),
		},
		"a request waits while slots are open": {
			seen: with(six(), none, requested("2"), moving("100", 0, 1, true)), want: moves("100", "move slots demo-0 demo-1 100"),
		},
		"one does not start, and the cause is corrected": {
			seen: with(six(), none, runningBackup(dueID), jobIs(dueID, "", outdated)),
			want: settledIs.making("delete Job demo-backup-20260109t130000z"),
		},
		"it is replaced once it is gone": {seen: with(six(), none, runningBackup(dueID)), want: begins},
		"the last good and the last bad Job stay": {
			seen: with(six(), hourly(at(13, 0)), jobIs("20260109T090000Z", batchv1.JobComplete), jobIs("20260109T100000Z", batchv1.JobFailed),
				jobIs("20260109T110000Z", batchv1.JobFailed), jobIs("20260109T120000Z", batchv1.JobComplete)),
			want: settledIs.making("delete Job demo-backup-20260109t090000z", "delete Job demo-backup-20260109t100000z"),
		},
		"one that is being deleted is left alone": {
			seen: with(six(), hourly(at(13, 0)), jobIs("20260109T090000Z", batchv1.JobComplete, deleting), jobIs(dueID, batchv1.JobComplete)),
			want: settledIs,
		},
		"one whose result is not written yet stays": {
			seen: with(six(), hourly(at(13, 0)), runningBackup("20260109T090000Z"), jobIs("20260109T090000Z", batchv1.JobComplete),
				jobIs(dueID, batchv1.JobComplete)),
			want: settledIs,
		},
		"without spec.backup, all are deleted": {
			seen: with(six(), due, jobIs("20260109T090000Z", batchv1.JobComplete), jobIs(dueID, ""),
				func(o *observed) { o.rdc.Spec.Backup = nil }),
			want: settledIs.making("delete Job demo-backup-20260109t090000z", "delete Job demo-backup-20260109t130000z"),
		},
	}.run(t)
}

// A Job logs in as all nodes accept it, and uses TLS if all nodes use it among themselves.
func TestDecideBackupsOfPodsThatDiffer(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	users := people(aUser("default", "off", ""))
	have := have(map[string][]string{"glassback": {accountPassword}, "default": nil}, all...)
	renamed := func(o *observed) { o.rdc.Spec.TLS.SecretRef.Name = "renamed" }
	for sentence, test := range map[string]struct {
		seen *observed
		want bool
		user string
		tls  bool
	}{
		"all are alike":              {with(six(), due), true, "", false},
		"all have users":             {with(six(), users, reading, have, due), true, v1.UserOperator, false},
		"some do not have users yet": {with(six(), users, withoutAccount("", 3), reading, have, due), false, "", false},
		"all use TLS":                {with(six(), specTLS(v1.TLSPreferred), secured("both", true, all...), due), true, "", true},
		"all have a certificate, and do not use it": {with(six(), specTLS(v1.TLSPreferred), secured("", false, all...), due), false, "", false},
		"some have switched": {
			with(six(), specTLS(v1.TLSPreferred), secured("both", true, 0, 1, 2), secured("", false, 3, 4, 5), due), false, "", false,
		},
		"some have a certificate": {with(six(), specTLS(v1.TLSPreferred), secured("", false, 0, 1, 2), due), true, "", false},
		"some have the Secret of before": {
			with(six(), specTLS(v1.TLSPreferred), secured("both", true, all...), renamed, secured("both", true, 0, 1, 2), due), false, "", false,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := decide(test.seen)
			begins := strings.Contains(strings.Join(inWords(p.upkeep), ","), "create Job of backup")
			if begins != test.want {
				t.Fatalf("upkeep %q, want a backup: %t; it waits: %q", inWords(p.upkeep), test.want, test.seen.whyNoBackup(p))
			}
			if !begins {
				return
			}
			a, same := test.seen.access()
			if !same || a.user != test.user || (a.authority != "") != test.tls {
				t.Errorf("access %+v", a)
			}
		})
	}
}

// No backup begins between two changes of addresses. A node that keeps another address than that of the spec does not hold backups.
func TestDecideBackupsWhileAddressesChange(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	labelled := func(o *observed) { opening(o); selected(all...)(o) }
	for sentence, test := range map[string]struct {
		alters []alter
		want   bool
	}{
		"all announce their addresses":                 {[]alter{opening, announcing(all...)}, true},
		"the next one waits until the last is reached": {[]alter{labelled, reachedNodes(all...), announcing(3), missed(3, 0)}, false},
		"the next one waits for a replica":             {[]alter{labelled, reachedNodes(all...), announcing(3), linkDown(3)}, false},
		"the last one is not reached yet": {
			[]alter{opening, announcing(all...), inVain(0, 3), unreachedFor(time.Second, 0)}, false,
		},
		"one gave its address up":                     {[]alter{labelled, reachedNodes(all...), announcing(4), givenUp(3)}, true},
		"the operator does not reach a node":          {[]alter{opening, announcing(0, 1, 2, 4, 5), selected(3), missing(time.Hour, 3)}, true},
		"no access any more, and a replica is behind": {[]alter{served, announcing(all...), linkDown(3)}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := with(six(), append(test.alters, due)...)
			p := decide(o)
			if why := o.whyNoBackup(p); (why == "") != test.want || (!test.want && why != "a node changes its address") {
				t.Errorf("it waits: %q, want a backup: %t", why, test.want)
			}
		})
	}
}

func begun(o *observed) { o.rdc.Status.Restore = &v1.RestoreStatus{StartedAt: ptr.To(at(13, 0))} }

// chose has the Job that chooses end with an ID.
func chose(id string) alter {
	return jobIs(v1.LatestBackup, batchv1.JobComplete, func(j *job) { j.Result.ID = id })
}

// chosen is the status with the ID of the latest backup.
func chosen(o *observed) { begun(o); o.rdc.Status.Restore.ID = dueID }

func TestDecideRestore(t *testing.T) {
	const create = "create Job of restore"
	decisions{
		"a cluster that is ready gets it": {seen: with(six(), restoring), want: does("Restoring the backup latest", create)},
		"not before all else is done":     {seen: with(six(), restoring, under(opForm), podIs(unready, 4)), want: waits("demo-4")},
		"it is not done while a node has keys": {
			seen: with(six(), restoring, viewed(func(v *redisnode.View) { v.Keys = 1 }, 1)),
			want: decision{step: "demo-1 has keys already", reason: reasonRestoreRefused, wait: poll},
		},
		"the operator ended before it created the Job": {
			seen: with(six(), restoring, begun, viewed(func(v *redisnode.View) { v.Keys = 1 }, 1)),
			want: does("Restoring the backup latest", create),
		},
		"the latest backup is being chosen": {
			seen: with(six(), restoring, begun, jobIs(v1.LatestBackup, "")), want: decision{step: "by the Job demo-restore-latest", wait: poll},
		},
		"there is none to choose": {
			seen: with(six(), restoring, begun, jobIs(v1.LatestBackup, batchv1.JobFailed)),
			want: decision{step: "The Job demo-restore-latest, which restores the backup latest, failed", reason: reasonRestoreFailed, wait: poll},
		},
		"the choice is in the status before the restore begins": {
			seen: with(six(), restoring, begun, chose(dueID)), want: waits("Restoring the backup " + dueID),
		},
		"and then its Job is created": {
			seen: with(six(), restoring, chosen, chose(dueID)),
			want: does("Restoring the backup "+dueID, create).making("delete Job demo-restore-latest"),
		},
		"the choice is lost: another Job chooses": {
			seen: with(six(), restoring, begun, chose("")),
			want: waits("Restoring the backup latest").making("delete Job demo-restore-latest"),
		},
		"the chosen backup is gone": {
			seen: with(six(), restoring, chosen, jobIs("", batchv1.JobFailed)),
			want: decision{step: "which restores the backup " + dueID + ", failed", reason: reasonRestoreFailed, wait: poll},
		},
		"the Pod of its Job does not start": {
			seen: with(six(), restoring, begun, jobIs("", "", func(j *job) { j.NotStarting = "ImagePullBackOff" })),
			want: decision{step: "does not start: ImagePullBackOff", reason: reasonNotStarting, wait: poll},
		},
		"its result cannot be read": {
			seen: with(six(), restoring, begun, jobIs("", batchv1.JobComplete, func(j *job) { j.Result = nil }), func(o *observed) {
				o.jobFailure = "list Pods: forbidden"
			}),
			want: waits("list Pods: forbidden"),
		},
		"its Job runs": {
			seen: with(six(), restoring, jobIs("", "")), want: decision{step: "by the Job demo-restore", wait: poll},
		},
		"its Job runs for long": {
			seen: with(six(), restoring, jobIs("", ""), func(o *observed) { o.actedAt = seenAt.Add(-time.Hour) }),
			want: decision{step: "by the Job demo-restore", wait: poll},
		},
		"its Job has succeeded": {seen: with(six(), restoring, jobIs("", batchv1.JobComplete)), want: settledIs},
		"its Job has failed": {
			seen: with(six(), restoring, jobIs("", batchv1.JobFailed)),
			want: decision{step: "failed: no disk. Correct the cause, and delete the Job", reason: reasonRestoreFailed, wait: poll},
		},
		"its Job is being deleted":      {seen: with(six(), restoring, jobIs("", batchv1.JobFailed, deleting)), want: waits("to be deleted")},
		"it is done":                    {seen: with(six(), restored), want: settledIs},
		"it is done, and its Job stays": {seen: with(six(), restored, jobIs("", batchv1.JobComplete)), want: settledIs},
		"without an image it is a problem": {
			seen: with(six(), restoring, withoutImage), want: decision{step: "without --backup-image", reason: reasonNoImage, wait: poll},
		},
		"an old Job cannot be deleted: its Job is created": {
			seen: with(six(), restoring, func(o *observed) { o.jobFailure = "delete Job: forbidden" }),
			want: does("Restoring the backup latest", create),
		},
		"the cause is corrected: its Job is replaced": {
			seen: with(six(), restoring, begun, jobIs("", "", outdated)),
			want: decision{step: "does not start: ErrImagePull", reason: reasonNotStarting, wait: poll}.making("delete Job demo-restore"),
		},
		"its Job is rejected, and the operator waits": {
			seen: with(six(), restoring, jobRejected(secretEvery-1)), want: decision{step: "exceeded quota", reason: reasonJobRejected, wait: poll},
		},
		"its Job is rejected, and the operator tries again": {
			seen: with(six(), restoring, jobRejected(secretEvery)),
			want: decision{step: "exceeded quota", reason: reasonJobRejected, wait: poll, commands: []string{create}},
		},
		"the spec has it no more": {
			seen: with(six(), jobIs("", "")), want: settledIs.making("delete Job demo-restore"),
		},
	}.run(t)
}

// A Job that was rejected is not tried again while Pods differ in how the Job would log in.
func TestARejectedRestoreWaitsForThePods(t *testing.T) {
	o := with(six(), restoring, jobRejected(secretEvery))
	if p := restoreBackup(o); p == nil || len(p.commands) != 1 {
		t.Fatalf("with equal Pods, the plan is %+v, want one command", p)
	}
	o.members[4].pod.Annotations = map[string]string{AnnotationUser: "operator"}
	if p := restoreBackup(o); p == nil || len(p.commands) > 0 || !strings.Contains(p.step, "Waiting for the Pods to be replaced") {
		t.Errorf("with another login in one Pod, the plan is %+v", p)
	}
}

func TestTheStatusOfBackups(t *testing.T) {
	const before = "20260109T120000Z"
	noticed := at(13, 50)
	ended := at(13, 40)
	result := &v1.BackupResult{ID: before, Keys: 30, Bytes: 900}
	failure := &v1.BackupFailure{ID: before, Time: &ended, Message: "no disk"}
	later, never := at(13, 0), metav1.Time{}
	for sentence, test := range map[string]struct {
		seen *observed
		want *v1.BackupStatus // without the schedule
		is   string           // the condition
		says string
	}{
		"without spec.backup there is none": {with(six()), nil, "", ""},
		"spec.backup was removed":           {with(six(), due, func(o *observed) { o.rdc.Spec.Backup = nil }), nil, "", ""},
		"a new schedule": {
			with(six(), due, func(o *observed) { o.rdc.Status.Backup = nil }),
			&v1.BackupStatus{ScheduledSince: &noticed, LastScheduleTime: &noticed}, "False NotYet", "",
		},
		"a changed schedule": {
			with(six(), due, func(o *observed) { o.rdc.Status.Backup.Schedule = "5 * * * *" }),
			&v1.BackupStatus{ScheduledSince: &noticed, LastScheduleTime: &noticed}, "False NotYet", "",
		},
		"a clock was wrong": {
			with(six(), hourly(at(15, 0))), &v1.BackupStatus{LastScheduleTime: &noticed}, "False NotYet", "",
		},
		"a backup begins": {with(six(), due), &v1.BackupStatus{LastScheduleTime: &later, Running: dueID}, "False NotYet", ""},
		"a backup waits": {
			with(six(), due, moving("100", 0, 1, true)), &v1.BackupStatus{LastScheduleTime: ptr.To(at(12, 30))}, "False NotYet",
			"The backup " + dueID + " waits: slots are being moved",
		},
		"a backup waits while a node changes its address": {
			with(six(), due, opening, selected(allSix...), reachedNodes(allSix...)),
			&v1.BackupStatus{LastScheduleTime: ptr.To(at(12, 30))}, "False NotYet",
			"The backup " + dueID + " waits: a node changes its address",
		},
		"a backup runs": {
			with(six(), hourly(later), runningBackup(dueID), jobIs(dueID, "")), &v1.BackupStatus{LastScheduleTime: &later, Running: dueID},
			"False NotYet", "",
		},
		"a backup has succeeded": {
			with(six(), hourly(later), runningBackup(before), jobIs(before, batchv1.JobComplete)),
			&v1.BackupStatus{LastScheduleTime: &later, LastSuccessfulTime: &ended, Last: result}, "True Succeeded", before + ". It has 30 keys",
		},
		"a backup has failed": {
			with(six(), hourly(later), runningBackup(before), jobIs(before, batchv1.JobFailed)),
			&v1.BackupStatus{LastScheduleTime: &later, LastFailure: failure}, "False Failed", before + " failed: no disk",
		},
		"a later backup has succeeded": {
			with(six(), hourly(later), func(o *observed) {
				o.rdc.Status.Backup.LastFailure, o.rdc.Status.Backup.Last = failure, &v1.BackupResult{ID: dueID}
				o.rdc.Status.Backup.LastSuccessfulTime = &noticed
			}),
			&v1.BackupStatus{
				LastScheduleTime: &later, LastFailure: failure, Last: &v1.BackupResult{ID: dueID}, LastSuccessfulTime: &noticed,
			}, "True Succeeded", "",
		},
		"there is no image": {
			with(six(), due, withoutImage), &v1.BackupStatus{LastScheduleTime: ptr.To(at(12, 30))}, "False BackupImageMissing", "--backup-image",
		},
		"a running one of a wrong clock is forgotten": {
			with(six(), hourly(later), runningBackup("20260109T150000Z")), &v1.BackupStatus{LastScheduleTime: &later}, "False NotYet", "",
		},
		"a requested backup begins": {
			with(six(), hourly(later), requested("2")),
			&v1.BackupStatus{LastScheduleTime: &later, Running: requestID, LastBackupNow: "2"}, "False NotYet", "",
		},
		"one is due and one is requested: it is both": {
			with(six(), due, requested("2")), &v1.BackupStatus{LastScheduleTime: &later, Running: dueID, LastBackupNow: "2"}, "False NotYet", "",
		},
		"the request was withdrawn": {
			with(six(), due, requested("")), &v1.BackupStatus{LastScheduleTime: &later, Running: dueID, LastBackupNow: "1"}, "False NotYet", "",
		},
		"the status has lost what was requested, and a Job has it": {
			with(six(), hourly(later), requested("1"), func(o *observed) { o.rdc.Status.Backup.LastBackupNow = "" },
				jobIs(requestID, batchv1.JobFailed, func(j *job) { j.BackupNow = "1" })),
			&v1.BackupStatus{LastScheduleTime: &later, LastBackupNow: "1"}, "False NotYet", "",
		},
		"a requested one of a wrong clock is requested still": {
			with(six(), hourly(later), requested("1"), runningBackup("20260109T150007Z")),
			&v1.BackupStatus{LastScheduleTime: &later, Running: requestID, LastBackupNow: "1"}, "False NotYet", "",
		},
		"the Job of a request begins after a crash: a later request stays": {
			with(six(), hourly(later), requested("2"), runningBackup("20260109T134807Z")),
			&v1.BackupStatus{LastScheduleTime: &later, Running: "20260109T134807Z", LastBackupNow: "1"}, "False NotYet", "",
		},
		"a requested backup waits": {
			with(six(), hourly(later), requested("2"), moving("100", 0, 1, true)),
			&v1.BackupStatus{LastScheduleTime: &later, LastBackupNow: "1"}, "False NotYet",
			"The backup for glassback.dev/backup-now waits: slots are being moved",
		},
		"the schedule was removed": {
			with(six(), hourly(later), func(o *observed) { o.rdc.Spec.Backup.Schedule = "" }), &v1.BackupStatus{ScheduledSince: &never},
			"False NotYet", "",
		},
		"the Pod of its Job does not start": {
			with(six(), hourly(later), runningBackup(dueID), jobIs(dueID, "", func(j *job) { j.NotStarting = "ErrImagePull" })),
			&v1.BackupStatus{LastScheduleTime: &later, Running: dueID}, "False NotYet", "does not start: ErrImagePull",
		},
		"its Job is rejected": {
			with(six(), hourly(later), runningBackup(dueID), jobRejected(0)), &v1.BackupStatus{LastScheduleTime: &later, Running: dueID},
			"False JobRejected", "exceeded quota",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			status := statusOf(test.seen, decide(test.seen), outcome{})
			if test.want != nil {
				test.want.Schedule = test.seen.rdc.Spec.Backup.Schedule
				if test.want.ScheduledSince == nil {
					test.want.ScheduledSince = ptr.To(at(0, 0))
				} else if test.want.ScheduledSince == &never {
					test.want.ScheduledSince = nil
				}
			}
			if !reflect.DeepEqual(status.Backup, test.want) {
				t.Errorf("got  %+v\nwant %+v", status.Backup, test.want)
			}
			is, says := "", ""
			if c := meta.FindStatusCondition(status.Conditions, v1.ConditionBackedUp); c != nil {
				is, says = string(c.Status)+" "+c.Reason, c.Message
			}
			if is != test.is || !strings.Contains(says, test.says) {
				t.Errorf("BackedUp is %s: %s; want %s: %s", is, says, test.is, test.says)
			}
			if ready := meta.FindStatusCondition(status.Conditions, "Ready"); ready.Reason != reasonFormed && status.Operation == nil {
				t.Errorf("Ready is %s: %s", ready.Reason, ready.Message)
			}
		})
	}
}

func TestTheStatusOfARestore(t *testing.T) {
	ended, now, started := at(13, 40), at(13, 50), at(13, 0)
	runs := &v1.RestoreStatus{StartedAt: &started}
	for sentence, test := range map[string]struct {
		seen  *observed
		want  *v1.RestoreStatus
		ready string
		op    string
	}{
		"there is none":       {with(six()), nil, reasonFormed, ""},
		"it begins":           {with(six(), restoring), &v1.RestoreStatus{StartedAt: &now}, reasonRestoring, opRestore},
		"it runs, after Form": {with(six(), restoring, under(opForm), begun, jobIs("", "")), runs, reasonRestoring, opRestore},
		"it runs":             {with(six(), restoring, begun, jobIs("", "")), runs, reasonRestoring, opRestore},
		"it waits for a node": {
			with(six(), restoring, under(opRestore), begun, jobIs("", ""), silenced(time.Minute, 1)), runs, reasonSilent, opRestore,
		},
		"the latest is chosen": {
			with(six(), restoring, begun, chose(dueID)), &v1.RestoreStatus{StartedAt: &started, ID: dueID}, reasonRestoring, opRestore,
		},
		"the chosen one is restored": {
			with(six(), restoring, chosen, jobIs("", "")), &v1.RestoreStatus{StartedAt: &started, ID: dueID}, reasonRestoring, opRestore,
		},
		"it has failed": {with(six(), restoring, begun, jobIs("", batchv1.JobFailed)), runs, reasonRestoreFailed, opRestore},
		"it has succeeded": {
			with(six(), restoring, begun, jobIs("", batchv1.JobComplete, func(j *job) { j.Result.ID = dueID })),
			&v1.RestoreStatus{StartedAt: &started, ID: dueID, Keys: 30, CompletedAt: &ended}, reasonFormed, "",
		},
		"the numbers are lost": {
			with(six(), restoring, begun, jobIs("", batchv1.JobComplete, func(j *job) { j.Result = &jobResult{} })),
			&v1.RestoreStatus{StartedAt: &started, ID: v1.LatestBackup, CompletedAt: &ended}, reasonFormed, "",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			status := statusOf(test.seen, decide(test.seen), outcome{})
			if !reflect.DeepEqual(status.Restore, test.want) {
				t.Errorf("got  %+v\nwant %+v", status.Restore, test.want)
			}
			op := ""
			if status.Operation != nil {
				op = status.Operation.Type
			}
			if ready := meta.FindStatusCondition(status.Conditions, "Ready"); ready.Reason != test.ready || op != test.op {
				t.Errorf("Ready is %s: %s, in the operation %q; want %s, %q", ready.Reason, ready.Message, op, test.ready, test.op)
			}
		})
	}
}

func TestTheIntervalOfASchedule(t *testing.T) {
	for schedule, want := range map[string]time.Duration{
		"0 * * * *": time.Hour, "@daily": 24 * time.Hour, "0 3 * * mon-fri": 72 * time.Hour, "0 0 30 2 *": 0, "no schedule": 0,
	} {
		if got := backupInterval(schedule, seenAt); got != want {
			t.Errorf("%s: %s, want %s", schedule, got, want)
		}
	}
}

func TestTheLastTimeOfASchedule(t *testing.T) {
	for _, test := range []struct{ schedule, from, now, want string }{
		{"0 * * * *", "2026-01-09T12:30:00Z", "2026-01-09T13:50:00Z", "2026-01-09T13:00:00Z"},
		{"0 * * * *", "2026-01-09T13:00:00Z", "2026-01-09T13:50:00Z", ""},
		{"0 * * * *", "2026-01-09T12:59:59Z", "2026-01-09T13:00:00Z", "2026-01-09T13:00:00Z"},
		{"* * * * *", "2020-01-09T12:59:59Z", "2026-01-09T13:00:30Z", "2026-01-09T13:00:00Z"},
		{"* * * * *", "2026-01-09T13:00:00Z", "2026-01-09T13:01:00.5Z", "2026-01-09T13:01:00Z"},
		{"* * * * *", "2026-01-09T13:00:00Z", "2026-01-09T13:02:00Z", "2026-01-09T13:02:00Z"},
		{"* * * 2 *", "2020-01-01T00:00:00Z", "2026-01-09T13:00:00Z", "2025-02-28T23:59:00Z"},
		{"0 0 29 2 *", "2021-01-01T00:00:00Z", "2026-01-09T13:00:00Z", "2024-02-29T00:00:00Z"},
		{"0 0 30 2 *", "2021-01-01T00:00:00Z", "2026-01-09T13:00:00Z", ""},
	} {
		schedule, err := v1.ParseBackupSchedule(test.schedule)
		if err != nil {
			t.Fatal(err)
		}
		parse := func(text string) time.Time {
			at, _ := time.Parse(time.RFC3339, text) // "" is the zero time.
			return at
		}
		if got := lastTime(schedule, parse(test.from), parse(test.now)); !got.Equal(parse(test.want)) {
			t.Errorf("%s from %s to %s: %s, want %s", test.schedule, test.from, test.now, got, test.want)
		}
	}
}

func TestNamesOfJobs(t *testing.T) {
	x := strings.Repeat("x", 52)
	for _, name := range []string{"a", "demo", "x-backup-20260109t130000z", x[:39], x[:40], x} {
		rdc := &v1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		backup, restore := backupName(rdc, dueID), restoreName(rdc)
		if len(backup) > 63 || len(restore) > 63 {
			t.Errorf("%s and %s are too long", backup, restore)
		}
		if id, ok := backupOf(rdc, backup); id != dueID || !ok {
			t.Errorf("%s has the backup %q", backup, id)
		}
		if id, ok := backupOf(rdc, restore); id != "" || !ok {
			t.Errorf("%s has the backup %q, and is known: %t", restore, id, ok)
		}
		if id, ok := backupOf(rdc, choiceName(rdc)); id != v1.LatestBackup || !ok || len(choiceName(rdc)) > 63 {
			t.Errorf("%s has the backup %q, and is known: %t", choiceName(rdc), id, ok)
		}
		for _, other := range []string{name, name + "-backup", name + "-backup-1", "y-backup-20260109t130000z", name + "-20260109t130000z"} {
			if id, ok := backupOf(rdc, other); ok {
				t.Errorf("%s has the backup %q", other, id)
			}
		}
	}
	long, similar := strings.Repeat("x", 52), strings.Repeat("x", 51)+"y"
	if jobName(long, suffixBackup+dueID) == jobName(similar, suffixBackup+dueID) {
		t.Error("two clusters have Jobs of the same name")
	}
}

func TestTheMetricsOfBackups(t *testing.T) {
	ended := at(13, 40)
	for sentence, test := range map[string]struct {
		seen *observed
		want *BackupMetrics
	}{
		"without spec.backup": {with(six()), nil},
		"before the first":    {with(six(), due), &BackupMetrics{Since: at(0, 0).Time, Interval: time.Hour}},
		"after a good one": {
			with(six(), hourly(at(13, 0)), runningBackup(dueID), jobIs(dueID, batchv1.JobComplete)),
			&BackupMetrics{Since: at(0, 0).Time, Succeeded: ended.Time, Keys: 30, Bytes: 900, Interval: time.Hour},
		},
		"after a bad one": {
			with(six(), hourly(at(13, 0)), runningBackup(dueID), jobIs(dueID, batchv1.JobFailed)),
			&BackupMetrics{Since: at(0, 0).Time, Failed: true, Interval: time.Hour},
		},
		"without a schedule": {with(six(), due, withoutSchedule), &BackupMetrics{}},
		"without an image":   {with(six(), due, withoutImage), &BackupMetrics{Since: at(0, 0).Time, Failed: true, Interval: time.Hour}},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := decide(test.seen)
			if got := backupMetrics(test.seen, p, backupStatus(test.seen, p)); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestABackupBeginsOnlyOfAWholeCluster decides on random states in which a backup is due. GLASSBACK_SEEDS=n decides on so many.
func TestABackupBeginsOnlyOfAWholeCluster(t *testing.T) {
	begun := 0
	for seed := range fakeapi.Seeds(t, 1000, 1000) {
		s := sceneOf(rand.New(rand.NewSource(int64(seed))))
		due(s.observed)
		p := decide(s.observed)
		recordtest.Check(t, Decisions, s.observed, p)
		if !slices.ContainsFunc(p.upkeep, func(c command) bool { return c.verb == startBackup }) {
			continue
		}
		begun++
		var served [redisnode.SlotCount]bool
		for _, m := range s.members {
			if m.view == nil {
				continue
			}
			if e := saidBy(s.observed, m.ordinal, m.view.ID); len(e.Importing)+len(e.Migrating) > 0 {
				t.Errorf("seed %d: %s has open slots: %q", seed, m.name, s.history)
			}
			for _, r := range s.slots[m.view.ID] {
				for slot := r.First; slot <= r.Last; slot++ {
					served[slot] = true
				}
			}
		}
		if slot := slices.Index(served[:], false); slot >= 0 || !s.formed {
			t.Errorf("seed %d: slot %d is not served, formed %t: %q", seed, slot, s.formed, s.history)
		}
		for _, c := range p.commands {
			if c.verb == moveSlots || c.verb == failover || c.verb == addSlots {
				t.Errorf("seed %d: a backup begins, and the operator does %s: %q", seed, c, s.history)
			}
		}
		if t.Failed() {
			return
		}
	}
	if begun < 20 {
		t.Errorf("in %d states a backup began: the test shows nothing", begun)
	}
}
