// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

// machine is the state of the machine that a real node could change.
type machine map[string]string

// volatile are kernel settings that change by themselves.
var volatile = regexp.MustCompile(
	`^/proc/sys/(kernel/(random/|ns_last_pid|pty/|sched_domain|perf_|tainted)|net/netfilter/nf_conntrack_count)`,
)

// look returns the present mounts, interfaces, routes, cgroups and kernel settings, and the entries of the directories that a node writes
// to.
func look(t *testing.T) machine {
	t.Helper()
	m := machine{}
	for _, file := range []string{"/proc/self/mountinfo", "/proc/net/route"} {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		for line := range strings.Lines(string(data)) {
			m[file+": "+strings.TrimSpace(line)] = ""
		}
	}
	if name, err := os.Hostname(); err == nil {
		m["hostname"] = name
	}
	interfaces, err := net.Interfaces()
	must.Succeed(t, err)
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		must.Succeed(t, err)
		m["interface "+i.Name] = fmt.Sprint(i.Flags, addresses)
	}
	m.walk(t, "/sys/fs/cgroup", func(path string, entry fs.DirEntry) {
		if entry.IsDir() {
			m["cgroup "+path] = ""
		}
	})
	var cgroups unix.Statfs_t // With v1, a tmpfs. Another mount can hide entries of it.
	must.Succeed(t, unix.Statfs("/sys/fs/cgroup", &cgroups))
	if cgroups.Type == unix.TMPFS_MAGIC {
		m["entries of /sys/fs/cgroup"] = fmt.Sprint(cgroups.Files - cgroups.Ffree)
	}
	for _, dir := range []string{"/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/net"} {
		m.walk(t, dir, func(path string, entry fs.DirEntry) {
			if data, err := os.ReadFile(path); err == nil && entry.Type().IsRegular() && !volatile.MatchString(path) {
				m[path] = string(data)
			}
		})
	}
	for _, dir := range []string{"/", "/dev/shm", "/run", "/var/lib", "/var/log", "/etc", "/opt", "/usr/lib", "/usr/libexec"} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, entry := range entries {
			m["entry "+filepath.Join(dir, entry.Name())] = entry.Type().String()
		}
	}
	return m
}

func (m machine) walk(t *testing.T, dir string, visit func(string, fs.DirEntry)) {
	t.Helper()
	must.Succeed(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil { // An entry that was just removed does not count.
			visit(path, entry)
		}
		return nil
	}))
}

// differences lists the differences of a later look. It leaves out the cgroups of clusters other than boxes, and of other programs, which
// may change meanwhile. Without boxes, no cluster may run.
func (m machine) differences(later machine, boxes ...*state.Sandbox) []string {
	var all []string
	for key := range maps.Keys(m) {
		if now, there := later[key]; !there {
			if !strings.HasPrefix(key, "cgroup ") { // No node removes a cgroup: another process has ended.
				all = append(all, "gone: "+key)
			}
		} else if now != m[key] {
			all = append(all, fmt.Sprintf("changed: %s: %q, and it was %q", key, now, m[key]))
		}
	}
	for key := range maps.Keys(later) {
		if _, there := m[key]; !there && !occupied(key) && !m.isOfAnother(key) && (len(boxes) == 0 || !isOfOtherCluster(key, boxes)) {
			all = append(all, "new: "+key)
		}
	}
	slices.Sort(all)
	return all
}

// isOfOtherCluster returns whether key names a cgroup of a cluster that is none of boxes.
func isOfOtherCluster(key string, boxes []*state.Sandbox) bool {
	return strings.HasPrefix(key, "cgroup ") && strings.Contains(key, "/devcluster-") &&
		!slices.ContainsFunc(boxes, func(b *state.Sandbox) bool { return strings.Contains(key, "/"+b.Cgroup) })
}

// occupied returns whether key names a cgroup with processes. They are not a node's: the test finds those by the node's network.
func occupied(key string) bool {
	path, ok := strings.CutPrefix(key, "cgroup ")
	if !ok {
		return false
	}
	pids, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	return err == nil && len(pids) > 0
}

// isOfAnother returns whether key names a cgroup below one that another program made before. A node makes its cgroup at the root of a
// hierarchy, and others below that.
func (m machine) isOfAnother(key string) bool {
	path, ok := strings.CutPrefix(key, "cgroup /sys/fs/cgroup/")
	if !ok || strings.Count(path, "/") < 2 || strings.Contains(path, "devcluster-") {
		return false
	}
	_, before := m[filepath.Dir(key)]
	return before
}

// inSandbox returns the process ids of all that are in the network of a sandbox, on the machine.
func inSandbox(t *testing.T, box *state.Sandbox) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/ns/net")
	must.Succeed(t, err)
	var pids []string
	for _, file := range files {
		pid := strings.Split(file, "/")[2]
		if target, err := os.Readlink(file); err != nil || target != fmt.Sprintf("net:[%d]", box.Network) {
			continue
		}
		// The network of another test can have the inode of one that is gone.
		if cgroups, err := os.ReadFile("/proc/" + pid + "/cgroup"); err == nil && strings.Contains(string(cgroups), box.Cgroup) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// checkAsBefore fails the test if a real node has left anything.
func checkAsBefore(t *testing.T, before machine, boxes ...*state.Sandbox) {
	t.Helper()
	for _, difference := range before.differences(look(t), boxes...) {
		t.Error("the machine is not as it was: " + difference)
	}
	for _, box := range boxes {
		if pids := inSandbox(t, box); len(pids) > 0 {
			t.Errorf("processes of the sandbox are alive: %v", pids)
		}
	}
}

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

// TestPodsHaveNothingOfTheMachine runs a Pod that has all of its node's that a Pod without privileges may have.
func TestPodsHaveNothingOfTheMachine(t *testing.T) {
	ctx := realContext(t)
	before := look(t)
	c := start(t, ctx, Config{Node: NodeReal})
	checkOnMachine(t, ctx, c)
	createPod(t, ctx, clientOf(t, c), corev1.PodSucceeded, corev1.PodSpec{
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
	})
	stop(t, c)
	checkAsBefore(t, before, c.sandbox)
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
			createPod(t, ctx, clientOf(t, c), corev1.PodRunning, sleeper())
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
			checkNoDirectory(t, c.Dir())
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
			createPod(t, ctx, clientOf(t, c), corev1.PodRunning, sleeper())
			record, err := c.dir.Load()
			must.Succeed(t, err)
			hang(t, record)
			stop(t, c)
			checkAsBefore(t, before, c.sandbox)
			checkNoDirectory(t, filepath.Dir(dir))
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
	pod := sleeper()
	pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(1000))}
	createPod(t, ctx, clientOf(t, c), corev1.PodRunning, pod)
	if out, err := c.Command(ctx, "kubectl", "exec", "pod", "--", "cat", "/etc/passwd").CombinedOutput(); err != nil {
		t.Errorf("%s: %v", out, err)
	}
}

// childOf returns the process id of a process's child that runs the same program. Shims of containers may be its children, too.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	must.Succeed(t, err)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must.Succeed(t, err)
	for _, file := range files {
		data, _ := os.ReadFile(file) // An error means that the thread has ended.
		for child := range strings.FieldsSeq(string(data)) {
			if exe, err := os.Readlink("/proc/" + child + "/exe"); err == nil && exe == program {
				id, err := strconv.Atoi(child)
				must.Succeed(t, err)
				return id
			}
		}
	}
	t.Fatalf("process %d has no child that runs %s", pid, program)
	return 0
}

func TestARealNodeThatIsInterruptedLeavesNothing(t *testing.T) {
	needRealNode(t)
	ctx := aloneContext(t)
	before := look(t)
	interruptAt(t, ctx, NodeReal, "", Containerd, APIServer, Kubelet, Provisioner)
	checkAsBefore(t, before)
}

// sleeper is a Pod that does nothing.
func sleeper() corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To(int64(0)),
		Containers:                    []corev1.Container{{Name: "c", Image: "busybox", Command: []string{"sleep", "1000"}}},
	}
}

// createPod creates the Pod "pod", and returns when it has the phase.
func createPod(t *testing.T, ctx context.Context, client kubernetes.Interface, phase corev1.PodPhase, spec corev1.PodSpec) {
	t.Helper()
	pods := client.CoreV1().Pods("default")
	waitFor(t, ctx, "the Pod to be created", func() (bool, error) {
		_, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: spec}, metav1.CreateOptions{})
		return err == nil, err
	})
	waitFor(t, ctx, "the Pod to be "+string(phase), func() (bool, error) {
		pod, err := pods.Get(ctx, "pod", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == phase, err
	})
}

func clientOf(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	must.Succeed(t, err)
	return client
}

func waitFor(t *testing.T, ctx context.Context, what string, done func() (bool, error)) {
	t.Helper()
	for {
		ok, err := done()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited for %s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
