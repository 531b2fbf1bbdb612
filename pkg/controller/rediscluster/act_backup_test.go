// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
)

var jobsResource = batchv1.SchemeGroupVersion.WithResource("jobs")

// jobs returns the Jobs of the API server, by name.
func (s *stage) jobs() []batchv1.Job {
	s.t.Helper()
	list, err := s.kube.Tracker().List(jobsResource, batchv1.SchemeGroupVersion.WithKind("Job"), "default")
	must.Succeed(s.t, err)
	return list.(*batchv1.JobList).Items
}

// service returns the spec of the Service.
func (s *stage) service() corev1.ServiceSpec {
	s.t.Helper()
	service, err := s.kube.CoreV1().Services("default").Get(s.t.Context(), "demo", metav1.GetOptions{})
	must.Succeed(s.t, err)
	return service.Spec
}

// podOf returns a Pod of a Job, whose container has this state.
func podOf(j *batchv1.Job, name string, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: j.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: manifest.ContainerJob, State: state}}},
	}
}

// end ends a Job as its Pod does, whose container prints a message.
func (s *stage) end(name string, exitCode int32, message string) {
	s.t.Helper()
	i := slices.IndexFunc(s.jobs(), func(j batchv1.Job) bool { return j.Name == name })
	if i < 0 {
		s.t.Fatalf("there is no Job %s", name)
	}
	j := s.jobs()[i].DeepCopy()
	s.add(podOf(j, name+"-"+string(j.UID), corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Message: message},
	}))
	ended := batchv1.JobCondition{
		Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now().Truncate(time.Second)),
	}
	if exitCode != 0 {
		ended.Type, ended.Reason, ended.Message = batchv1.JobFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
	}
	j.Status.Conditions = append(j.Status.Conditions, ended)
	must.Succeed(s.t, s.kube.Tracker().Update(jobsResource, j, "default"))
	s.catchUp()
}

// editJob changes the first Job.
func (s *stage) editJob(change func(*batchv1.Job)) {
	s.t.Helper()
	j := s.jobs()[0].DeepCopy()
	change(j)
	must.Succeed(s.t, s.kube.Tracker().Update(jobsResource, j, "default"))
}

// withUIDs makes the API server give each Job a UID, and the time of its creation.
func (s *stage) withUIDs() {
	n := 0
	s.kube.PrependReactor("create", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		n++
		created := action.(clienttesting.CreateAction).GetObject().(*batchv1.Job)
		created.UID, created.CreationTimestamp = types.UID(fmt.Sprint("job-", n)), metav1.NewTime(s.clock.Now())
		return false, nil, nil
	})
}

// stepTo sets the clock to a time, and syncs.
func (s *stage) stepTo(at metav1.Time) []string {
	s.t.Helper()
	s.clock.SetTime(at.Time)
	s.catchUp()
	return s.next()
}

func wantWrites(t *testing.T, writes []string, want ...string) {
	t.Helper()
	if !slices.Equal(writes, want) {
		t.Errorf("writes %q, want %q", writes, want)
	}
}

func backedUpHourly(rdc *v1.RedisCluster) {
	rdc.Spec.Backup = &v1.Backup{Schedule: "0 * * * *", BackupStore: inClaim()}
}

// withHourlyBackups is a stage with backups, at 13:55.
func withHourlyBackups(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, sixStored()).settle()
	s.withUIDs()
	s.edit(backedUpHourly)
	s.stepTo(at(13, 55))
	return s
}

// mortal is a stage whose controller dies before one of its writes. created has the names of the Jobs that it created.
type mortal struct {
	*stage
	writes  int
	created []string
}

// mortal makes the controller die before its nth write from now on; 0 is never.
func (s *stage) mortal(dieBefore int) *mortal {
	m := &mortal{stage: s}
	dying := func(action clienttesting.Action) (bool, runtime.Object, error) {
		if verb := action.GetVerb(); verb != "create" && verb != "update" && verb != "delete" {
			return false, nil, nil
		}
		if m.writes++; m.writes == dieBefore {
			panic(killed{})
		}
		if c, ok := action.(clienttesting.CreateAction); ok && action.GetResource() == jobsResource {
			m.created = append(m.created, c.GetObject().(*batchv1.Job).Name)
		}
		return false, nil, nil
	}
	s.kube.PrependReactor("*", "*", dying)
	s.client.PrependReactor("*", "*", dying)
	return m
}

// sync syncs once. After a death, it starts another controller.
func (m *mortal) sync() {
	m.t.Helper()
	defer m.catchUp()
	var dead bool
	func() {
		defer died(&dead)
		if _, _, err := m.stage.sync(); err != nil {
			m.t.Fatal(err)
		}
	}()
	if dead {
		m.connect()
	}
}

// live syncs at some times; before each sync, the test does something. Jobs that have begun end at every third step.
func (m *mortal) live(steps int, every time.Duration, before func(step int), result func(*batchv1.Job, int) string) {
	m.t.Helper()
	begin := m.clock.Now()
	for step := range steps {
		before(step)
		m.clock.SetTime(begin.Add(time.Duration(step) * every))
		m.catchUp()
		m.sync()
		for _, j := range m.jobs() {
			if endOf(&j) == nil && step%3 == 0 {
				m.end(j.Name, 0, result(&j, step))
			}
		}
	}
}

// thirtyKeys is the result of a Job.
func thirtyKeys(*batchv1.Job, int) string { return `{"keys":30,"bytes":900}` }

// TestSyncMakesBackupsAfterEachCrash kills the controller before its nth write, for each n. The next one continues: each time of the
// schedule has exactly one Job, and the status has its result.
func TestSyncMakesBackupsAfterEachCrash(t *testing.T) {
	type end struct {
		created []string
		jobs    []string
		status  *v1.BackupStatus
	}
	play := func(t *testing.T, dieBefore int) (end, int) {
		s := newStage(t, sixStored()).settle()
		s.withUIDs()
		s.edit(backedUpHourly)
		result := end{}
		m := s.mortal(dieBefore)
		s.clock.SetTime(at(13, 55).Time)
		m.live(70, time.Minute, func(int) {}, thirtyKeys)
		for _, j := range s.jobs() {
			result.jobs = append(result.jobs, j.Name)
		}
		result.status = s.rdc().Status.Backup
		result.status.LastSuccessfulTime, result.status.ScheduledSince = nil, nil // A crash delays them.
		result.created = m.created
		return result, m.writes
	}
	want, writes := play(t, 0)
	if len(want.created) != 2 || len(want.jobs) != 1 || want.status.Last.ID != "20260109T150000Z" || writes < 7 {
		t.Fatalf("without a crash: %+v after %d writes", want, writes)
	}
	for n := 1; n <= writes; n++ {
		if got, _ := play(t, n); !reflect.DeepEqual(got, want) {
			t.Errorf("after a crash before the write %d: %+v (%+v), want %+v (%+v)", n, got, got.status, want, want.status)
		}
	}
}

// TestEachChangeOfBackupNowMakesAJob has values return. It kills the controller before its nth write, for each n.
func TestEachChangeOfBackupNowMakesAJob(t *testing.T) {
	play := func(t *testing.T, dieBefore int) ([]string, int, *v1.BackupStatus) {
		s := newStage(t, sixStored()).settle()
		s.withUIDs()
		s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.Backup = &v1.Backup{BackupStore: inClaim()} })
		m := s.mortal(dieBefore)
		values := map[int]string{2: "1", 12: "2", 22: "1", 32: ""}
		s.clock.SetTime(at(13, 55).Time)
		m.live(40, time.Minute, func(minute int) {
			if value, changes := values[minute]; changes {
				s.edit(func(rdc *v1.RedisCluster) { rdc.Annotations = map[string]string{v1.AnnotationBackupNow: value} })
			}
		}, thirtyKeys)
		return m.created, m.writes, s.rdc().Status.Backup
	}
	_, writes, _ := play(t, 0)
	for n := range writes + 1 {
		created, _, status := play(t, n)
		unique := slices.Compact(slices.Clone(created))
		if len(created) != 3 || len(unique) != 3 || !slices.IsSorted(created) || status.LastBackupNow != "1" || status.Running != "" ||
			strings.ToLower(status.Last.ID) != strings.TrimPrefix(created[2], "demo-backup-") {
			t.Errorf("after a crash before the write %d: the Jobs %q, and the status %+v", n, created, status)
		}
	}
	if writes < 10 {
		t.Errorf("%d writes", writes)
	}
}

func isCreateOfJob(write string) bool { return strings.HasPrefix(write, "create jobs") }

func TestSyncReportsAJobThatIsRejected(t *testing.T) {
	for sentence, test := range map[string]struct {
		given func(*stage)
		says  string
	}{
		"a quota is exceeded": {func(s *stage) {
			s.fails("create", "jobs", apierrors.NewForbidden(jobsResource.GroupResource(), "x", errors.New("exceeded quota: jobs")))
		}, "exceeded quota"},
		"a Job of another owner has the name": {func(s *stage) {
			s.add(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "demo-backup-20260109t140000z", Namespace: "default"}})
		}, "not of this RedisCluster"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := withHourlyBackups(t)
			test.given(s)
			s.stepTo(at(14, 0))
			s.clock.Step(textEvery)
			s.stepTo(metav1.NewTime(s.clock.Now()))
			if c := s.is(v1.ConditionBackedUp); c.Reason != reasonJobRejected || !strings.Contains(c.Message, test.says) {
				t.Errorf("BackedUp is %s: %s", c.Reason, c.Message)
			}
			if ready := s.ready(); ready.Status != metav1.ConditionTrue {
				t.Errorf("Ready is %s: %s", ready.Reason, ready.Message)
			}
			for range 10 {
				s.clock.Step(time.Second)
				if writes := s.stepTo(metav1.NewTime(s.clock.Now())); slices.ContainsFunc(writes, isCreateOfJob) {
					t.Errorf("it tries again within ten seconds: %q", writes)
				}
			}
		})
	}
}

// TestSyncReplacesAJobThatDoesNotStart changes the spec while a Job runs. The Job is replaced at once if its Pod does not run, by one with
// the same ID.
func TestSyncReplacesAJobThatDoesNotStart(t *testing.T) {
	const name = "demo-backup-20260109t140000z"
	otherClaim := func(rdc *v1.RedisCluster) { rdc.Spec.Backup.PersistentVolumeClaim.ClaimName = "other" }
	for sentence, test := range map[string]struct {
		change func(*v1.RedisCluster)
		given  func(*stage) // after the Job was created
		want   []string
	}{
		"another claim": {otherClaim, func(*stage) {}, []string{"delete jobs " + name, "create jobs " + name}},
		"another Secret for the image": {func(rdc *v1.RedisCluster) {
			rdc.Spec.PodTemplate = &v1.PodTemplate{PodTemplate: glassback.PodTemplate{
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
			}}
		}, func(*stage) {}, []string{"delete jobs " + name, "create jobs " + name}},
		"another Secret of the password": {func(*v1.RedisCluster) {}, func(s *stage) {
			s.editPods(mountsPassword("auth", 6))
		}, []string{"delete jobs " + name, "create jobs " + name}},
		"another Secret of the password, and one Pod is not replaced yet": {func(*v1.RedisCluster) {}, func(s *stage) {
			s.editPods(mountsPassword("auth", 5))
		}, nil},
		"another schedule": {func(rdc *v1.RedisCluster) { rdc.Spec.Backup.Schedule = "30 * * * *" }, func(*stage) {}, nil},
		"another claim, while the Pod runs": {otherClaim, func(s *stage) {
			s.editJob(func(j *batchv1.Job) { j.Status.Ready = ptr.To[int32](1) })
		}, nil},
		"another claim, while the Pod runs and an injected container waits": {otherClaim, func(s *stage) {
			s.add(halfRunning(&s.jobs()[0]))
		}, nil},
		"another claim, after the first Pod has failed": {otherClaim, func(s *stage) {
			failed := halfRunning(&s.jobs()[0])
			failed.Status.Phase = corev1.PodFailed
			failed.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
			s.add(failed)
		}, []string{"delete jobs " + name, "create jobs " + name}},
		"another claim, and the container starts just before the deletion": {otherClaim, func(s *stage) {
			asked := 0
			s.kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if asked++; asked%2 == 1 {
					return true, &corev1.PodList{}, nil
				}
				return true, &corev1.PodList{Items: []corev1.Pod{*halfRunning(&s.jobs()[0])}}, nil
			})
		}, nil},
		"another claim, and the Job is of an earlier version": {otherClaim, func(s *stage) {
			s.editJob(func(j *batchv1.Job) { j.Annotations = nil })
		}, nil},
		"the operator has no image": {otherClaim, func(s *stage) { s.controller.backupImage = "" }, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := withHourlyBackups(t)
			s.stepTo(at(14, 0))
			test.given(s)
			s.edit(test.change)
			var writes []string
			for second := range 8 {
				for _, w := range s.stepTo(metav1.NewTime(at(14, 0).Add(time.Duration(second) * time.Second))) {
					if strings.Contains(w, " jobs ") {
						writes = append(writes, w)
					}
				}
			}
			wantWrites(t, writes, test.want...)
			if status := s.rdc().Status.Backup; status.Running != "20260109T140000Z" {
				t.Errorf("the status is %+v", status)
			}
		})
	}
}

// mountsPassword makes the first Pods mount a password.
func mountsPassword(secret string, pods int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if pods--; pods >= 0 {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: manifest.VolumeAuth, VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: []corev1.KeyToPath{{Key: "password", Path: "password"}}},
			}})
		}
	}
}

// editPods changes each Pod.
func (s *stage) editPods(change func(*corev1.Pod)) {
	s.t.Helper()
	for _, p := range listed(s.t, s.kube, "pods", "Pod").(*corev1.PodList).Items {
		change(&p)
		update(s.t, s.kube, "pods", &p)
	}
}

// halfRunning returns the Pod of a Job whose container runs, while the image of another container cannot be pulled.
func halfRunning(j *batchv1.Job) *corev1.Pod {
	p := podOf(j, "p", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	p.Status.Phase, p.Status.ContainerStatuses = corev1.PodPending, append(p.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: "proxy", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}},
	})
	return p
}

// A container that a service mesh injects runs on after that of the Job has ended: the Job counts as ended, and is deleted.
func TestAJobWhosePodDoesNotEnd(t *testing.T) {
	for sentence, test := range map[string]struct {
		end     corev1.ContainerStateTerminated
		keys    int64
		message string
		event   string
	}{
		"it succeeded": {corev1.ContainerStateTerminated{Message: `{"keys":30,"bytes":900}`}, 30, "",
			"Normal BackedUp Made the backup 20260109T140000Z with 30 keys"},
		"it failed": {corev1.ContainerStateTerminated{ExitCode: 1, Message: "no disk"}, 0, "no disk",
			"Warning BackupFailed The backup 20260109T140000Z failed: no disk"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := withHourlyBackups(t)
			s.stepTo(at(14, 0))
			p := halfRunning(&s.jobs()[0])
			p.Status.Phase = corev1.PodRunning
			test.end.FinishedAt = at(14, 1)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &test.end}
			p.Status.ContainerStatuses[1].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			s.add(p)
			s.stepTo(metav1.NewTime(at(14, 1).Add(maxLingering)))
			if running := s.rdc().Status.Backup.Running; running != "20260109T140000Z" {
				t.Fatalf("the backup that runs is %q: it may still end by itself", running)
			}
			var writes []string
			for second := range 5 {
				writes = append(writes, s.stepTo(metav1.NewTime(at(14, 1).Add(maxLingering+time.Duration(1+second)*time.Second)))...)
			}
			got := s.rdc().Status.Backup
			keys, message := cmp.Or(got.Last, &v1.BackupResult{}).Keys, cmp.Or(got.LastFailure, &v1.BackupFailure{}).Message
			if got.Running != "" || keys != test.keys || message != test.message {
				t.Errorf("the status is %+v, with %d keys and the message %q", got, keys, message)
			}
			if events := s.takeEvents(); !slices.Contains(events, test.event) {
				t.Errorf("events %q, want %q", events, test.event)
			}
			if deleted := "delete jobs demo-backup-20260109t140000z"; !slices.Contains(writes, deleted) {
				t.Errorf("writes %q, want %q", writes, deleted)
			}
		})
	}
}

// The API server keeps no lastBackupNow, as with a CRD of an earlier version: the Jobs have the value, also those by the schedule.
func TestOneBackupNowWithoutLastBackupNow(t *testing.T) {
	s := newStage(t, sixStored()).settle()
	s.withUIDs()
	s.client.PrependReactor("update", "redisclusters", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if rdc := a.(clienttesting.UpdateAction).GetObject().(*v1.RedisCluster); rdc.Status.Backup != nil {
			rdc.Status.Backup.LastBackupNow = ""
		}
		return false, nil, nil
	})
	s.edit(func(rdc *v1.RedisCluster) {
		backedUpHourly(rdc)
		rdc.Annotations = map[string]string{v1.AnnotationBackupNow: "1"}
	})
	var made []string
	writes := 0
	for minute := range 130 {
		writes += len(s.stepTo(metav1.NewTime(at(13, 55).Add(time.Duration(minute)*time.Minute + time.Second))))
		for _, j := range s.jobs() {
			if endOf(&j) == nil {
				made = append(made, j.Name+" "+j.Annotations[v1.AnnotationBackupNow])
				s.end(j.Name, 0, `{"keys":30}`)
			}
		}
	}
	want := []string{"demo-backup-20260109t135501z 1", "demo-backup-20260109t140000z 1", "demo-backup-20260109t150000z 1",
		"demo-backup-20260109t160000z 1"}
	if !slices.Equal(made, want) || writes > 5*len(want) {
		t.Errorf("%d writes, and the Jobs %q, want %q", writes, made, want)
	}
}

// A deletion has a conflict, then an error although it takes effect. The status does not report an error of a Job that is gone.
func TestSyncDeletesTheObservedJob(t *testing.T) {
	s := withHourlyBackups(t)
	answers := []error{apierrors.NewConflict(jobsResource.GroupResource(), "x", errors.New("it has changed")), errors.New("timeout")}
	s.kube.PrependReactor("delete", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d := a.(clienttesting.DeleteAction)
		if p := d.GetDeleteOptions().Preconditions; p == nil || *p.UID != "job-1" || *p.ResourceVersion != "7" {
			t.Errorf("the preconditions are %+v", p)
		}
		if len(answers) == 0 {
			t.Fatal("a third deletion")
		}
		err := answers[0]
		if answers = answers[1:]; len(answers) == 0 { // It took effect.
			if err := s.kube.Tracker().Delete(jobsResource, d.GetNamespace(), d.GetName()); err != nil {
				t.Error(err)
			}
		}
		return true, nil, err
	})
	says := func(text string) bool {
		return strings.Contains(s.is(v1.ConditionBackedUp).Message, text)
	}
	s.stepTo(at(14, 0))
	s.editJob(func(j *batchv1.Job) { j.ResourceVersion = "7" })
	s.end("demo-backup-20260109t140000z", 0, "{}")
	s.stepTo(at(14, 1))
	s.stepTo(at(15, 0))
	s.end("demo-backup-20260109t150000z", 0, "{}")
	for minute := range 10 {
		s.stepTo(at(15, 1+minute))
		if says("it has changed") {
			t.Error("a conflict is reported")
		}
	}
	if len(answers) > 0 || len(s.jobs()) != 1 || says("timeout") {
		t.Errorf("%d answers are left, %d Jobs, and the error is reported: %t", len(answers), len(s.jobs()), says("timeout"))
	}
}

// A Job that the cache does not show yet is not created twice, and is no conflict.
func TestSyncFindsItsOwnJob(t *testing.T) {
	s := withHourlyBackups(t)
	s.stepTo(at(14, 0))
	s.connect()
	must.Succeed(t, s.informers[jobsResource].GetStore().Replace(nil, ""))
	s.next()
	s.clock.Step(time.Minute)
	s.stepTo(metav1.NewTime(s.clock.Now()))
	if c := s.is(v1.ConditionBackedUp); c.Reason != ReasonNoBackupYet || len(s.jobs()) != 1 {
		t.Errorf("BackedUp is %s: %s, and there are %d Jobs", c.Reason, c.Message, len(s.jobs()))
	}
}

func TestSyncRestoresABackup(t *testing.T) {
	o := sixStored()
	restoring(o)
	s := newStage(t, o)
	s.withUIDs()
	var writes []string
	for range 3 {
		writes = append(writes, s.next()...)
	}
	if !slices.Contains(writes, "create jobs demo-restore-latest") {
		t.Fatalf("writes %q", writes)
	}
	s.end("demo-restore-latest", 0, `{"id":"20260108T130000Z","keys":30}`)
	wantWrites(t, s.stepTo(at(13, 54)), statusWrite)
	if r := s.rdc().Status.Restore; r.ID != "20260108T130000Z" || r.CompletedAt != nil {
		t.Errorf("after the choice, the status is %+v", r)
	}
	wantWrites(t, s.stepTo(at(13, 55)), "delete jobs demo-restore-latest", "create jobs demo-restore")
	restoresIt := func() {
		t.Helper()
		if args := s.jobs()[0].Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--id=20260108T130000Z") {
			t.Errorf("the Job has the arguments %q", args)
		}
	}
	restoresIt()
	s.end("demo-restore", 1, "the backup 20260108T130000Z is damaged")
	s.stepTo(at(13, 56))
	if is := s.ready(); is.Reason != reasonRestoreFailed || !strings.Contains(is.Message, "20260108T130000Z is damaged") {
		t.Errorf("after a failure, Ready is %s: %s", is.Reason, is.Message)
	}
	wantWrites(t, s.stepTo(at(13, 57)))
	must.Succeed(t, s.kube.Tracker().Delete(jobsResource, "default", "demo-restore"))
	s.destroy("pods", "demo-restore-job-2")
	wantWrites(t, s.stepTo(at(13, 58)), "create jobs demo-restore", statusWrite)
	restoresIt()
	s.end("demo-restore", 0, `{"id":"20260108T130000Z","keys":30,"skipped":1,"expired":2,"warning":"the library f was kept"}`)
	s.stepTo(at(13, 59))
	if is := s.ready(); is.Reason != reasonFormed {
		t.Errorf("after a success, Ready is %s: %s", is.Reason, is.Message)
	}
	want := &v1.RestoreStatus{
		StartedAt: s.rdc().Status.Restore.StartedAt, ID: "20260108T130000Z", Keys: 30, Skipped: 1, Expired: 2,
		Warning: "the library f was kept", CompletedAt: ptr.To(at(13, 58)),
	}
	if got := s.rdc().Status.Restore; !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("the status is %+v, want %+v", got, want)
	}
	if got := s.service().Selector; len(got) == len(manifest.Selector(s.rdc())) {
		t.Errorf("until then, the Service selects %v", got)
	}
	wantWrites(t, s.stepTo(at(14, 0)), "patch services demo")
	if got := s.service().Selector; !maps.Equal(got, manifest.Selector(s.rdc())) {
		t.Errorf("then, the Service selects %v", got)
	}
	must.Succeed(t, s.kube.Tracker().Delete(jobsResource, "default", "demo-restore"))
	wantWrites(t, s.stepTo(at(14, 1)))
	events := s.takeEvents()
	for _, want := range []string{
		"Normal Restored Restored the backup 20260108T130000Z with 30 keys; 1 of them existed, and 2 had expired",
		"Warning RestoreWarning the library f was kept",
	} {
		if !slices.Contains(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
	}
}

// Of a Job without Pods, the condition has the cause. A message that is too long is cut.
func TestTheResultOfAJob(t *testing.T) {
	s := newStage(t, sixStored()).settle()
	rdc := s.rdc()
	j := manifest.BackupJob(defaulted(rdc, backedUpHourly), dueID, testImage, manifest.Access{})
	j.UID = "job"
	ofJob := func(owner types.UID, state corev1.ContainerStateTerminated) *corev1.Pod {
		controller := j.DeepCopy()
		controller.UID = owner
		p := podOf(controller, "p", corev1.ContainerState{Terminated: &state})
		p.Spec.Containers = []corev1.Container{{Name: manifest.ContainerJob, Image: "registry/glassback:v0"}}
		p.Status.ContainerStatuses[0].Image = "sha256:1"
		return p
	}
	failed := &batchv1.JobCondition{Type: batchv1.JobFailed, Reason: "DeadlineExceeded", Message: "Job was active too long"}
	complete := &batchv1.JobCondition{Type: batchv1.JobComplete}
	for sentence, test := range map[string]struct {
		pod  *corev1.Pod
		end  *batchv1.JobCondition
		want jobResult
	}{
		"there is no Pod": {nil, failed, jobResult{Message: "DeadlineExceeded: Job was active too long"}},
		"its Pod has a message": {
			ofJob("job", corev1.ContainerStateTerminated{ExitCode: 1, Message: "no\n disk\n"}), failed, jobResult{Message: "no disk"},
		},
		"its image is older than the operator": {
			ofJob("job", corev1.ContainerStateTerminated{ExitCode: 2, Message: "glassback: unknown flag: --choose\n"}), failed,
			jobResult{Message: "The image registry/glassback:v0 does not know the command line of the operator: set --backup-image to the image " +
				"of the operator's version. Its answer is: glassback: unknown flag: --choose"},
		},
		"its Pod has a reason": {
			ofJob("job", corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}), failed,
			jobResult{Message: "OOMKilled, exit code 137"},
		},
		"its message is long": {
			ofJob("job", corev1.ContainerStateTerminated{ExitCode: 1, Message: strings.Repeat("ü", 2000)}), failed,
			jobResult{Message: strings.Repeat("ü", maxJobMessage/2) + "…"},
		},
		"the Pod is of another Job": {
			ofJob("another", corev1.ContainerStateTerminated{ExitCode: 1, Message: "x"}), failed,
			jobResult{Message: "DeadlineExceeded: Job was active too long"},
		},
		"it succeeded": {
			ofJob("job", corev1.ContainerStateTerminated{Message: `{"id":"a","keys":1,"bytes":2}`}), complete,
			jobResult{ID: "a", Keys: 1, Bytes: 2},
		},
		"it succeeded without a Pod": {nil, complete, jobResult{}},
		"it succeeded, after a Pod that failed": {
			ofJob("job", corev1.ContainerStateTerminated{ExitCode: 1, Message: `{"keys":7}`}), complete, jobResult{},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if test.pod != nil {
				s.add(test.pod)
				defer s.destroy("pods", "p")
			}
			clear(s.controller.sessions.get(rdc).results)
			got, err := s.controller.resultOf(t.Context(), rdc, j, test.end)
			if err != nil || *got != test.want {
				t.Errorf("got %+v, error %v; want %+v", got, err, test.want)
			}
		})
	}
}

func defaulted(rdc *v1.RedisCluster, changes ...func(*v1.RedisCluster)) *v1.RedisCluster {
	changed := rdc.DeepCopy()
	for _, change := range changes {
		change(changed)
	}
	changed.Default()
	return changed
}

// TestSyncRestoresABackupAfterEachCrash kills the controller before its nth write, for each n. The cluster always gets one Job that chooses
// the latest backup, and one that restores it, and ends Ready with its result. Meanwhile, there are newer backups.
func TestSyncRestoresABackupAfterEachCrash(t *testing.T) {
	play := func(t *testing.T, dieBefore int) (created []string, writes int, status *v1.RestoreStatus, ready string) {
		o := sixStored()
		restoring(o)
		s := newStage(t, o)
		s.withUIDs()
		m := s.mortal(dieBefore)
		m.live(20, 3*time.Second, func(int) {}, func(j *batchv1.Job, step int) string {
			args := j.Spec.Template.Spec.Containers[0].Args
			id, _ := strings.CutPrefix(args[slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--id=") })], "--id=")
			if id == v1.LatestBackup {
				id = manifest.BackupID(at(13, step).Time)
			}
			return fmt.Sprintf(`{"id":%q,"keys":30}`, id)
		})
		rdc := s.rdc()
		return m.created, m.writes, rdc.Status.Restore, meta.FindStatusCondition(rdc.Status.Conditions, "Ready").Reason
	}
	_, writes, _, _ := play(t, 0)
	if writes < 5 {
		t.Fatalf("%d writes", writes)
	}
	for n := range writes + 1 {
		created, _, status, ready := play(t, n)
		once := []string{"demo-restore-latest", "demo-restore"}
		if !slices.Equal(created, once) || status == nil || status.ID == v1.LatestBackup || status.Keys != 30 || ready != reasonFormed {
			t.Errorf("after a crash before the write %d: the Jobs %q, %+v, Ready is %s", n, created, status, ready)
		}
	}
}

// The operator cannot delete the Job that chose the latest backup. The restore continues, and no Job counts as rejected.
func TestADeletionThatFailsHoldsNoRestore(t *testing.T) {
	o := sixStored()
	restoring(o)
	s := newStage(t, o)
	s.withUIDs()
	s.fails("delete", "jobs", errors.New("connection refused"))
	s.stepTo(at(13, 51))
	s.stepTo(at(13, 52))
	s.stepTo(at(13, 53))
	s.end("demo-restore-latest", 0, `{"id":"20260108T130000Z","keys":30}`)
	s.stepTo(at(13, 54))
	s.stepTo(at(13, 55))
	s.stepTo(at(13, 56))
	ready := s.ready()
	if len(s.jobs()) != 2 || ready.Reason != reasonRestoring || strings.Contains(ready.Message, "refused") {
		t.Errorf("there are %d Jobs, and Ready is %s: %s", len(s.jobs()), ready.Reason, ready.Message)
	}
	if is := s.controller.sessions.get(s.rdc()); is.jobRejection != "" || !strings.Contains(is.jobFailure, "refused") {
		t.Errorf("Jobs are rejected: %q, and not deleted: %q", is.jobRejection, is.jobFailure)
	}
}

// An error of a request about a backup is in the condition BackedUp alone, and ends no sync: a Pod that is gone is created again.
func TestSyncContinuesWithoutBackups(t *testing.T) {
	for _, verb := range []string{"create jobs", "delete jobs", "list pods"} {
		t.Run(verb, func(t *testing.T) {
			s := withHourlyBackups(t)
			for hour := 14; hour < 16; hour++ {
				s.stepTo(at(hour, 0))
				s.end(fmt.Sprintf("demo-backup-20260109t%d0000z", hour), 0, "{}")
				if hour == 14 {
					s.stepTo(at(hour, 1))
				}
			}
			fails, asked := strings.Fields(verb), 0
			s.kube.PrependReactor(fails[0], fails[1], func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				return true, nil, errors.New("connection refused")
			})
			s.destroy("pods", "demo-4")
			if writes := s.stepTo(at(15, 2)); !slices.Contains(writes, "create pods demo-4") {
				t.Errorf("writes %q, want the Pod", writes)
			}
			for minute := range 3 {
				s.stepTo(at(16, minute))
			}
			c := s.is(v1.ConditionBackedUp)
			if asked == 0 || !strings.Contains(c.Message, "connection refused") {
				t.Errorf("%d requests; BackedUp is %s: %s", asked, c.Reason, c.Message)
			}
			if degraded := s.is("Degraded"); degraded.Reason == reasonFailing {
				t.Errorf("Degraded is %s: %s", degraded.Reason, degraded.Message)
			}
		})
	}
}
