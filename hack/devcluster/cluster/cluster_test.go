// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

func TestJobCompletesAndStopRemovesAll(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	c := start(t, ctx, Config{Dir: dir})
	pids := processes(t, ctx, c)
	if len(pids) != 6 {
		t.Fatalf("%d processes, want the supervisor and five components: %v", len(pids), pids)
	}
	client := clientOf(t, c)
	began := time.Now()
	createJob(t, ctx, client, "once")
	waitFor(t, ctx, "Job to complete", func() (bool, error) {
		job, err := client.BatchV1().Jobs("default").Get(ctx, "once", metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 1, err
	})
	t.Logf("Job complete after %s", time.Since(began))
	checkModes(t, dir)
	must.Succeed(t, c.Stop())
	checkGone(t, pids)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestTwoClustersSideBySide(t *testing.T) {
	ctx := testContext(t)
	var clusters [2]*Cluster
	var started sync.WaitGroup
	for i := range clusters {
		started.Go(func() {
			c, err := Start(ctx, Config{Binary: binary(t), Node: NodeNone, Dir: filepath.Join(t.TempDir(), "c")})
			if err != nil {
				t.Error(err)
				return
			}
			clusters[i] = c
		})
	}
	started.Wait()
	for i, c := range clusters {
		if c == nil {
			continue
		}
		defer stop(t, c)
		name := fmt.Sprintf("only-in-%d", i)
		createConfigMap(t, ctx, clientOf(t, c), name)
		list, err := clientOf(t, c).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		must.Succeed(t, err)
		if len(list.Items) != 1 || list.Items[0].Name != name {
			t.Errorf("cluster %d has %d ConfigMaps, want its own alone", i, len(list.Items))
		}
	}
	if t.Failed() {
		return
	}
	if a, b := clusters[0].RESTConfig().Host, clusters[1].RESTConfig().Host; a == b {
		t.Errorf("both API servers have the address %s", a)
	}
}

func TestKillAndRestartKeepDataAndPort(t *testing.T) {
	t.Parallel()
	for _, component := range []string{APIServer, Etcd} {
		t.Run(component, func(t *testing.T) {
			ctx := testContext(t)
			c := start(t, ctx, Config{Node: NodeNone})
			client := clientOf(t, c)
			createConfigMap(t, ctx, client, "kept")
			before := componentOf(t, ctx, c, component)

			must.Succeed(t, c.Kill(ctx, component))
			dead := componentOf(t, ctx, c, component)
			if dead.Ready || dead.PID != 0 || dead.Condition != "killed" {
				t.Errorf("after the kill: %+v", dead)
			}
			if err := c.Kill(ctx, component); err == nil || err.Error() != component+" is not running" {
				t.Errorf("second kill: %v", err)
			}
			if _, err := client.CoreV1().ConfigMaps("default").Get(shortly(t, ctx), "kept", metav1.GetOptions{}); err == nil {
				t.Errorf("the API server answers, although %s was killed", component)
			}
			must.Succeed(t, c.Restart(ctx, component))
			after := componentOf(t, ctx, c, component)
			if after.Port != before.Port || after.PID == before.PID || !after.Ready {
				t.Errorf("before %+v, after %+v", before, after)
			}
			waitFor(t, ctx, "ConfigMap to be readable again", func() (bool, error) {
				_, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
				return err == nil, err
			})
		})
	}
}

func TestRestartOfRunningComponents(t *testing.T) {
	ctx := testContext(t)
	c := start(t, ctx, Config{Nodes: 2})
	for _, component := range []string{ControllerManager, Scheduler, Kwok, APIServer} {
		if err := c.Restart(ctx, component); err != nil {
			t.Fatalf("restart %s: %v", component, err)
		}
	}
	must.Succeed(t, c.Terminate(ctx, Scheduler))
	must.Succeed(t, c.Restart(ctx, Scheduler))
	client := clientOf(t, c)
	createJob(t, ctx, client, "after")
	waitFor(t, ctx, "Job to complete", func() (bool, error) {
		job, err := client.BatchV1().Jobs("default").Get(ctx, "after", metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 1, err
	})
	if err := c.Kill(ctx, "kube-proxy"); err == nil || !strings.Contains(err.Error(), `unknown component "kube-proxy"`) {
		t.Errorf("kill of an unknown component: %v", err)
	}
}

func TestNothingOutlivesAKilledSupervisor(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	c := start(t, ctx, Config{Dir: dir})
	pids := processes(t, ctx, c)
	supervisor := c.owned.cmd.Process
	must.Succeed(t, supervisor.Kill())
	waitEnded(t, ctx, dir)
	_ = c.owned.wait() // A process keeps its id until its parent has waited for it.
	checkGone(t, pids)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is dead") {
		t.Errorf("open: %v", err)
	}

	again := start(t, ctx, Config{Dir: dir, Node: NodeNone})
	must.Succeed(t, again.Stop())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
}

func TestARemovedDirectoryEndsItsCluster(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	c := start(t, ctx, Config{Dir: dir, Node: NodeNone})
	pids := processes(t, ctx, c)
	liveness, err := state.Dir(dir).Liveness()
	must.Succeed(t, err)
	defer liveness.Close()
	must.Succeed(t, os.RemoveAll(dir))
	must.Succeed(t, liveness.Wait(ctx))
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	checkGone(t, pids)
}

// The first cluster must not remove a directory that a second cluster has created at the same path.
func TestARecreatedDirectoryIsKept(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	first := start(t, ctx, Config{Dir: dir, Node: NodeNone})
	liveness, err := state.Dir(dir).Liveness()
	must.Succeed(t, err)
	defer liveness.Close()
	must.Succeed(t, os.RemoveAll(dir))
	second := start(t, ctx, Config{Dir: dir, Node: NodeNone})
	must.Succeed(t, liveness.Wait(ctx))
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	createConfigMap(t, ctx, clientOf(t, second), "still-there")
	stop(t, second)
}

func TestADirectoryWritableByOtherUsersIsRejected(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o777))
	c, err := Start(testContext(t), Config{Dir: dir, Node: NodeNone, Binary: binary(t)})
	if err == nil {
		stop(t, c)
		t.Fatal("a directory that all users may write to was accepted")
	}
	if !strings.Contains(err.Error(), "no other user may write to") {
		t.Errorf("error %q, want one that says what to change", err)
	}
}

func TestLongDirectory(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 8), strings.Repeat("x", 200), "with space and 'quote'")
	c := start(t, ctx, Config{Dir: dir, Node: NodeNone})
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
	if err := c.Restart(ctx, APIServer); err != nil {
		t.Error(err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStartRejectsDirectoriesAndPortsInUse(t *testing.T) {
	ctx := testContext(t)
	t.Run("a directory in use", func(t *testing.T) {
		c := start(t, ctx, Config{Node: NodeNone})
		_, err := Start(ctx, Config{Binary: binary(t), Dir: c.Dir()})
		if err == nil || !strings.Contains(err.Error(), "in use by a running cluster") {
			t.Fatalf("got %v", err)
		}
		if _, err := c.Status(ctx); err != nil {
			t.Errorf("status of the cluster that ran before: %v", err)
		}
	})
	t.Run("a directory with files of another program", func(t *testing.T) {
		dir := t.TempDir()
		other := filepath.Join(dir, "kubeconfig")
		must.Succeed(t, os.WriteFile(other, []byte("mine"), 0o600))
		_, err := Start(ctx, Config{Binary: binary(t), Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "already holds kubeconfig") {
			t.Fatalf("got %v", err)
		}
		if data, err := os.ReadFile(other); err != nil || string(data) != "mine" {
			t.Errorf("kubeconfig: %q, %v", data, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("the directory has new files: %v", entries)
		}
	})
	t.Run("a port in use", func(t *testing.T) {
		c := start(t, ctx, Config{Node: NodeNone})
		port := componentOf(t, ctx, c, APIServer).Port
		_, err := Start(ctx, Config{Binary: binary(t), Dir: filepath.Join(t.TempDir(), "c"), APIPort: port})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d, asked for with --api-port, is in use", port)) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestStopKeepsOtherFiles(t *testing.T) {
	ctx := testContext(t)
	dir := t.TempDir()
	c := start(t, ctx, Config{Dir: dir, Node: NodeNone})
	other := filepath.Join(dir, "notes.txt")
	must.Succeed(t, os.WriteFile(other, nil, 0o600))
	must.Succeed(t, c.Stop())
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, error %v; want only notes.txt", entries, err)
	}
}

func TestAFailedStartReturnsTheCause(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	_, err := Start(ctx, Config{Binary: binary(t), Dir: dir, Node: NodeNone,
		ExtraArgs: map[string][]string{APIServer: {"--no-such-flag"}}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("got %v", err)
	}
	waitEnded(t, ctx, dir)
	if _, err := os.Stat(state.Dir(dir).Log(APIServer)); err != nil {
		t.Errorf("log of the component: %v", err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
}

func TestAStartThatTakesTooLongKeepsItsLogs(t *testing.T) {
	ctx := testContext(t)
	dir := filepath.Join(t.TempDir(), "c")
	_, err := Start(ctx, Config{Binary: binary(t), Dir: dir, Node: NodeNone, Timeout: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "not ready after 300ms") {
		t.Errorf("got %v", err)
	}
	waitEnded(t, ctx, dir)
	if _, err := os.Stat(state.Dir(dir).Log(Etcd)); err != nil {
		t.Errorf("log of the component: %v", err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptedStartRemovesAll(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(testContext(t), after)
			defer cancel()
			dir := filepath.Join(t.TempDir(), "c")
			_, err := Start(ctx, Config{Binary: binary(t), Dir: dir})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("directory is still there: %v", err)
			}
		})
	}
}
