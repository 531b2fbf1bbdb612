// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// TestControllers shows what needs the controllers of Kubernetes, on one cluster with a simulated node. Each case has its own namespace.
func TestControllers(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	w.operate(t, "--install-crds", "--controllers=application,mycronjob")
	t.Run("cases", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *world, string){
			"fields of a Deployment that other clients set are left alone":                testOthersFields,
			"the number of replicas never drops when the autoscaler takes over or leaves": testReplicasHandOver,
			"deleting objects deletes all of their children":                              testGarbage,
			"a Secret that is created replaces the Pods, with restartOn":                  testRestartOn,
			"an HTTPRoute follows its definition, is written once, and repaired":          testRoute,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w, w.namespace(t))
			})
		}
	})
}

func testOthersFields(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) { a.Spec.Env = []appv1.EnvVar{{Name: "OWN", Value: "1"}} })
	w.ready(t, ns, "a")
	labelled := appsv1ac.Deployment("a", ns).WithLabels(map[string]string{"team": "x"}).WithAnnotations(map[string]string{"note": "y"})
	deployments := w.kube.AppsV1().Deployments(ns)
	_, err := deployments.Apply(t.Context(), labelled, metav1.ApplyOptions{FieldManager: "kubectl"})
	w.must(t, err)
	_, err = deployments.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"spec":{"template":{`+
		`"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}},`+
		`"spec":{"containers":[{"name":"app","env":[{"name":"THEIRS","value":"2"}]},{"name":"sidecar","image":"s"}]}}}}`),
		metav1.PatchOptions{FieldManager: "kubectl-edit"})
	w.must(t, err)
	// The image changes, and the variable NEW replaces OWN. The variables, annotations and containers of other clients must stay.
	w.patchApp(t, ns, "a", `{"spec":{"image":"nginx:2","env":[{"name":"NEW","value":"3"}]}}`)
	w.ready(t, ns, "a")
	d := w.deployment(t, ns, "a")
	images, env := map[string]string{}, map[string]string{}
	for _, c := range d.Spec.Template.Spec.Containers {
		images[c.Name] = c.Image
		for _, e := range c.Env {
			env[e.Name] = e.Value
		}
	}
	if d.Labels["team"] != "x" || d.Annotations["note"] != "y" || d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != "now" ||
		!maps.Equal(images, map[string]string{"app": "nginx:2", "sidecar": "s"}) ||
		!maps.Equal(env, map[string]string{"THEIRS": "2", "NEW": "3"}) {
		t.Errorf("Deployment: labels %v, annotations %v, containers %+v", d.Labels, d.Annotations, d.Spec.Template.Spec.Containers)
	}
}

func testReplicasHandOver(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) { a.Spec.Replicas = ptr.To[int32](3) })
	w.ready(t, ns, "a")
	deployments := w.kube.AppsV1().Deployments(ns)
	watching, err := deployments.Watch(t.Context(), metav1.ListOptions{})
	w.must(t, err)
	defer watching.Stop()
	states := make(chan *appsv1.Deployment, 1000)
	go func() {
		defer close(states)
		for event := range watching.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				states <- d
			}
		}
	}()
	w.patchApp(t, ns, "a", `{"spec":{"autoscaling":{"minReplicas":2,"maxReplicas":9},"image":"nginx:2"}}`)
	w.ready(t, ns, "a")
	scale, err := deployments.GetScale(t.Context(), "a", metav1.GetOptions{})
	w.must(t, err)
	scale.Spec.Replicas = 5 // The autoscaler writes the same field.
	_, err = deployments.UpdateScale(t.Context(), "a", scale, metav1.UpdateOptions{FieldManager: "kube-controller-manager"})
	w.must(t, err)
	w.patchApp(t, ns, "a", `{"spec":{"image":"nginx:3"}}`)
	w.ready(t, ns, "a")
	if d := w.deployment(t, ns, "a"); *d.Spec.Replicas != 5 || d.Spec.Template.Spec.Containers[0].Image != "nginx:3" {
		t.Errorf("%d replicas of the image %s, want the autoscaler's 5 of nginx:3", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image)
	}
	w.patchApp(t, ns, "a", `{"spec":{"autoscaling":null}}`)
	w.ready(t, ns, "a")
	last := w.deployment(t, ns, "a")
	if *last.Spec.Replicas != 3 {
		t.Errorf("%d replicas without the autoscaler, want 3", *last.Spec.Replicas)
	}
	for d := range states {
		if *d.Spec.Replicas < 3 {
			t.Errorf("at version %s there were %d replicas, want 3 or more", d.ResourceVersion, *d.Spec.Replicas)
		}
		if d.ResourceVersion == last.ResourceVersion {
			return
		}
	}
	t.Error("the watch has ended before the last change")
}

// testRestartOn: the API server sends the metadata of a Secret alone, and the versions in it differ.
func testRestartOn(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) {
		a.Spec.RestartOn = []appv1.RestartSource{appv1.RestartOnSecrets}
		a.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Optional: ptr.To(true),
		}}}
	})
	w.ready(t, ns, "a")
	sum := func() string { return w.deployment(t, ns, "a").Spec.Template.Annotations[appv1.GroupName+"/sources"] }
	before := sum()
	w.mustKubectl(t, "create", "secret", "generic", "keys", "--namespace", ns)
	await(t, func(context.Context) error {
		if now := sum(); before == "" || now == before {
			return fmt.Errorf("the sum of the sources was %q and is %q", before, now)
		}
		return nil
	})
	w.ready(t, ns, "a")
}

// testRoute: the API server adds nothing to the lists of an HTTPRoute that the operator would take for a change.
func testRoute(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) { a.Spec.Gateway = &appv1.Gateway{Name: "public"} })
	w.mustKubectl(t, "wait", "app/a", "--namespace", ns, "--timeout="+patience.String(),
		`--for=jsonpath={.status.conditions[?(@.type=="Degraded")].reason}=HTTPRouteNotApplied`)
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	w.must(t, err)
	w.mustKubectl(t, "apply", "--server-side", "-f",
		filepath.Join(strings.TrimSpace(string(module)), "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"))
	w.ready(t, ns, "a")
	generation := func() string {
		return w.mustKubectl(t, "get", "httproute", "a", "--namespace", ns, "--output=jsonpath={.metadata.generation} {.spec.hostnames[0]}")
	}
	if got := generation(); got != "1 example.foo.com" {
		t.Errorf("the generation and the host of the HTTPRoute are %s", got)
	}
	w.mustKubectl(t, "patch", "httproute", "a", "--namespace", ns, "--type=merge", `--patch={"spec":{"hostnames":["other.example.com"]}}`)
	await(t, func(context.Context) error {
		if got := generation(); got != "3 example.foo.com" {
			return errors.New("the generation and the host of the HTTPRoute are " + got)
		}
		return nil
	})
}

// testGarbage deletes an Application with all of its children, and a MyCronJob.
func testGarbage(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) {
		a.Spec.Autoscaling, a.Spec.PDB = &appv1.Autoscaling{MaxReplicas: 3}, &appv1.DisruptionBudget{}
	})
	w.create(t, ns, "b", func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](1) })
	audit := w.audit(t, ns)
	w.ready(t, ns, "a")
	w.runs(t, audit, []string{"b"})
	for _, objects := range []string{"app/a", "mcj/b"} {
		w.mustKubectl(t, "delete", objects, "--namespace", ns)
	}
	await(t, func(context.Context) error {
		if left := w.mustKubectl(t, "get", "deployments,services,ingresses,hpa,pdb,jobs,pods", "--namespace", ns, "--output=name"); left != "" {
			return errors.New("these objects still exist: " + left)
		}
		return nil
	})
}

// application returns the Application of the seed.
func application(name string) *appv1.Application {
	return &appv1.Application{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appv1.ApplicationSpec{Image: "nginx"}}
}

func (w *world) createApp(t *testing.T, ns, name string, change ...func(*appv1.Application)) {
	t.Helper()
	app := application(name)
	for _, f := range change {
		f(app)
	}
	_, err := w.glassback.AppV1().Applications(ns).Create(t.Context(), app, metav1.CreateOptions{})
	w.must(t, err)
}

func (w *world) patchApp(t *testing.T, ns, name, patch string) {
	t.Helper()
	_, err := w.glassback.AppV1().Applications(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(t, err)
}

func (w *world) deployment(t *testing.T, ns, name string) *appsv1.Deployment {
	t.Helper()
	d, err := w.kube.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{})
	w.must(t, err)
	return d
}

// ready waits until the latest generation of an Application is rolled out.
func (w *world) ready(t *testing.T, ns, name string) {
	t.Helper()
	await(t, func(ctx context.Context) error {
		app, err := w.glassback.AppV1().Applications(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(app.Status.Conditions, glassback.ConditionReady)
		if c == nil || c.Reason != "RolledOut" || c.ObservedGeneration != app.Generation {
			return fmt.Errorf("condition Ready is %+v, want reason RolledOut", c)
		}
		return nil
	})
}

// TestFaults kills processes while MyCronJobs with each missedRunPolicy run. Each slot has at most one Job. Every slot has run, or is
// counted as missed.
func TestFaults(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	first := w.operate(t, "--install-crds")
	ns := w.namespace(t)
	audit := w.audit(t, ns)
	var names []string
	for i, policy := range []v1.MissedRunPolicy{v1.LatestMissed, v1.SkipMissed, v1.AllMissed} {
		names = append(names, w.create(t, ns, fmt.Sprintf("sample%d", i), func(m *v1.MyCronJob) {
			m.Spec.MissedRunPolicy = policy
			// Without a history, the operator deletes a finished Job at once, unless a guard keeps it.
			m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0)
		}).Name)
	}
	check := func(what string) {
		t.Helper()
		t.Log(what)
		w.runs(t, audit, names)
		for _, name := range names {
			audit.check(t, name)
		}
	}
	check("before any fault")

	first.kill()
	time.Sleep(12 * time.Second) // In this outage, two slots or more are missed.
	second := w.operate(t)
	check("after an outage of the operator")

	w.must(t, w.Kill(t.Context(), cluster.APIServer))
	time.Sleep(7 * time.Second) // In this outage, a slot or more is due.
	w.must(t, w.Restart(t.Context(), cluster.APIServer))
	check("after an outage of the API server")

	third := w.operate(t)
	check("with two operators at the same time")
	for range 4 { // The test kills each operator in turn while it works.
		second.kill()
		second = w.operate(t)
		third.kill()
		third = w.operate(t)
	}
	check("after two operators were killed in turn")
	if code := second.stop(); code != 0 {
		t.Errorf("SIGTERM: exit code %d, want 0", code)
	}
	check("after one operator was stopped")
}

const (
	leaseDuration = 15 * time.Second // --leader-elect-lease-duration's default
	leading       = "Successfully acquired lease"
)

// TestLeaderElection ends one leader after the other in different ways. No slot of a MyCronJob runs twice, and none is lost.
func TestLeaderElection(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	w.operate(t, "--install-crds").stop()
	w.createNamespace(t, operatorNamespace)
	ns := w.namespace(t)
	audit := w.audit(t, ns)
	m := w.create(t, ns, "sample", func(m *v1.MyCronJob) {
		m.Spec.MissedRunPolicy = v1.AllMissed
		m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0)
	})
	candidate := func(says string) *operator {
		o := launch(t, "--kubeconfig", w.Kubeconfig(), "-v=2", "--leader-elect", "--leader-elect-resource-namespace="+operatorNamespace)
		o.waitFor(says)
		return o
	}
	leads := func(o *operator) bool { return strings.Contains(o.log.String(), leading) }
	leader := candidate(leading)
	standby := []*operator{candidate("Standing by"), candidate("Standing by")}
	for _, step := range []struct {
		what string
		end  func()
	}{
		{"the leader gets SIGTERM", func() {
			if code := leader.stop(); code != 0 {
				t.Errorf("SIGTERM: exit code %d, want 0", code)
			}
		}},
		{"the leader is killed", func() { leader.kill() }},
		{"the leader sleeps for longer than its lease", func() { w.must(t, leader.cmd.Process.Signal(syscall.SIGSTOP)) }},
	} {
		if slices.ContainsFunc(standby, leads) {
			t.Fatalf("before %s: two operators are leaders at once", step.what)
		}
		step.end()
		await(t, func(context.Context) error {
			if !slices.ContainsFunc(standby, leads) {
				return fmt.Errorf("%s: no other operator leads", step.what)
			}
			return nil
		})
		last, next := leader, slices.IndexFunc(standby, leads)
		leader = standby[next]
		standby[next] = candidate("Standing by")
		if last.running() { // It does not know at first that it has lost the Lease.
			w.must(t, last.cmd.Process.Signal(syscall.SIGCONT))
			if code := last.wait(patience); code != 1 || !strings.Contains(last.log.String(), "lost the Lease: ") {
				t.Errorf("a leader that lost its Lease ended with the code %d:\n%s", code, tail(last.log.String(), 5))
			}
		}
		w.runs(t, audit, []string{m.Name})
		audit.check(t, m.Name)
	}
}

// TestSecondSignalEndsAtOnce stops the operator while a sync hangs. The operator waits for the sync until it gets a second signal.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	o := w.operate(t, "--install-crds")
	silent, err := net.Listen("tcp", "127.0.0.1:0") // The API server asks it about each Job, and waits for the answer.
	w.must(t, err)
	defer silent.Close()
	w.must(t, silent.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	registrations := w.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = registrations.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "silent"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "silent.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionv1.SideEffectClassNone),
			TimeoutSeconds: ptr.To[int32](30), ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://" + silent.Addr().String())},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
			}},
		}},
	}, metav1.CreateOptions{})
	w.must(t, err)
	w.create(t, metav1.NamespaceDefault, "sample", func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](1) })
	asked, err := silent.Accept() // Now a sync hangs.
	w.must(t, err)
	defer asked.Close()
	w.must(t, o.cmd.Process.Signal(syscall.SIGTERM))
	o.waitFor("Stopping")
	w.must(t, o.cmd.Process.Signal(syscall.SIGTERM))
	if code := o.wait(patience); code != 1 {
		t.Errorf("exit code %d after the second signal, want 1", code)
	}
}

// sample is the seed's MyCronJob.
func sample(name string) *v1.MyCronJob {
	return &v1.MyCronJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.MyCronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure,
			Containers: []corev1.Container{{
				Name: "hello", Image: "busybox", Args: []string{"/bin/sh", "-c", "date; echo Hello from the Kubernetes cluster"},
			}},
		}}}}},
	}
}

// withoutPods makes a MyCronJob's Jobs succeed at once, without a Pod, and lets none of them remain. A Pod on the real node costs more than
// a second of CPU.
func withoutPods(m *v1.MyCronJob) {
	m.Spec.JobTemplate.Spec.Completions, m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0), ptr.To[int32](0)
}

func (w *world) create(t *testing.T, ns, name string, change ...func(*v1.MyCronJob)) *v1.MyCronJob {
	t.Helper()
	m := sample(name)
	for _, f := range change {
		f(m)
	}
	m, err := w.glassback.BatchV1().MyCronJobs(ns).Create(t.Context(), m, metav1.CreateOptions{})
	w.must(t, err)
	return m
}

func (w *world) get(ctx context.Context, ns, name string) (*v1.MyCronJob, error) {
	return w.glassback.BatchV1().MyCronJobs(ns).Get(ctx, name, metav1.GetOptions{})
}

func (w *world) patch(t *testing.T, ns, name, patch string) {
	t.Helper()
	_, err := w.glassback.BatchV1().MyCronJobs(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(t, err)
}

// runs waits until each of the MyCronJobs has created two more Jobs.
func (w *world) runs(t *testing.T, audit *audit, names []string) {
	t.Helper()
	before := map[string]int{}
	for _, name := range names {
		before[name] = len(audit.of(name))
	}
	await(t, func(context.Context) error {
		for _, name := range names {
			if len(audit.of(name)) < before[name]+2 {
				return errors.New(name + " has not created two more Jobs")
			}
		}
		return nil
	})
}

func slotOf(t testing.TB, job string) int64 {
	t.Helper()
	second, err := strconv.ParseInt(job[strings.LastIndex(job, "-")+1:], 10, 64)
	if err != nil {
		t.Fatalf("the name of Job %s does not end with a slot", job)
	}
	return second
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

// check checks the slots of a MyCronJob with an interval. No slot may run twice. Every slot since the creation has run, or is counted as
// missed.
func (a *audit) check(t testing.TB, name string) {
	t.Helper()
	// The status shows a new Job only after a moment: check until both agree.
	await(t, func(ctx context.Context) error {
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
