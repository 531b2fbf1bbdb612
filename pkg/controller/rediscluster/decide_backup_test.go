// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
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
		o.BackupImage = testImage
		o.Object.Spec.Backup = &v1.Backup{Schedule: "0 * * * *", Retention: ptr.To[int32](7), BackupStore: inClaim()}
		o.Object.Status.Backup = &v1.BackupStatus{Schedule: "0 * * * *", ScheduledSince: ptr.To(at(0, 0)), LastScheduleTime: &until}
	}
}

func inClaim() v1.BackupStore {
	return v1.BackupStore{PersistentVolumeClaim: &v1.ClaimReference{ClaimName: "backups"}}
}

// requested sets AnnotationBackupNow. The status has begun backups for the values until that was "1".
func requested(value string) alter {
	return func(o *observed) {
		o.Object.Annotations = map[string]string{v1.AnnotationBackupNow: value}
		o.Object.Status.Backup.LastBackupNow = "1"
	}
}

func withoutSchedule(o *observed) {
	o.Object.Spec.Backup.Schedule = ""
	o.Object.Status.Backup = &v1.BackupStatus{LastBackupNow: o.Object.Status.Backup.LastBackupNow}
}

// due is a backup that is to be made at seenAt.
var due = hourly(at(12, 30))

func runningBackup(id string) alter {
	return func(o *observed) { o.Object.Status.Backup.Running = id }
}

// jobIs adds the Job of a backup; with the ID "", the one that restores a backup, and with LatestBackup, the one that chooses which.
func jobIs(id string, ended batchv1.JobConditionType, changes ...func(*job)) alter {
	return func(o *observed) {
		j := &job{Name: manifest.RestoreName(o.Object), UID: types.UID("job-" + id), ID: id, Ended: ended}
		switch id {
		case "":
		case v1.LatestBackup:
			j.Name = manifest.ChoiceName(o.Object)
		default:
			j.Name = manifest.BackupName(o.Object, id)
		}
		if ended != "" {
			j.EndedAt, j.Result = at(13, 40).Time, &jobResult{ID: id, Keys: 30, Bytes: 900, Message: "no disk"}
		}
		for _, change := range changes {
			change(j)
		}
		o.Jobs = append(o.Jobs, j)
	}
}

// restoring sets spec.restoreFrom. The cluster has no keys.
func restoring(o *observed) {
	o.BackupImage = testImage
	for _, m := range o.Members {
		if m.View != nil {
			m.View.Keys = 0
		}
	}
	o.Object.Spec.RestoreFrom = &v1.RestoreFrom{Name: "other", Backup: v1.LatestBackup, BackupStore: inClaim()}
}

func restored(o *observed) {
	restoring(o)
	o.Object.Status.Restore = &v1.RestoreStatus{ID: "20260108T130000Z", Keys: 30, CompletedAt: ptr.To(at(12, 0))}
}

func withoutImage(o *observed) { o.BackupImage = "" }

func deleting(j *job) { j.Deleting = true }

func outdated(j *job) { j.NotStarting, j.Outdated = "ErrImagePull", true }

func jobRejected(before time.Duration) alter {
	return func(o *observed) { o.JobRejection, o.JobRejectedAt = "exceeded quota", seenAt.Add(-before) }
}

func TestDecideBackups(t *testing.T) {
	const create = "create Job of backup " + dueID
	begins, requestBegins, none := settledIs.making(create), settledIs.making("create Job of backup "+requestID), hourly(at(13, 0))
	cases{
		{"a time of the schedule has come", with(six(), due), begins},
		{"the time has had its backup", with(six(), hourly(at(13, 0))), settledIs},
		{"shortly before the next time, the next sync is at that time",
			with(six(), hourly(at(13, 0)), func(o *observed) { o.Now = at(14, 0).Add(-3 * time.Second) }), decision{wait: 3 * time.Second}},
		{"one runs", with(six(), due, runningBackup("20260109T120000Z"), jobIs("20260109T120000Z", "")), settledIs},
		{"one has ended: its result is written first",
			with(six(), due, runningBackup("20260109T120000Z"), jobIs("20260109T120000Z", batchv1.JobComplete)), settledIs},
		{"the operator ended before it created the Job", with(six(), hourly(at(13, 0)), runningBackup(dueID)), begins},
		{"the status was lost, and the Job runs", with(six(), due, jobIs("20260109T120000Z", "")), settledIs},
		{"not while a backup is being restored", with(six(), due, restoring, begun, jobIs("", "")), lasts("Restoring the backup latest")},
		{"after it was restored", with(six(), due, restored), begins},
		{"the Job that chose what was restored is no backup", with(six(), due, restored, jobIs(v1.LatestBackup, "")),
			settledIs.making("delete Job demo-restore-latest", create)},
		{"not while slots are about to move", with(sixAnd(master(""), replica(6)), due), shifts("move slots demo-0 demo-6 0-63")},
		{"not before the cluster is formed", with(six(), due, unformed, clearStatus, noPod(all...), due),
			waits("for demo-0").making(every("create Pod demo-%d", all...)...)},
		{"not while a master does not answer", with(six(), due, silenced(time.Minute, 1)), waits("for demo-1")},
		{"while a replica does not answer", with(six(), due, silenced(time.Minute, 4)), waits("for demo-4").making(create)},
		{"while Pods are replaced", with(six(), due, podIs(old, 3)), sends("evict Pod demo-3").making(create)},
		{"not while a master is replaced", with(six(), due, podIs(old, 0)), sends("failover demo-3")},
		{"after a rejection, the operator waits", with(six(), due, jobRejected(secretEvery-1)), settledIs},
		{"and then tries again", with(six(), due, jobRejected(secretEvery)), begins},
		{"the request has had its backup", with(six(), none, requested("1")), settledIs},
		{"one is requested, without a schedule", with(six(), none, requested("2"), withoutSchedule), requestBegins},
		{"with spec.backup, the first is requested", with(six(), none, requested("2"), func(o *observed) { o.Object.Status.Backup = nil }),
			requestBegins},
		{"the ID of a request is the second in which it begins",
			with(six(), none, requested("2"), func(o *observed) { o.Now = o.Now.Add(7500 * time.Millisecond) }),
			settledIs.making("create Job of backup 20260109T135007Z")},
		{"the ID of a request is of no Job", with(six(), none, requested("2"), jobIs(requestID, batchv1.JobComplete)),
			settledIs.making("create Job of backup 20260109T134958Z")},
		{"the ID of a request is not the last one, nor that of the last failure", with(six(), none, requested("2"), func(o *observed) {
			o.Object.Status.Backup.Last = &v1.BackupResult{ID: requestID}
			o.Object.Status.Backup.LastFailure = &v1.BackupFailure{ID: "20260109T134958Z"}
		}), settledIs.making("create Job of backup 20260109T134957Z")},
		{"one does not start, and the cause is corrected", with(six(), none, runningBackup(dueID), jobIs(dueID, "", outdated)),
			settledIs.making("delete Job demo-backup-20260109t130000z")},
		{"the last good and the last bad Job stay",
			with(six(), hourly(at(13, 0)), jobIs("20260109T090000Z", batchv1.JobComplete), jobIs("20260109T100000Z", batchv1.JobFailed),
				jobIs("20260109T110000Z", batchv1.JobFailed), jobIs("20260109T120000Z", batchv1.JobComplete)),
			settledIs.making("delete Job demo-backup-20260109t090000z", "delete Job demo-backup-20260109t100000z")},
		{"one that is being deleted is left alone",
			with(six(), hourly(at(13, 0)), jobIs("20260109T090000Z", batchv1.JobComplete, deleting), jobIs(dueID, batchv1.JobComplete)),
			settledIs},
		{"one whose result is not written yet stays",
			with(six(), hourly(at(13, 0)), runningBackup("20260109T090000Z"), jobIs("20260109T090000Z", batchv1.JobComplete),
				jobIs(dueID, batchv1.JobComplete)), settledIs},
		{"without spec.backup, all are deleted",
			with(six(), due, jobIs("20260109T090000Z", batchv1.JobComplete), jobIs(dueID, ""), func(o *observed) { o.Object.Spec.Backup = nil }),
			settledIs.making("delete Job demo-backup-20260109t090000z", "delete Job demo-backup-20260109t130000z")},
	}.run(t)
}

// A Job logs in as all nodes accept it, and uses TLS if all nodes use it among themselves.
func TestDecideBackupsOfPodsThatDiffer(t *testing.T) {
	users, tls := people(aUser("default", "off", "")), specTLS(v1.TLSPreferred)
	have := have(map[string][]string{"glassback": {accountPassword}, "default": nil}, all...)
	renamed := func(o *observed) { o.Object.Spec.TLS.SecretRef.Name = "renamed" }
	for sentence, test := range map[string]struct {
		seen *observed
		want bool
		user string
		tls  bool
	}{
		"all are alike":                       {with(six(), due), true, "", false},
		"all have users":                      {with(six(), users, reading, have, due), true, v1.UserOperator, false},
		"some do not have users yet":          {with(six(), users, withoutAccount("", 3), reading, have, due), false, "", false},
		"all use TLS":                         {with(six(), tls, secured("both", true, all...), due), true, "", true},
		"all have a certificate, without use": {with(six(), tls, secured("", false, all...), due), false, "", false},
		"some have switched": {
			with(six(), tls, secured("", false, all...), secured("both", true, 0, 1, 2), due), false, "", false},
		"some have a certificate": {with(six(), tls, secured("", false, 0, 1, 2), due), true, "", false},
		"some have the Secret of before": {with(six(), tls, secured("both", true, all...), renamed, secured("both", true, 0, 1, 2), due), false,
			"", false},
	} {
		p := decide(test.seen)
		begins := slices.Contains(inWords(p.Upkeep), "create Job of backup "+dueID)
		if begins != test.want {
			t.Errorf("%s: upkeep %q; it waits: %q", sentence, inWords(p.Upkeep), test.seen.whyNoBackup(p))
		}
		if a, same := test.seen.access(); begins && (!same || a.User != test.user || (a.Authority != "") != test.tls) {
			t.Errorf("%s: access %+v", sentence, a)
		}
	}
}

// No backup begins between two changes of addresses. A node that keeps another address than that of the spec does not hold backups.
func TestDecideBackupsWhileAddressesChange(t *testing.T) {
	labelled := func(o *observed) { opening(o); selected(all...)(o) }
	for sentence, test := range map[string]struct {
		alters []alter
		want   bool
	}{
		"all announce their addresses":                 {[]alter{opening, announcing(all...)}, true},
		"the next one waits until the last is reached": {[]alter{labelled, reachedNodes(all...), announcing(3), missed(3, 0)}, false},
		"the next one waits for a replica":             {[]alter{labelled, reachedNodes(all...), announcing(3), linkDown(3)}, false},
		"the last one is not reached yet":              {[]alter{opening, announcing(all...), inVain(0, 3), unreachedFor(time.Second, 0)}, false},
		"one gave its address up":                      {[]alter{labelled, reachedNodes(all...), announcing(4), givenUp(3)}, true},
		"the operator does not reach a node":           {[]alter{opening, announcing(0, 1, 2, 4, 5), selected(3), missing(time.Hour, 3)}, true},
		"no access any more, and a replica is behind":  {[]alter{served, announcing(all...), linkDown(3)}, false},
	} {
		o := with(six(), append(test.alters, due)...)
		if why := o.whyNoBackup(decide(o)); (why == "") != test.want || (!test.want && why != "a node changes its address") {
			t.Errorf("%s: it waits: %q, want a backup: %t", sentence, why, test.want)
		}
	}
}

func begun(o *observed) { o.Object.Status.Restore = &v1.RestoreStatus{StartedAt: ptr.To(at(13, 0))} }

// chose has the Job that chooses end with an ID.
func chose(id string) alter {
	return jobIs(v1.LatestBackup, batchv1.JobComplete, func(j *job) { j.Result.ID = id })
}

// chosen is the status with the ID of the latest backup.
func chosen(o *observed) { begun(o); o.Object.Status.Restore.ID = dueID }

func TestDecideRestore(t *testing.T) {
	const create = "create Job of restore"
	empty := slices.Repeat([]part{master("")}, 6)
	cases{
		{"it begins before a slot is assigned", with(cluster(empty...), unformed, restoring),
			waitsBriefly("Beginning to restore the backup latest")},
		{"not while a Pod is missing", with(cluster(empty...), unformed, restoring, silenced(1, 5)), waits("for demo-5")},
		{"not while one that is to go may have keys",
			with(cluster(append(empty, master(""))...), unformed, restoring, sized(6), silenced(1, 6)), waits("for demo-6")},
		{"and then slots are assigned", with(cluster(empty...), unformed, restoring, begun),
			sends("add slots demo-0 0-5460", "add slots demo-1 5461-10921", "add slots demo-2 10922-16383")},
		{"an empty cluster that was formed begins, too", with(six(), restoring), waitsBriefly("Beginning to restore the backup latest")},
		{"the Job not before all else is done", with(six(), restoring, begun, under(opForm), podIs(unready, 4)), waits("demo-4")},
		{"it is not done while a node has keys", with(six(), restoring, viewed(func(v *redisnode.View) { v.Keys = 1 }, 1)),
			reports(reasonRestoreRefused, "demo-1 has keys already")},
		{"the operator ended before it created the Job", with(six(), restoring, begun, viewed(func(v *redisnode.View) { v.Keys = 1 }, 1)),
			does("Restoring the backup latest", create)},
		{"the latest backup is being chosen", with(six(), restoring, begun, jobIs(v1.LatestBackup, "")),
			lasts("by the Job demo-restore-latest")},
		{"the choice is in the status before the restore begins", with(six(), restoring, begun, chose(dueID)),
			waits("Restoring the backup " + dueID)},
		{"and then its Job is created", with(six(), restoring, chosen, chose(dueID)),
			does("Restoring the backup "+dueID, create).making("delete Job demo-restore-latest")},
		{"the choice is lost: another Job chooses", with(six(), restoring, begun, chose("")),
			waits("Restoring the backup latest").making("delete Job demo-restore-latest")},
		{"the chosen backup is gone", with(six(), restoring, chosen, jobIs("", batchv1.JobFailed)),
			reports(reasonRestoreFailed, "which restores the backup "+dueID+", failed")},
		{"the Pod of its Job does not start", with(six(), restoring, begun, jobIs("", "", func(j *job) { j.NotStarting = "ImagePullBackOff" })),
			reports(reasonNotStarting, "does not start: ImagePullBackOff")},
		{"its result cannot be read",
			with(six(), restoring, begun, jobIs("", batchv1.JobComplete, func(j *job) { j.Result = nil }), func(o *observed) {
				o.JobFailure = "list Pods: forbidden"
			}), waits("list Pods: forbidden")},
		{"its Job has succeeded", with(six(), restoring, begun, jobIs("", batchv1.JobComplete)), settledIs},
		{"its Job has failed", with(six(), restoring, begun, jobIs("", batchv1.JobFailed)),
			reports(reasonRestoreFailed, "failed: no disk. Correct the cause, and delete the Job")},
		{"its Job is being deleted", with(six(), restoring, begun, jobIs("", batchv1.JobFailed, deleting)), waits("to be deleted")},
		{"it is done, and its Job stays", with(six(), restored, jobIs("", batchv1.JobComplete)), settledIs},
		{"without an image it is a problem", with(six(), restoring, begun, withoutImage), reports(reasonNoImage, "without --backup-image")},
		{"an old Job cannot be deleted: its Job is created",
			with(six(), restoring, begun, func(o *observed) { o.JobFailure = "delete Job: forbidden" }),
			does("Restoring the backup latest", create)},
		{"the cause is corrected: its Job is replaced", with(six(), restoring, begun, jobIs("", "", outdated)),
			reports(reasonNotStarting, "does not start: ErrImagePull").making("delete Job demo-restore")},
		{"its Job is rejected, and the operator waits", with(six(), restoring, begun, jobRejected(secretEvery-1)),
			reports(reasonJobRejected, "exceeded quota")},
		{"its Job is rejected, and the operator tries again", with(six(), restoring, begun, jobRejected(secretEvery)),
			decision{step: "exceeded quota", reason: reasonJobRejected, wait: poll, commands: []string{create}}},
		{"the spec has it no more", with(six(), jobIs("", "")), settledIs.making("delete Job demo-restore")},
	}.run(t)
}

func TestClientsAreKeptOutUntilAllIsRestored(t *testing.T) {
	withSlots := func(o *observed) { o.Object.Status.SlotsAssigned = redisnode.SlotCount }
	open := &corev1.Service{Spec: corev1.ServiceSpec{Selector: manifest.SelectorForClients(six().Object, false)}}
	closed := &corev1.Service{Spec: corev1.ServiceSpec{Selector: manifest.SelectorForClients(six().Object, true)}}
	for name, test := range map[string]struct {
		seen    *observed
		service *corev1.Service
		want    bool
	}{
		"nothing to restore":                     {with(six(), unformed, clearStatus), nil, false},
		"a new cluster":                          {with(six(), clearStatus, restoring), nil, true},
		"it has begun":                           {with(six(), withSlots, restoring, begun), closed, true},
		"it is complete":                         {with(six(), withSlots, restored), closed, false},
		"it is refused: there are keys":          {with(six(), withSlots, restoring), closed, false},
		"the spec has it no more":                {with(six(), withSlots, begun), closed, false},
		"an earlier version has begun":           {with(six(), withSlots, restoring, begun), open, false},
		"the status of the cluster was lost":     {with(six(), clearStatus, restoring), open, false},
		"it was refused, and begins nonetheless": {with(six(), restoring, begun), open, false},
	} {
		if got := manifest.IsClosed(test.seen.Object, test.service); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A Job that was rejected is not tried again while Pods differ in how the Job would log in.
func TestARejectedRestoreWaitsForThePods(t *testing.T) {
	o := with(six(), restoring, begun, jobRejected(secretEvery))
	if p := restoreBackup(o); p == nil || len(p.Commands) != 1 {
		t.Fatalf("with equal Pods, the plan is %+v, want one command", p)
	}
	o.Members[4].Pod.Annotations = map[string]string{manifest.AnnotationUser: "operator"}
	if p := restoreBackup(o); p == nil || len(p.Commands) > 0 || !strings.Contains(p.Step, "Waiting for the Pods to be replaced") {
		t.Errorf("with another login in one Pod, the plan is %+v", p)
	}
}

func TestTheStatusOfBackups(t *testing.T) {
	const before, notYet = "20260109T120000Z", "False NotYet"
	noticed, ended, earlier, later, never := at(13, 50), at(13, 40), at(12, 30), at(13, 0), metav1.Time{}
	result := &v1.BackupResult{ID: before, Keys: 30, Bytes: 900}
	failure := &v1.BackupFailure{ID: before, Time: &ended, Message: "no disk"}
	new := v1.BackupStatus{ScheduledSince: &noticed, LastScheduleTime: &noticed}
	waits, runs := v1.BackupStatus{LastScheduleTime: &earlier}, v1.BackupStatus{LastScheduleTime: &later, Running: dueID}
	of := func(running, now string) v1.BackupStatus {
		return v1.BackupStatus{LastScheduleTime: &later, Running: running, LastBackupNow: now}
	}
	accounted := hourly(later)
	for sentence, test := range map[string]struct {
		seen *observed
		want v1.BackupStatus // without the schedule
		is   string          // the condition
		says string
	}{
		"a new schedule":     {with(six(), due, func(o *observed) { o.Object.Status.Backup = nil }), new, notYet, ""},
		"a changed schedule": {with(six(), due, func(o *observed) { o.Object.Status.Backup.Schedule = "5 * * * *" }), new, notYet, ""},
		"a clock was wrong":  {with(six(), hourly(at(15, 0))), v1.BackupStatus{LastScheduleTime: &noticed}, notYet, ""},
		"a backup begins":    {with(six(), due), runs, notYet, ""},
		"a backup waits while a node changes its address": {with(six(), due, opening, selected(all...), reachedNodes(all...)), waits,
			notYet, dueID + " waits: a node changes its address"},
		"a backup runs": {with(six(), accounted, runningBackup(dueID), jobIs(dueID, "")), runs, notYet, ""},
		"a backup has succeeded": {with(six(), accounted, runningBackup(before), jobIs(before, batchv1.JobComplete)),
			v1.BackupStatus{LastScheduleTime: &later, LastSuccessfulTime: &ended, Last: result}, "True Succeeded", before + ". It has 30 keys"},
		"a backup has failed": {with(six(), accounted, runningBackup(before), jobIs(before, batchv1.JobFailed)),
			v1.BackupStatus{LastScheduleTime: &later, LastFailure: failure}, "False Failed", before + " failed: no disk"},
		"a later backup has succeeded": {with(six(), accounted, func(o *observed) {
			o.Object.Status.Backup.LastFailure, o.Object.Status.Backup.Last = failure, &v1.BackupResult{ID: dueID}
			o.Object.Status.Backup.LastSuccessfulTime = &noticed
		}), v1.BackupStatus{LastScheduleTime: &later, LastFailure: failure, Last: &v1.BackupResult{ID: dueID}, LastSuccessfulTime: &noticed},
			"True Succeeded", ""},
		"there is no image": {with(six(), due, withoutImage), waits, "False BackupImageMissing", "--backup-image"},
		"a running one of a wrong clock is forgotten": {with(six(), accounted, runningBackup("20260109T150000Z")),
			v1.BackupStatus{LastScheduleTime: &later}, notYet, ""},
		"a requested backup begins":                   {with(six(), accounted, requested("2")), of(requestID, "2"), notYet, ""},
		"one is due and one is requested: it is both": {with(six(), due, requested("2")), of(dueID, "2"), notYet, ""},
		"the request was withdrawn":                   {with(six(), due, requested("")), of(dueID, "1"), notYet, ""},
		"the status has lost what was requested, and a Job has it": {
			with(six(), accounted, requested("1"), func(o *observed) { o.Object.Status.Backup.LastBackupNow = "" },
				jobIs(requestID, batchv1.JobFailed, func(j *job) { j.BackupNow = "1" })), of("", "1"), notYet, ""},
		"a requested one of a wrong clock is requested still": {with(six(), accounted, requested("1"), runningBackup("20260109T150007Z")),
			of(requestID, "1"), notYet, ""},
		"the Job of a request begins after a crash: a later request stays": {
			with(six(), accounted, requested("2"), runningBackup("20260109T134807Z")), of("20260109T134807Z", "1"), notYet, ""},
		"a requested backup waits": {with(six(), accounted, requested("2"), moving("100", 0, 1, true)), of("", "1"), notYet,
			"The backup for glassback.dev/backup-now waits: slots are being moved"},
		"the schedule was removed": {with(six(), accounted, func(o *observed) { o.Object.Spec.Backup.Schedule = "" }),
			v1.BackupStatus{ScheduledSince: &never}, notYet, ""},
		"the Pod of its Job does not start": {
			with(six(), accounted, runningBackup(dueID), jobIs(dueID, "", func(j *job) { j.NotStarting = "ErrImagePull" })), runs, notYet,
			"does not start: ErrImagePull"},
		"its Job is rejected": {with(six(), accounted, runningBackup(dueID), jobRejected(0)), runs, "False JobRejected", "exceeded quota"},
	} {
		t.Run(sentence, func(t *testing.T) {
			status, want := statusFor(test.seen), test.want
			if want.Schedule = test.seen.Object.Spec.Backup.Schedule; want.ScheduledSince == nil {
				want.ScheduledSince = ptr.To(at(0, 0))
			} else if want.ScheduledSince == &never {
				want.ScheduledSince = nil
			}
			if !reflect.DeepEqual(status.Backup, &want) {
				t.Errorf("got  %+v\nwant %+v", status.Backup, want)
			}
			c := meta.FindStatusCondition(status.Conditions, v1.ConditionBackedUp)
			if is := string(c.Status) + " " + c.Reason; is != test.is || !strings.Contains(c.Message, test.says) {
				t.Errorf("BackedUp is %s: %s; want %s: %s", is, c.Message, test.is, test.says)
			}
			if ready := meta.FindStatusCondition(status.Conditions, "Ready"); ready.Reason != reasonFormed && status.Operation == nil {
				t.Errorf("Ready is %s: %s", ready.Reason, ready.Message)
			}
		})
	}
	status := statusFor(with(six(), due, func(o *observed) { o.Object.Spec.Backup = nil }))
	if status.Backup != nil || meta.FindStatusCondition(status.Conditions, v1.ConditionBackedUp) != nil {
		t.Errorf("after spec.backup was removed, the status is %+v", status)
	}
}

func TestTheStatusOfARestore(t *testing.T) {
	ended, now, started := at(13, 40), at(13, 50), at(13, 0)
	runs, chooses := &v1.RestoreStatus{StartedAt: &started}, &v1.RestoreStatus{StartedAt: &started, ID: dueID}
	succeeded := func(result jobResult) *observed {
		return with(six(), restoring, begun, jobIs("", batchv1.JobComplete, func(j *job) { j.Result = &result }))
	}
	for sentence, test := range map[string]struct {
		seen      *observed
		want      *v1.RestoreStatus
		ready, op string
	}{
		"there is none":       {with(six()), nil, reasonFormed, ""},
		"it begins":           {with(six(), restoring), &v1.RestoreStatus{StartedAt: &now}, reasonHealing, opHeal},
		"it runs, after Form": {with(six(), restoring, under(opForm), begun, jobIs("", "")), runs, reasonRestoring, opRestore},
		"it waits for a node": {with(six(), restoring, under(opRestore), begun, jobIs("", ""), silenced(time.Minute, 1)), runs, reasonSilent,
			opRestore},
		"the latest is chosen":       {with(six(), restoring, begun, chose(dueID)), chooses, reasonRestoring, opRestore},
		"the chosen one is restored": {with(six(), restoring, chosen, jobIs("", "")), chooses, reasonRestoring, opRestore},
		"it has failed":              {with(six(), restoring, begun, jobIs("", batchv1.JobFailed)), runs, reasonRestoreFailed, opRestore},
		"it has succeeded": {succeeded(jobResult{ID: dueID, Keys: 30}),
			&v1.RestoreStatus{StartedAt: &started, ID: dueID, Keys: 30, CompletedAt: &ended}, reasonFormed, ""},
		"the numbers are lost": {succeeded(jobResult{}), &v1.RestoreStatus{StartedAt: &started, ID: v1.LatestBackup, CompletedAt: &ended},
			reasonFormed, ""},
	} {
		status := statusFor(test.seen)
		if !reflect.DeepEqual(status.Restore, test.want) {
			t.Errorf("%s: got  %+v\nwant %+v", sentence, status.Restore, test.want)
		}
		op := ptr.Deref(status.Operation, v1.Operation{}).Type
		if ready := meta.FindStatusCondition(status.Conditions, "Ready"); ready.Reason != test.ready || op != test.op {
			t.Errorf("%s: Ready is %s: %s, in the operation %q; want %s, %q", sentence, ready.Reason, ready.Message, op, test.ready, test.op)
		}
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
		{"* * * 2 *", "2020-01-01T00:00:00Z", "2026-01-09T13:00:00Z", "2025-02-28T23:59:00Z"},
		{"0 0 29 2 *", "2021-01-01T00:00:00Z", "2026-01-09T13:00:00Z", "2024-02-29T00:00:00Z"},
		{"0 0 30 2 *", "2021-01-01T00:00:00Z", "2026-01-09T13:00:00Z", ""},
	} {
		parse := func(text string) time.Time {
			at, _ := time.Parse(time.RFC3339, text) // "" is the zero time.
			return at
		}
		schedule, err := v1.ParseBackupSchedule(test.schedule)
		if err != nil {
			t.Fatal(err)
		}
		if got := lastTime(schedule, parse(test.from), parse(test.now)); !got.Equal(parse(test.want)) {
			t.Errorf("%s from %s to %s: %s, want %s", test.schedule, test.from, test.now, got, test.want)
		}
	}
}

func TestNamesOfJobs(t *testing.T) {
	x := strings.Repeat("x", 52)
	for _, name := range []string{"a", "x-backup-20260109t130000z", x[:39], x[:40], x} {
		rdc := &v1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for want, job := range map[string]string{
			dueID: manifest.BackupName(rdc, dueID), "": manifest.RestoreName(rdc), v1.LatestBackup: manifest.ChoiceName(rdc),
		} {
			if id, ok := manifest.BackupOf(rdc, job); id != want || !ok || len(job) > 63 {
				t.Errorf("%s has the backup %q, and is known: %t", job, id, ok)
			}
		}
		for _, other := range []string{name, name + "-backup", name + "-backup-1", "y-backup-20260109t130000z", name + "-20260109t130000z"} {
			if id, ok := manifest.BackupOf(rdc, other); ok {
				t.Errorf("%s has the backup %q", other, id)
			}
		}
	}
	if similar := x[:51] + "y"; manifest.JobName(x, manifest.SuffixBackup+dueID) == manifest.JobName(similar, manifest.SuffixBackup+dueID) {
		t.Error("two clusters have Jobs of the same name")
	}
}

func TestTheMetricsOfBackups(t *testing.T) {
	ran := func(ended batchv1.JobConditionType) *observed {
		return with(six(), hourly(at(13, 0)), runningBackup(dueID), jobIs(dueID, ended))
	}
	since := at(0, 0).Time
	for sentence, test := range map[string]struct {
		seen *observed
		want BackupMetrics
	}{
		"without spec.backup": {with(six()), BackupMetrics{}},
		"before the first":    {with(six(), due), BackupMetrics{Since: since, Interval: time.Hour}},
		"after a good one": {ran(batchv1.JobComplete),
			BackupMetrics{Since: since, Succeeded: at(13, 40).Time, Keys: 30, Bytes: 900, Interval: time.Hour}},
		"after a bad one":    {ran(batchv1.JobFailed), BackupMetrics{Since: since, Failed: true, Interval: time.Hour}},
		"without a schedule": {with(six(), due, withoutSchedule), BackupMetrics{}},
		"without an image":   {with(six(), due, withoutImage), BackupMetrics{Since: since, Failed: true, Interval: time.Hour}},
	} {
		rdc := test.seen.Object.DeepCopy()
		rdc.Status = statusOf(test.seen, decide(test.seen), child.Outcomes{})
		if got := BackupMetricsOf(rdc, test.seen.Now); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", sentence, got, test.want)
		}
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
		if !slices.ContainsFunc(p.Upkeep, func(c command) bool { return c.verb == startBackup }) {
			continue
		}
		begun++
		var served redisnode.Slots
		for _, m := range s.Members {
			if m.View == nil {
				continue
			}
			if e := saidBy(s.observed, m.Ordinal, m.View.ID); len(e.Importing)+len(e.Migrating) > 0 {
				t.Errorf("seed %d: %s has open slots: %q", seed, m.Name, s.history)
			}
			served = served.Union(s.slots[m.View.ID])
		}
		if served.Len() < redisnode.SlotCount || !s.Formed {
			t.Errorf("seed %d: the slots %s alone are served, formed %t: %q", seed, served, s.Formed, s.history)
		}
		for _, c := range p.Commands {
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

func inBucket(changes ...func(*v1.S3)) v1.BackupStore {
	s3 := &v1.S3{Endpoint: "https://s3.example.com", Bucket: "redis-backups", CredentialsSecretRef: v1.SecretReference{Name: "s3"}}
	for _, change := range changes {
		change(s3)
	}
	return v1.BackupStore{S3: s3}
}

// TestTheCommandLinesOfJobs compares the arguments of Jobs with testdata/jobs.txt. Package backup tests that its programs accept them.
func TestTheCommandLinesOfJobs(t *testing.T) {
	settled := have(map[string][]string{"glassback": {accountPassword}, "default": nil}, all...)
	users := []alter{people(aUser("default", "off", "")), reading, settled}
	store := func(store v1.BackupStore) alter {
		return func(o *observed) { o.Object.Spec.Backup.BackupStore = store }
	}
	var got strings.Builder
	fmt.Fprintf(&got, "# exit codes: %d is wrong usage, and %d ends a Job\n", manifest.ExitUsage, manifest.ExitRefused)
	for _, scene := range []struct {
		name string
		seen *observed
		id   string
	}{
		{"a claim", with(six(), due), dueID},
		{"users and TLS", with(six(), append(users, specTLS(v1.TLSPreferred), secured("both", true, all...), due)...), dueID},
		{"S3", with(six(), due, store(inBucket())), dueID},
		{"S3, with all fields", with(six(), due, silenced(1, 0, 1, 2), store(inBucket(func(s *v1.S3) {
			s.Endpoint, s.Prefix, s.Region = "http://[fd00::1]:9000", "production/redis", "eu-central-1"
		}))), dueID},
		{"a password", with(six(), due, func(o *observed) {
			o.Object.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "auth", Key: "my.password"}
			for i, m := range o.Members {
				m.Pod.Spec = manifest.Pod(o.Object, i).Spec
			}
		}), dueID},
		{"the choice of the latest", with(six(), restoring), ""},
		{"the restore of the chosen one", with(six(), restoring, chosen), ""},
		{"a restore of one of another namespace", with(six(), restoring, func(o *observed) {
			o.Object.Spec.RestoreFrom.Namespace, o.Object.Spec.RestoreFrom.Backup, o.Object.Spec.RestoreFrom.BackupStore = "shop", dueID, inBucket()
		}), ""},
	} {
		if _, same := scene.seen.access(); !same {
			t.Fatalf("%s: the Pods differ", scene.name)
		}
		j := scene.seen.desiredJob(scene.id)
		got.WriteString("# " + scene.name + "\n" + strings.Join(j.Spec.Template.Spec.Containers[0].Args, " ") + "\n")
		checkJob(t, scene.name, scene.seen, j)
	}
	want, err := os.ReadFile("testdata/jobs.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the command lines are\n%s\nwant\n%s", got.String(), want)
	}
}

// checkJob checks what is the same for all Jobs: what they mount is what their arguments name, no node's label, and no right.
func checkJob(t *testing.T, name string, o *observed, j *batchv1.Job) {
	t.Helper()
	spec, c := &j.Spec.Template.Spec, &j.Spec.Template.Spec.Containers[0]
	ofPods := j.Spec.Template.Labels
	if klabels.SelectorFromSet(manifest.Selector(o.Object)).Matches(klabels.Set(ofPods)) || ofPods[v1.LabelRedisCluster] != "" ||
		ofPods[v1.LabelJob] != "demo" || j.Labels[v1.LabelRedisCluster] != "demo" || !metav1.IsControlledBy(j, o.Object) {
		t.Errorf("%s: the labels are %v, and %v of its Pods", name, j.Labels, ofPods)
	}
	security := spec.SecurityContext
	if *spec.AutomountServiceAccountToken || spec.ServiceAccountName != "" || !*security.RunAsNonRoot ||
		*security.RunAsUser != manifest.UserJob ||
		*security.FSGroup != manifest.UserJob || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation ||
		!slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) || security.SeccompProfile == nil {
		t.Errorf("%s: the security contexts are %+v and %+v", name, security, c.SecurityContext)
	}
	if spec.RestartPolicy != corev1.RestartPolicyNever || *j.Spec.BackoffLimit != manifest.JobRetries || *j.Spec.ActiveDeadlineSeconds < 3600 {
		t.Errorf("%s: the spec is %+v", name, j.Spec)
	}
	rules := j.Spec.PodFailurePolicy.Rules
	if r := rules[0]; len(rules) != 1 || r.Action != batchv1.PodFailurePolicyActionFailJob || *r.OnExitCodes.ContainerName != c.Name ||
		!slices.Equal(r.OnExitCodes.Values, []int32{manifest.ExitRefused}) {
		t.Errorf("%s: the rules are %+v", name, rules)
	}
	files := map[string]bool{}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Errorf("%s: there is no volume %s", name, m.Name)
			continue
		}
		files[m.MountPath] = true
		if secret := spec.Volumes[i].Secret; secret != nil {
			if *secret.DefaultMode != 0o440 || !m.ReadOnly {
				t.Errorf("%s: the Secret %s is mounted with the mode %o", name, secret.SecretName, *secret.DefaultMode)
			}
			for _, item := range secret.Items {
				files[m.MountPath+"/"+item.Path] = true
			}
		}
	}
	for _, arg := range c.Args {
		flag, value, _ := strings.Cut(arg, "=")
		if slices.Contains([]string{"--directory", "--s3-credentials", "--password-file", "--tls-ca"}, flag) && !files[value] {
			t.Errorf("%s: nothing is mounted at %s: %v", name, value, files)
		}
	}
}

// A Job takes from podTemplate what its Pods need to run where the nodes run.
func TestTheJobsOfAPodTemplate(t *testing.T) {
	rdc := defaulted(six().Object, backedUpHourly, func(rdc *v1.RedisCluster) {
		rdc.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{
			NodeSelector: map[string]string{"disk": "fast"}, Tolerations: []corev1.Toleration{{Key: "redis"}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, SecurityContext: &corev1.PodSecurityContext{},
			ServiceAccountName: ptr.To("powerful"), Labels: map[string]string{"team": "shop"},
		}}
		rdc.Spec.Backup.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
		rdc.Spec.Backup.Retention = ptr.To[int32](3)
		rdc.Spec.Backup.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "operators"}, {Name: "registry"}}
		rdc.Spec.Backup.ImagePullPolicy = corev1.PullAlways
	})
	spec := manifest.BackupJob(rdc, dueID, testImage, manifest.Access{}).Spec.Template.Spec
	if spec.NodeSelector["disk"] != "fast" || len(spec.Tolerations) != 1 ||
		!slices.Equal(spec.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "registry"}, {Name: "operators"}}) ||
		spec.Containers[0].ImagePullPolicy != corev1.PullAlways ||
		spec.SecurityContext.RunAsUser != nil || spec.ServiceAccountName != "" || spec.Containers[0].Image != testImage ||
		!spec.Containers[0].Resources.Limits.Memory().Equal(resource.MustParse("1Gi")) ||
		!slices.Contains(spec.Containers[0].Args, "--retention=3") {
		t.Errorf("the spec is %+v", spec)
	}
}
