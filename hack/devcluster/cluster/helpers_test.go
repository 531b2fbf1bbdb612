// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

// testTimeout bounds each test that starts a cluster, on a slow and busy machine.
const testTimeout = 3 * time.Minute

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

func clientOf(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	must.Succeed(t, err)
	return client
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

func shortly(t *testing.T, ctx context.Context) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func createConfigMap(t *testing.T, ctx context.Context, client kubernetes.Interface, name string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createJob(t *testing.T, ctx context.Context, client kubernetes.Interface, name string) {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "c", Image: "none"}},
		}}},
	}
	if _, err := client.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
