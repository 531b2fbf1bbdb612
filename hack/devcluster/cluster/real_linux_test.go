// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/images"
	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

// cyclesEnv is how often the cycle test starts a node, instead of twice.
const cyclesEnv = "DEVCLUSTER_TEST_CYCLES"

// realContext is testContext. It also skips the test where no real node can run.
func realContext(t *testing.T) context.Context {
	t.Helper()
	needRealNode(t)
	return testContext(t)
}

func needRealNode(t *testing.T) {
	t.Helper()
	if err := RealNodeMissing(); err != nil {
		t.Skipf("SKIPPED, nothing of a real node was tested: %v", err)
	}
}

// smoke runs a Job on a cluster and checks its output.
func smoke(t *testing.T, ctx context.Context, c *Cluster) {
	t.Helper()
	client := clientOf(t, c)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "smoke"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "c", Image: "busybox", Command: []string{"echo", "it", "runs"}}},
		}}},
	}
	if _, err := client.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Error(err)
		return
	}
	waitFor(t, ctx, "the Job to complete", func() (bool, error) {
		job, err := client.BatchV1().Jobs("default").Get(ctx, "smoke", metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 1, err
	})
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "job-name=smoke"})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("pods of the Job: %v, %v", pods, err)
		return
	}
	log, err := client.CoreV1().Pods("default").GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil || string(log) != "it runs\n" {
		t.Errorf("log of the Job: %q, %v", log, err)
	}
}

func TestARealNodeLeavesNothing(t *testing.T) {
	ctx := realContext(t)
	cycles := 2
	if value := os.Getenv(cyclesEnv); value != "" {
		var err error
		if cycles, err = strconv.Atoi(value); err != nil {
			t.Fatal(err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(cycles)*time.Minute)
		defer cancel()
	}
	before := look(t)
	for range cycles {
		started := time.Now()
		c := start(t, ctx, Config{Node: NodeReal})
		ready := time.Since(started)
		smoke(t, ctx, c)
		checkOnMachine(t, ctx, c)
		smoked := time.Since(started)
		stop(t, c)
		t.Logf("Ready after %.1fs, Job's log after %.1fs, gone %.1fs later", ready.Seconds(), smoked.Seconds(),
			(time.Since(started) - smoked).Seconds())
		checkAsBefore(t, before, c.sandbox)
	}
}

// checkOnMachine checks that the processes that the status names are the components, as seen from outside of the sandbox, and that its
// containers get more CPU time than a single process outside.
func checkOnMachine(t *testing.T, ctx context.Context, c *Cluster) {
	t.Helper()
	shares, err1 := os.ReadFile("/sys/fs/cgroup/cpu/" + c.sandbox.Cgroup + "/cpu.shares") // cgroup v1; the default is 1024
	weight, err2 := os.ReadFile("/sys/fs/cgroup/" + c.sandbox.Cgroup + "/cpu.weight")     // v2; the default is 100
	if string(shares) != "10240\n" && string(weight) != "1000\n" {
		t.Errorf("the containers have %q shares of the CPU (%v), or the weight %q (%v)", shares, err1, weight, err2)
	}
	components, err := c.Status(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, component := range components {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", component.PID))
		if name, _, _ := strings.Cut(string(cmdline), "\x00"); name != component.Name {
			t.Errorf("process %d is %q, want %s: %v", component.PID, name, component.Name, err)
		}
		if !component.Ready || component.RSS == 0 {
			t.Errorf("%+v", component)
		}
	}
}

func TestTwoRealNodesSideBySide(t *testing.T) {
	ctx := realContext(t)
	before := look(t)
	var clusters [2]*Cluster
	var running sync.WaitGroup
	for i := range clusters {
		running.Go(func() {
			c, err := Start(ctx, Config{Node: NodeReal, Binary: binary(t)})
			if err != nil {
				t.Error(err)
				return
			}
			clusters[i] = c
			smoke(t, ctx, c)
		})
	}
	running.Wait()
	var boxes []*state.Sandbox
	for _, c := range clusters {
		if c != nil {
			boxes = append(boxes, c.sandbox)
			stop(t, c)
		}
	}
	checkAsBefore(t, before, boxes...)
}

// TestARealNodeLeavesNothingWhoeverIsKilled kills each process that could clean up.
func TestARealNodeLeavesNothingWhoeverIsKilled(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, outside, init, inside int) []int{
		"the supervisor outside":           func(_ *testing.T, outside, _, _ int) []int { return []int{outside} },
		"process 1 of the sandbox":         func(_ *testing.T, _, init, _ int) []int { return []int{init} },
		"the supervisor inside":            func(_ *testing.T, _, _, inside int) []int { return []int{inside} },
		"both who could remove the cgroup": func(_ *testing.T, outside, init, _ int) []int { return []int{outside, init} },
	}
	for name, victims := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := realContext(t)
			before := look(t)
			c := start(t, ctx, Config{Node: NodeReal})
			smoke(t, ctx, c)
			record, err := c.dir.Load()
			must.Succeed(t, err)
			liveness, err := c.dir.Liveness()
			must.Succeed(t, err)
			defer liveness.Close()
			kill := victims(t, record.Supervisor, record.Sandbox.Init, childOf(t, record.Sandbox.Init))
			for _, pid := range kill {
				must.Succeed(t, syscall.Kill(pid, syscall.SIGKILL))
			}
			must.Succeed(t, liveness.Wait(ctx))
			if len(kill) == 1 {
				checkAsBefore(t, before, c.sandbox)
			}
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
			checkAsBefore(t, before, c.sandbox)
			if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("directory is still there: %v", err)
			}
		})
	}
}

func TestNothingOfARealNodeOutlivesAKilledParent(t *testing.T) {
	needRealNode(t)
	ctx := aloneContext(t)
	before := look(t)
	killParent(t, ctx, NodeReal)
	checkAsBefore(t, before)
}

// TestStopEndsWhatHangs has processes that do not answer, and some that do not even die.
func TestStopEndsWhatHangs(t *testing.T) {
	t.Parallel()
	stopped := func(pid func(*testing.T, *state.Record) int) func(*testing.T, *state.Record) {
		return func(t *testing.T, record *state.Record) {
			must.Succeed(t, syscall.Kill(pid(t, record), syscall.SIGSTOP))
		}
	}
	tests := map[string]func(*testing.T, *state.Record){
		"the supervisor outside":   stopped(func(_ *testing.T, r *state.Record) int { return r.Supervisor }),
		"process 1 of the sandbox": stopped(func(_ *testing.T, r *state.Record) int { return r.Sandbox.Init }),
		"the supervisor inside":    stopped(func(t *testing.T, r *state.Record) int { return childOf(t, r.Sandbox.Init) }),
		"containers": func(t *testing.T, r *state.Record) {
			if _, err := os.Stat("/sys/fs/cgroup/freezer"); err != nil {
				t.Skipf("SKIPPED: this machine has no freezer of cgroup v1: %v", err)
			}
			freezers, err := filepath.Glob("/sys/fs/cgroup/freezer/" + r.Sandbox.Cgroup + "/kubepods/*/*/*/freezer.state")
			must.Succeed(t, err)
			if len(freezers) == 0 {
				t.Fatal("no container of the Pod has a cgroup in the hierarchy of the freezer")
			}
			for _, file := range freezers {
				must.Succeed(t, os.WriteFile(file, []byte("FROZEN"), 0))
			}
		},
	}
	for name, hang := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := realContext(t)
			before := look(t)
			dir := filepath.Join(t.TempDir(), "missing", "too")
			c, err := StartDetached(ctx, Config{Node: NodeReal, Dir: dir, Binary: binary(t)})
			must.Succeed(t, err)
			t.Cleanup(func() { stop(t, c) })
			createPod(t, ctx, clientOf(t, c), "sleeper", "busybox")
			record, err := c.dir.Load()
			must.Succeed(t, err)
			hang(t, record)
			stop(t, c)
			checkAsBefore(t, before, c.sandbox)
			if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what was made for the directory is still there: %v", err)
			}
		})
	}
}

// TestContainersDoNotDependOnTheUmask runs a container with a user other than root, on a node that was started with a strict umask.
func TestContainersDoNotDependOnTheUmask(t *testing.T) {
	needRealNode(t)
	ctx := aloneContext(t)
	old := syscall.Umask(0o077)
	c, err := Start(ctx, Config{Node: NodeReal, Binary: binary(t)})
	syscall.Umask(old)
	must.Succeed(t, err)
	t.Cleanup(func() { stop(t, c) })
	createPod(t, ctx, clientOf(t, c), "user", "busybox", func(pod *corev1.PodSpec) {
		pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(1000))}
	})
	if out, err := c.Command(ctx, "kubectl", "exec", "user", "--", "cat", "/etc/passwd").CombinedOutput(); err != nil {
		t.Errorf("%s: %v", out, err)
	}
}

// TestPodsHaveNothingOfTheMachine runs a Pod that has all of its node's that a Pod without privileges may have.
func TestPodsHaveNothingOfTheMachine(t *testing.T) {
	ctx := realContext(t)
	before := look(t)
	c := start(t, ctx, Config{Node: NodeReal})
	client := clientOf(t, c)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "host"},
		Spec: corev1.PodSpec{
			HostIPC: true, HostPID: true, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "c", Image: "busybox",
				Command: []string{"sh", "-c", "touch /dev/shm/leak; hostname leak; echo 1 >/settings/vm/swappiness; kill -9 1; ps | wc -l"},
				// All that a process may be allowed to; and yet /proc is not that which a privileged one has.
				SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"ALL"}}},
				VolumeMounts:    []corev1.VolumeMount{{Name: "settings", MountPath: "/settings"}},
			}},
			Volumes: []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/proc/sys"},
			}}},
		},
	}
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, ctx, "the Pod to end", func() (bool, error) {
		pod, err := client.CoreV1().Pods("default").Get(ctx, "host", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodSucceeded, err
	})
	stop(t, c)
	checkAsBefore(t, before, c.sandbox)
}

// childOf returns the process id of a process's first child.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must.Succeed(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if fields := strings.Fields(string(data)); len(fields) > 0 {
			child, err := strconv.Atoi(fields[0])
			must.Succeed(t, err)
			return child
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

func TestARealNodeThatIsInterruptedLeavesNothing(t *testing.T) {
	needRealNode(t)
	ctx := aloneContext(t)
	before := look(t)
	// Whatever it is doing then: at once, while the sandbox is made, and as soon as each component is ready.
	moments := []string{"", "50ms", "300ms", Containerd, APIServer, Kubelet, Provisioner}
	for _, moment := range moments {
		dir := filepath.Join(t.TempDir(), "c")
		starting, cancel := context.WithCancel(ctx)
		config := Config{Node: NodeReal, Dir: dir, Binary: binary(t), Progress: func(line string) {
			if moment != "" && strings.HasPrefix(line, moment+" ") {
				cancel()
			}
		}}
		if after, err := time.ParseDuration(cmp.Or(moment, "0s")); err == nil {
			time.AfterFunc(after, cancel)
		}
		c, err := Start(starting, config)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at %q: %v", moment, err)
		}
		if c != nil {
			stop(t, c)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("interrupted at %q: directory is still there: %v", moment, err)
		}
		checkAsBefore(t, before)
	}
}

func TestLogsOfARealNodeThatDidNotStartStay(t *testing.T) {
	needRealNode(t)
	ctx := aloneContext(t)
	before := look(t)
	dir := filepath.Join(t.TempDir(), "c")
	long := "--such=" + strings.Repeat("x", 100_000) // more than a pipe holds
	_, err := Start(ctx, Config{Node: NodeReal, Dir: dir, Binary: binary(t), ExtraArgs: map[string][]string{Kubelet: {long}}})
	if err == nil || !strings.Contains(err.Error(), "kubelet died") || !strings.Contains(err.Error(), "unknown flag: --such") {
		t.Errorf("a kubelet with a flag that it does not have: %v", err)
	}
	if log, err := os.ReadFile(state.Dir(dir).Log(Kubelet)); err != nil || !strings.Contains(string(log), "--such") {
		t.Errorf("its log: %.200s, %v", log, err)
	}
	checkAsBefore(t, before)
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
}

func TestContainersSurviveTheirNodesComponents(t *testing.T) {
	ctx := realContext(t)
	c := start(t, ctx, Config{Node: NodeReal})
	client := clientOf(t, c)
	createPod(t, ctx, client, "sleeper", "busybox")
	for _, name := range []string{Containerd, Kubelet, KubeProxy, CoreDNS, Provisioner, Registry, APIServer} {
		if err := c.Kill(ctx, name); err != nil {
			t.Errorf("kill %s: %v", name, err)
		}
		if got := componentOf(t, ctx, c, name); got.Condition != "killed" || got.Ready {
			t.Errorf("after its end: %+v", got)
		}
		if err := c.Restart(ctx, name); err != nil {
			t.Errorf("restart %s: %v", name, err)
		}
	}
	createPod(t, ctx, client, "later", "busybox")
	pod, err := client.CoreV1().Pods("default").Get(ctx, "sleeper", metav1.GetOptions{})
	must.Succeed(t, err)
	if status := pod.Status.ContainerStatuses[0]; status.RestartCount != 0 || !status.Ready {
		t.Errorf("the container did not live through it: %+v", status)
	}
	out, err := c.Command(ctx, "kubectl", "exec", "sleeper", "--", "nslookup", "kubernetes.default.svc.cluster.local").CombinedOutput()
	if err != nil || !strings.Contains(string(out), serviceIP) {
		t.Errorf("name of a Service, from a container: %s, %v", out, err)
	}
}

// serviceIP is the address of the Service "kubernetes".
const serviceIP = "10.96.0.1"

// createPod creates a Pod that does nothing, and returns when it does.
func createPod(t *testing.T, ctx context.Context, client kubernetes.Interface, name, image string, change ...func(*corev1.PodSpec)) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers:                    []corev1.Container{{Name: "c", Image: image, Command: []string{"sleep", "1000"}}},
		},
	}
	for _, f := range change {
		f(&pod.Spec)
	}
	waitFor(t, ctx, "the Pod "+name+" to be created", func() (bool, error) {
		_, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err == nil, err
	})
	waitFor(t, ctx, "the Pod "+name+" to run", func() (bool, error) {
		pod, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, err
	})
}

func TestLoadReplacesAnImage(t *testing.T) {
	ctx := realContext(t)
	c := start(t, ctx, Config{Node: NodeReal})
	client := clientOf(t, c)
	base, err := Config{}.images()
	must.Succeed(t, err)
	const tool = "example.com/some/tool:1"
	var ids []string
	for i, from := range []string{"busybox", "redis"} {
		names, err := c.Load(ctx, archive(t, images.Store(base), from, tool))
		if err != nil || len(names) != 1 || names[0] != tool {
			t.Fatalf("loaded %v, %v", names, err)
		}
		pod := fmt.Sprintf("tool-%d", i)
		createPod(t, ctx, client, pod, tool)
		got, err := client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
		must.Succeed(t, err)
		ids = append(ids, got.Status.ContainerStatuses[0].ImageID)
	}
	if ids[0] == ids[1] {
		t.Errorf("both Pods run %s", ids[0])
	}
	simulated := start(t, ctx, Config{})
	if _, err := simulated.Load(ctx, "x.tar"); err == nil || !strings.Contains(err.Error(), "--node real") {
		t.Errorf("load into a simulated node: %v", err)
	}
}

// archive writes an image of a store to an archive, under another name, and returns its path.
func archive(t *testing.T, store images.Store, from, to string) string {
	t.Helper()
	image, err := store.Image(from)
	must.Succeed(t, err)
	tag, err := name.NewTag(to)
	must.Succeed(t, err)
	path := filepath.Join(t.TempDir(), "image.tar")
	must.Succeed(t, tarball.WriteToFile(path, tag, image))
	return path
}

func TestConnectionsIntoASandboxEndAsOutside(t *testing.T) {
	ctx := realContext(t)
	c := start(t, ctx, Config{Node: NodeReal})
	address := fmt.Sprintf("127.0.0.1:%d", componentOf(t, ctx, c, APIServer).Port)
	must.Succeed(t, c.Kill(ctx, APIServer))
	if err := converse(address); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection to a dead API server: %v", err)
	}
	must.Succeed(t, c.Restart(ctx, APIServer))
	if _, err := clientOf(t, c).CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// converse connects to address and reads until the other side ends the connection, for at most ten seconds. After a reset right after the
// accept, the dial or the first read may return the error.
func converse(address string) error {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	_, err = io.ReadAll(connection)
	return err
}
