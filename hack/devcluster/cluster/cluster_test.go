// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

// testTimeout is the patience of each test that starts a cluster, on a slow and busy machine.
const testTimeout = 5 * time.Minute

func binary(t *testing.T) string {
	t.Helper()
	path, err := FindBinary()
	if err != nil {
		t.Skipf("SKIPPED, nothing of a real control plane was tested: %v", err)
	}
	return path
}

// testContext runs the test beside others, since clusters wait most of the time. It skips the test where there is no devcluster.
func testContext(t *testing.T) context.Context {
	t.Helper()
	t.Parallel()
	return aloneContext(t)
}

// aloneContext is testContext for a test that runs while no other does.
func aloneContext(t *testing.T) context.Context {
	t.Helper()
	binary(t)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// start starts a cluster that the end of the test stops.
func start(t *testing.T, ctx context.Context, config Config) *Cluster {
	t.Helper()
	config.Binary = binary(t)
	c, err := Start(ctx, config)
	must.Succeed(t, err)
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func componentOf(t *testing.T, ctx context.Context, c *Cluster, name string) Component {
	t.Helper()
	components, err := c.Status(ctx)
	must.Succeed(t, err)
	for _, component := range components {
		if component.Name == name {
			return component
		}
	}
	t.Fatalf("no component %s in %+v", name, components)
	return Component{}
}

// processes returns the process ids of the supervisor and of every component.
func processes(t *testing.T, ctx context.Context, c *Cluster) []int {
	t.Helper()
	record, err := c.dir.Load()
	must.Succeed(t, err)
	pids := []int{record.Supervisor}
	components, err := c.Status(ctx)
	must.Succeed(t, err)
	for _, component := range components {
		if component.PID != 0 {
			pids = append(pids, component.PID)
		}
	}
	return pids
}

func checkGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if syscall.Kill(pid, 0) != nil {
			continue
		}
		// One whose parent was killed is a zombie until init has reaped it.
		if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); runtime.GOOS == "linux" && len(cmdline) == 0 {
			t.Logf("process %d is a zombie: %v", pid, err)
			continue
		}
		t.Errorf("process %d is alive", pid)
	}
}

func checkNoDirectory(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode()&os.ModeSymlink != 0 || strings.HasPrefix(path, filepath.Join(dir, "etcd")) {
			return err
		}
		want := os.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func waitEnded(t *testing.T, ctx context.Context, dir string) {
	t.Helper()
	liveness, err := state.Dir(dir).Liveness()
	must.Succeed(t, err)
	defer liveness.Close()
	must.Succeed(t, liveness.Wait(ctx))
}

func TestStopRemovesAll(t *testing.T) {
	ctx := testContext(t)
	// Sockets have short paths, and files are named in flags and configurations.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 8), strings.Repeat("x", 200), "with space and 'quote'")
	c := start(t, ctx, Config{Dir: dir})
	pids := processes(t, ctx, c)
	if len(pids) != 6 {
		t.Fatalf("%d processes, want the supervisor and five components: %v", len(pids), pids)
	}
	checkModes(t, dir)
	must.Succeed(t, c.Stop())
	checkGone(t, pids)
	checkNoDirectory(t, dir)
	if err := c.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestKillAndRestart(t *testing.T) {
	ctx := testContext(t)
	c := start(t, ctx, Config{Node: NodeNone})
	for _, component := range []string{APIServer, Etcd} {
		before := componentOf(t, ctx, c, component)
		must.Succeed(t, c.Kill(ctx, component))
		if dead := componentOf(t, ctx, c, component); dead.Ready || dead.PID != 0 || dead.Condition != "killed" {
			t.Errorf("after the kill: %+v", dead)
		}
		if err := c.Kill(ctx, component); err == nil || err.Error() != component+" is not running" {
			t.Errorf("second kill: %v", err)
		}
		must.Succeed(t, c.Restart(ctx, component))
		after := componentOf(t, ctx, c, component)
		if after.Port != before.Port || after.PID == before.PID || !after.Ready {
			t.Errorf("before %+v, after %+v", before, after)
		}
	}
}

func TestNothingOutlivesAKilledSupervisor(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	c := start(t, ctx, Config{Dir: dir})
	pids := processes(t, ctx, c)
	must.Succeed(t, c.owned.cmd.Process.Kill())
	waitEnded(t, ctx, dir)
	_ = c.owned.wait() // A process keeps its id until its parent has waited for it.
	checkGone(t, pids)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is dead") {
		t.Errorf("open: %v", err)
	}
	must.Succeed(t, start(t, ctx, Config{Dir: dir, Node: NodeNone}).Stop())
	checkNoDirectory(t, dir)
}

// The first cluster ends when its directory is removed. It must not remove a directory that a second one has created at the same path.
func TestARecreatedDirectoryIsKept(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	first := start(t, ctx, Config{Dir: dir, Node: NodeNone})
	pids := processes(t, ctx, first)
	liveness, err := state.Dir(dir).Liveness()
	must.Succeed(t, err)
	defer liveness.Close()
	must.Succeed(t, os.RemoveAll(dir))
	second := start(t, ctx, Config{Dir: dir, Node: NodeNone})
	must.Succeed(t, liveness.Wait(ctx))
	stop(t, first)
	checkGone(t, pids)
	if component := componentOf(t, ctx, second, APIServer); !component.Ready {
		t.Errorf("the second cluster: %+v", component)
	}
}

func TestStartRefuses(t *testing.T) {
	ctx := testContext(t)
	c := start(t, ctx, Config{Node: NodeNone})
	port := componentOf(t, ctx, c, APIServer).Port
	writable, others := t.TempDir(), t.TempDir()
	must.Succeed(t, os.Chmod(writable, 0o777))
	must.Succeed(t, os.WriteFile(filepath.Join(others, "kubeconfig"), []byte("mine"), 0o600))
	for want, config := range map[string]Config{
		"in use by a running cluster":                                      {Dir: c.Dir()},
		"no other user may write to":                                       {Dir: writable},
		"already holds kubeconfig":                                         {Dir: others},
		fmt.Sprintf("port %d, asked for with --api-port, is in use", port): {Dir: filepath.Join(t.TempDir(), "c"), APIPort: port},
	} {
		config.Binary = binary(t)
		if _, err := Start(ctx, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := c.Status(ctx); err != nil {
		t.Errorf("status of the cluster that ran before: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(others, "kubeconfig"))
	if entries, _ := os.ReadDir(others); err != nil || string(data) != "mine" || len(entries) != 1 {
		t.Errorf("kubeconfig: %q, %v; beside it: %v", data, err, entries)
	}
}

func TestAFailedStartReturnsTheCauseAndKeepsItsLogs(t *testing.T) {
	ctx := testContext(t)
	for want, config := range map[string]Config{
		"unknown flag: --no-such-flag": {ExtraArgs: map[string][]string{APIServer: {"--no-such-flag"}}},
		"not ready after 1ms":          {Timeout: time.Millisecond},
	} {
		config.Binary, config.Node, config.Dir = binary(t), NodeNone, filepath.Join(t.TempDir(), "c")
		if _, err := Start(ctx, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		waitEnded(t, ctx, config.Dir)
		if _, err := os.Stat(state.Dir(config.Dir).Log(APIServer)); err != nil && config.Timeout == 0 {
			t.Errorf("log of the component: %v", err)
		}
		must.Succeed(t, Remove(config.Dir))
	}
}

func TestAnInterruptedStartRemovesAll(t *testing.T) {
	interruptAt(t, testContext(t), NodeSimulated, "", Etcd, APIServer)
}

// interruptAt interrupts starts of clusters: at once, or as soon as a component is ready.
func interruptAt(t *testing.T, ctx context.Context, node string, moments ...string) {
	t.Helper()
	for _, moment := range moments {
		dir := filepath.Join(t.TempDir(), "c")
		starting, cancel := context.WithCancel(ctx)
		if moment == "" {
			cancel()
		}
		c, err := Start(starting, Config{Node: node, Dir: dir, Binary: binary(t), Progress: func(line string) {
			if moment != "" && strings.HasPrefix(line, moment+" ") {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at %q: %v", moment, err)
		}
		if c != nil {
			stop(t, c)
		}
		checkNoDirectory(t, dir)
	}
}

// These variables make the test binary a parent: see TestMain. parentEnv has the directory of its cluster, and nodeEnv its kind of node.
const (
	parentEnv = "DEVCLUSTER_TEST_PARENT_DIR"
	nodeEnv   = "DEVCLUSTER_TEST_PARENT_NODE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		runParent(dir)
		return
	}
	os.Exit(m.Run())
}

// runParent starts a cluster, prints "ready" to stdout, and then waits to be killed.
func runParent(dir string) {
	if _, err := Start(context.Background(), Config{Dir: dir, Node: os.Getenv(nodeEnv)}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour) // The runtime would take select {} for a deadlock as soon as no connection is open.
}

func TestNothingOutlivesAKilledParent(t *testing.T) { killParent(t, testContext(t), NodeSimulated) }

// killParent starts a cluster in a child process, and kills that process. It checks that the processes of the cluster end, and that its
// directory is removed.
func killParent(t *testing.T, ctx context.Context, node string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "c")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentEnv+"="+dir, nodeEnv+"="+node, BinaryEnv+"="+binary(t))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		t.Errorf("the parent printed %q, error %v; want ready", line, err)
	}
	c, openErr := Open(dir)
	liveness, livenessErr := state.Dir(dir).Liveness()
	var pids []int
	if openErr == nil {
		pids = processes(t, ctx, c)
	}
	if err := errors.Join(openErr, livenessErr, cmd.Process.Kill()); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if t.Failed() {
		return
	}
	defer liveness.Close()
	if err := liveness.Wait(ctx); err != nil {
		t.Error(err)
	}
	checkGone(t, pids)
	checkNoDirectory(t, dir)
}
