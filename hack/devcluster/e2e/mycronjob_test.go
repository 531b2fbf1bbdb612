// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/must"
)

// TestMyCronJob runs all cases on one cluster with a simulated node. Each case has its own namespace.
func TestMyCronJob(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds", "--controllers=mycronjob").waitFor("Started controller")
	t.Run("cases", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *world, string){
			"the seed's manifest makes a Job every 5 seconds":        testSeed,
			"a schedule with seconds, in a time zone":                testSchedule,
			"a foreign Job with a slot's name stops no other slot":   testForeignJob,
			"the history limits are the number of Jobs kept":         testHistory,
			"Forbid and Replace":                                     testConcurrency,
			"suspend, run-now, and resume":                           testSuspendAndRunNow,
			"a Job that the API server rejects":                      testRejectedJob,
			"deleting the object deletes its Jobs":                   testGarbage,
			"a paused object is left alone":                          testPaused,
			"the API server rejects bad objects and says what to do": testBadInput,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w, w.namespace(t))
			})
		}
	})
}

// namespace creates a namespace with a service account, and returns its name.
func (w *world) namespace(t *testing.T) string {
	t.Helper()
	ns, err := w.kube.CoreV1().Namespaces().Create(t.Context(), namespaceObject(), metav1.CreateOptions{})
	must.Succeed(t, err)
	eventually(t, patience, func(ctx context.Context) error {
		_, err := w.kube.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

func (w *world) create(t *testing.T, ns, name string, change ...func(*v1.MyCronJob)) *v1.MyCronJob {
	t.Helper()
	m := sample(name)
	m.Namespace = ns
	for _, f := range change {
		f(m)
	}
	created, err := w.glassback.BatchV1().MyCronJobs(ns).Create(t.Context(), m, metav1.CreateOptions{})
	must.Succeed(t, err)
	return created
}

// withoutPods makes a MyCronJob's Jobs succeed at once, without a Pod, and lets none of them remain. A Pod on the real node costs more than
// a second of CPU.
func withoutPods(m *v1.MyCronJob) {
	m.Spec.JobTemplate.Spec.Completions, m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0), ptr.To[int32](0)
}

func (w *world) get(ctx context.Context, ns, name string) (*v1.MyCronJob, error) {
	return w.glassback.BatchV1().MyCronJobs(ns).Get(ctx, name, metav1.GetOptions{})
}

func (w *world) patch(t *testing.T, ns, name, patch string) {
	t.Helper()
	_, err := w.glassback.BatchV1().MyCronJobs(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must.Succeed(t, err)
}

// jobsOf returns the Jobs of a MyCronJob, sorted by slot.
func (w *world) jobsOf(ctx context.Context, ns, name string) ([]batchv1.Job, error) {
	list, err := w.kube.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{LabelSelector: v1.LabelMyCronJob + "=" + name})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

func slotOf(t testing.TB, job string) int64 {
	t.Helper()
	second, err := strconv.ParseInt(job[strings.LastIndex(job, "-")+1:], 10, 64)
	if err != nil {
		t.Fatalf("the name of Job %s does not end with a slot", job)
	}
	return second
}

// example reads the first object of a file in artifacts/examples.
func example(t *testing.T, file string) *v1.MyCronJob {
	t.Helper()
	data, err := os.ReadFile("../../../artifacts/examples/" + file)
	must.Succeed(t, err)
	m := &v1.MyCronJob{}
	must.Succeed(t, yaml.UnmarshalStrict(data, m))
	return m
}

func testSeed(t *testing.T, w *world, ns string) {
	m := example(t, "mycronjob.yaml")
	if _, err := w.glassback.BatchV1().MyCronJobs(ns).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	audit := w.audit(t, ns)
	eventually(t, 60*time.Second, func(ctx context.Context) error {
		m, err := w.get(ctx, ns, m.Name)
		if err != nil {
			return err
		}
		if m.Status.LastSuccessfulTime == nil || len(audit.slots()) < 4 {
			return fmt.Errorf("Jobs %v, status %+v", audit.slots(), m.Status)
		}
		return nil
	})
	slots := audit.slots()
	for i, s := range slots {
		if s%5 != 0 || (i > 0 && s != slots[i-1]+5) {
			t.Errorf("slots %v, want one every 5 seconds, at multiples of 5", slots)
		}
	}
}

func testSchedule(t *testing.T, w *world, ns string) {
	w.create(t, ns, "sample", func(m *v1.MyCronJob) {
		m.Spec.Schedule, m.Spec.TimeZone = ptr.To("*/3 * * * * *"), ptr.To("Asia/Shanghai")
	})
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		m, err := w.get(ctx, ns, "sample")
		if err != nil {
			return err
		}
		jobs, err := w.jobsOf(ctx, ns, "sample")
		if err != nil || len(jobs) < 2 {
			return errors.Join(err, fmt.Errorf("%d Jobs", len(jobs)))
		}
		if s := slotOf(t, jobs[0].Name); s%3 != 0 || m.Status.Schedule != "*/3 * * * * * Asia/Shanghai" {
			t.Errorf("slot %d and schedule %q, want multiples of 3 and the cron expression", s, m.Status.Schedule)
		}
		return nil
	})
}

func testForeignJob(t *testing.T, w *world, ns string) {
	m := w.create(t, ns, "sample")
	next := m.CreationTimestamp.Unix()/5*5 + 10
	foreign := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("sample-%d", next)},
		Spec:       *m.Spec.JobTemplate.Spec.DeepCopy(),
	}
	foreign.Spec.Suspend = ptr.To(true)
	if _, err := w.kube.BatchV1().Jobs(ns).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 40*time.Second, func(ctx context.Context) error {
		m, err := w.get(ctx, ns, "sample")
		if err != nil {
			return err
		}
		if m.Status.MissedTotal != 1 || m.Status.LastScheduleTime == nil || m.Status.LastScheduleTime.Unix() <= next {
			return fmt.Errorf("status %+v, want one slot missed and Jobs after it", m.Status)
		}
		return nil
	})
	left, err := w.kube.BatchV1().Jobs(ns).Get(t.Context(), foreign.Name, metav1.GetOptions{})
	if err != nil || left.OwnerReferences != nil {
		t.Errorf("the operator changed the foreign Job: owners %v, error %v", left.OwnerReferences, err)
	}
	events, err := w.kube.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=SlotTaken"})
	if err != nil || len(events.Items) != 1 {
		t.Errorf("%d events with reason SlotTaken, want 1 (error %v)", len(events.Items), err)
	}
}

func testHistory(t *testing.T, w *world, ns string) {
	w.create(t, ns, "sample", func(m *v1.MyCronJob) {
		m.Spec.IntervalSeconds, m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](5), ptr.To[int32](1)
		m.Spec.JobTemplate.Labels = map[string]string{"team": "a"}
		m.Spec.JobTemplate.Annotations = map[string]string{"note": "b"}
	})
	audit := w.audit(t, ns)
	eventually(t, 60*time.Second, func(context.Context) error {
		if len(audit.slots()) < 5 {
			return fmt.Errorf("slots %v", audit.slots())
		}
		return nil
	})
	jobs, err := w.jobsOf(t.Context(), ns, "sample")
	if err != nil || len(jobs) > 4 { // one in the history, those of the last ten seconds, and one that runs
		t.Errorf("%d Jobs are kept (error %v)", len(jobs), err)
	}
	for _, job := range jobs {
		if job.Labels["team"] != "a" || job.Annotations["note"] != "b" || !metav1.IsControlledBy(&job, audit.owner(t)) {
			t.Errorf("Job %s has labels %v, annotations %v, owners %v", job.Name, job.Labels, job.Annotations, job.OwnerReferences)
		}
	}
	audit.check(t, "sample")
}

func testConcurrency(t *testing.T, w *world, ns string) {
	hang := func(policy v1.ConcurrencyPolicy) func(*v1.MyCronJob) {
		return func(m *v1.MyCronJob) {
			m.Spec.IntervalSeconds, m.Spec.ConcurrencyPolicy = ptr.To[int32](3), policy
			// A suspended Job never finishes.
			m.Spec.JobTemplate.Spec.Suspend = ptr.To(true)
		}
	}
	w.create(t, ns, "forbid", hang(v1.ForbidConcurrent))
	w.create(t, ns, "replace", hang(v1.ReplaceConcurrent))
	audit := w.audit(t, ns)
	eventually(t, 40*time.Second, func(ctx context.Context) error {
		m, err := w.get(ctx, ns, "forbid")
		if err != nil {
			return err
		}
		if m.Status.MissedTotal < 2 || m.Status.Active != 1 || !meta.IsStatusConditionTrue(m.Status.Conditions, glassback.ConditionProgressing) {
			return fmt.Errorf("forbid: status %+v", m.Status)
		}
		r, err := w.get(ctx, ns, "replace")
		if err != nil {
			return err
		}
		if jobs := audit.of("replace"); len(jobs) < 3 || r.Status.MissedTotal != 0 {
			return fmt.Errorf("replace: %d Jobs were created, %d slots missed", len(jobs), r.Status.MissedTotal)
		}
		return nil
	})
	if jobs := audit.of("forbid"); len(jobs) != 1 {
		t.Errorf("forbid created the Jobs %v, want one", jobs)
	}
	jobs, err := w.jobsOf(t.Context(), ns, "replace")
	if err != nil || len(jobs) > 1 {
		t.Errorf("with replace, %d Jobs run (error %v)", len(jobs), err)
	}
}

func testSuspendAndRunNow(t *testing.T, w *world, ns string) {
	w.create(t, ns, "sample", func(m *v1.MyCronJob) { m.Spec.Suspend = ptr.To(true) })
	ready := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		eventually(t, patience, func(ctx context.Context) error {
			m, err := w.get(ctx, ns, "sample")
			if err != nil {
				return err
			}
			if c := meta.FindStatusCondition(m.Status.Conditions, glassback.ConditionReady); c == nil || c.Status != status || c.Reason != reason {
				return fmt.Errorf("Ready is %+v, want %s %s", c, status, reason)
			}
			return nil
		})
	}
	ready(metav1.ConditionFalse, "Suspended")
	audit := w.audit(t, ns)
	for i, value := range []string{"first", "second", "first"} {
		w.patch(t, ns, "sample", fmt.Sprintf(`{"metadata":{"annotations":{"glassback.dev/run-now":%q}}}`, value))
		eventually(t, patience, func(ctx context.Context) error {
			m, err := w.get(ctx, ns, "sample")
			if err != nil || m.Status.LastRunNow != value || m.Status.LastRunNowNumber != int64(i)+1 {
				return errors.Join(err, fmt.Errorf("lastRunNow is %q with number %d", m.Status.LastRunNow, m.Status.LastRunNowNumber))
			}
			return nil
		})
	}
	jobs := audit.of("sample")
	slices.Sort(jobs)
	if len(jobs) != 3 || !strings.HasPrefix(jobs[0], "sample-r") || !slices.Equal(jobs[1:], []string{"sample-run2", "sample-run3"}) {
		t.Errorf("the Jobs are %v, want three by run-now", jobs)
	}
	w.patch(t, ns, "sample", `{"spec":{"suspend":false}}`)
	ready(metav1.ConditionTrue, "Scheduled")
	eventually(t, patience, func(context.Context) error {
		if jobs := audit.of("sample"); len(jobs) < 4 {
			return fmt.Errorf("Jobs %v", jobs)
		}
		return nil
	})
	if m, err := w.get(t.Context(), ns, "sample"); err != nil || m.Status.MissedTotal != 0 {
		t.Errorf("%d slots of a suspended object are counted as missed (error %v)", m.Status.MissedTotal, err)
	}
}

func testRejectedJob(t *testing.T, w *world, ns string) {
	w.create(t, ns, "sample", func(m *v1.MyCronJob) {
		m.Spec.IntervalSeconds = ptr.To[int32](2)
		m.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = ""
	})
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		m, err := w.get(ctx, ns, "sample")
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(m.Status.Conditions, glassback.ConditionReady)
		if c == nil || c.Reason != "JobRejected" || !strings.Contains(c.Message, "image: Required value") || m.Status.MissedTotal < 2 {
			return fmt.Errorf("status %+v", m.Status)
		}
		return nil
	})
	w.patch(t, ns, "sample", `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"hello","image":"busybox"}]}}}}}}`)
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		m, err := w.get(ctx, ns, "sample")
		if err != nil || !meta.IsStatusConditionTrue(m.Status.Conditions, glassback.ConditionReady) || m.Status.LastScheduleTime == nil {
			return errors.Join(err, fmt.Errorf("status %+v after the template was corrected", m.Status))
		}
		return nil
	})
}

func testGarbage(t *testing.T, w *world, ns string) {
	w.create(t, ns, "sample", func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](1) })
	audit := w.audit(t, ns)
	eventually(t, patience, func(context.Context) error {
		if len(audit.slots()) == 0 {
			return errors.New("no Job yet")
		}
		return nil
	})
	must.Succeed(t, w.glassback.BatchV1().MyCronJobs(ns).Delete(t.Context(), "sample", metav1.DeleteOptions{}))
	// The garbage collector looks for new kinds of owners every 30 seconds.
	eventually(t, 90*time.Second, func(ctx context.Context) error {
		jobs, err := w.jobsOf(ctx, ns, "sample")
		if err != nil || len(jobs) > 0 {
			return errors.Join(err, fmt.Errorf("%d Jobs still exist", len(jobs)))
		}
		return nil
	})
}

func testPaused(t *testing.T, w *world, ns string) {
	w.create(t, ns, "sample", func(m *v1.MyCronJob) {
		m.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
		m.Spec.IntervalSeconds = ptr.To[int32](1)
	})
	other := w.create(t, ns, "other", func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](1) })
	audit := w.audit(t, ns)
	eventually(t, patience, func(context.Context) error {
		if len(audit.of(other.Name)) < 3 {
			return errors.New("the object that is not paused has no Jobs yet")
		}
		return nil
	})
	m, err := w.get(t.Context(), ns, "sample")
	if err != nil || m.Status.ObservedGeneration != 0 || len(audit.of("sample")) > 0 {
		t.Errorf("the operator worked for a paused object: status %+v, Jobs %v, error %v", m.Status, audit.of("sample"), err)
	}
}

func testBadInput(t *testing.T, w *world, ns string) {
	for name, test := range map[string]struct {
		change func(*v1.MyCronJob)
		want   string
	}{
		"interval 0":        {func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](0) }, "spec.intervalSeconds: Invalid value: 0"},
		"interval negative": {func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](-5) }, "spec.intervalSeconds: Invalid value: -5"},
		"interval and schedule": {
			func(m *v1.MyCronJob) { m.Spec.IntervalSeconds, m.Spec.Schedule = ptr.To[int32](5), ptr.To("* * * * *") }, "exclude each other",
		},
		"a bad schedule":    {func(m *v1.MyCronJob) { m.Spec.Schedule = ptr.To("every day") }, "must be a cron expression of five fields"},
		"a minute above 59": {func(m *v1.MyCronJob) { m.Spec.Schedule = ptr.To("61 * * * *") }, "must be a cron expression of five fields"},
		"an unknown time zone": {
			func(m *v1.MyCronJob) { m.Spec.Schedule, m.Spec.TimeZone = ptr.To("@daily"), ptr.To("Mars/Base") }, "IANA time zone",
		},
		"a name too long": {func(m *v1.MyCronJob) { m.Name = strings.Repeat("x", 53) }, "no more than 52 characters"},
		"a restart policy of a Pod": {
			func(m *v1.MyCronJob) { m.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = "Always" }, "must be OnFailure or Never",
		},
	} {
		m := sample("bad")
		m.Namespace = ns
		test.change(m)
		_, err := w.glassback.BatchV1().MyCronJobs(ns).Create(t.Context(), m, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
}

// audit watches the Jobs of a namespace from its start. It keeps the UID of every Job that has ever existed.
type audit struct {
	w    *world
	ns   string
	mu   sync.Mutex
	uids map[string][]types.UID // by the Job's name
}

func (w *world) audit(t testing.TB, ns string) *audit {
	t.Helper()
	a := &audit{w: w, ns: ns, uids: map[string][]types.UID{}}
	ctx, cancel := context.WithCancel(context.Background())
	began, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		// A reflector would back off. But a Job that is created when the API server has just returned can be deleted within ten seconds.
		first := sync.OnceFunc(func() { close(began) })
		wait.UntilWithContext(ctx, func(ctx context.Context) { a.follow(ctx, first) }, 100*time.Millisecond)
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-began:
	case <-time.After(patience):
		t.Fatal("the watch of the audit has not started")
	}
	return a
}

// follow notes the existing Jobs, and then the new ones until the watch ends.
func (a *audit) follow(ctx context.Context, began func()) {
	list, err := a.w.kube.BatchV1().Jobs(a.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		a.note(&list.Items[i])
	}
	watching, err := a.w.kube.BatchV1().Jobs(a.ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer watching.Stop()
	began()
	for event := range watching.ResultChan() {
		if job, ok := event.Object.(*batchv1.Job); ok {
			a.note(job)
		}
	}
}

func (a *audit) note(job *batchv1.Job) {
	if job.Labels[v1.LabelMyCronJob] == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.uids[job.Name], job.UID) {
		a.uids[job.Name] = append(a.uids[job.Name], job.UID)
	}
}

// of returns the names of all Jobs that a MyCronJob has ever had.
func (a *audit) of(name string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var jobs []string
	for _, job := range slices.Sorted(maps.Keys(a.uids)) {
		if strings.HasPrefix(job, name+"-") {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// slots returns the slots of all Jobs.
func (a *audit) slots() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var slots []int64
	for name := range a.uids {
		if second, err := strconv.ParseInt(name[strings.LastIndex(name, "-")+1:], 10, 64); err == nil {
			slots = append(slots, second)
		}
	}
	slices.Sort(slots)
	return slots
}

func (a *audit) owner(t testing.TB) *v1.MyCronJob {
	t.Helper()
	m, err := a.w.get(t.Context(), a.ns, "sample")
	must.Succeed(t, err)
	return m
}

// check checks the slots of a MyCronJob with an interval. No slot may run twice. Every slot since the creation has run, or is counted as
// missed.
func (a *audit) check(t testing.TB, name string) {
	t.Helper()
	// The status shows a new Job only after a moment: check until both agree.
	eventually(t, patience, func(ctx context.Context) error {
		m, err := a.w.get(ctx, a.ns, name)
		if err != nil {
			return err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		ran := int64(0)
		for job, uids := range a.uids {
			if len(uids) > 1 {
				t.Fatalf("Job %s was created %d times", job, len(uids))
			}
			if strings.HasPrefix(job, name+"-") && slotOf(t, job) <= m.Status.AccountedTime.Unix() {
				ran++
			}
		}
		interval := int64(ptr.Deref(m.Spec.IntervalSeconds, v1.DefaultIntervalSeconds))
		slots := m.Status.AccountedTime.Unix()/interval - m.CreationTimestamp.Unix()/interval
		if ran+m.Status.MissedTotal != slots {
			return fmt.Errorf("%d slots ran and %d are counted as missed, of %d", ran, m.Status.MissedTotal, slots)
		}
		t.Logf("%s: %d slots ran, %d missed, of %d", name, ran, m.Status.MissedTotal, slots)
		return nil
	})
}
