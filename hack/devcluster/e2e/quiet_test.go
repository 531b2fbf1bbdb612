// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/must"
)

// TestQuietBetweenSlots counts the operator's requests between two slots. There are none except its open watches.
func TestQuietBetweenSlots(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	w.operate(t, "--install-crds")
	const interval = 30
	for i := range 20 {
		w.create(t, "default", fmt.Sprintf("sample-%d", i), func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](interval) })
	}
	audit := w.audit(t, "default")
	eventually(t, 2*interval*time.Second, func(context.Context) error {
		if n := len(audit.slots()); n < 20 {
			return fmt.Errorf("%d of 20 Jobs were created", n)
		}
		return nil
	})
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		list, err := w.glassback.BatchV1().MyCronJobs("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, m := range list.Items {
			if m.Status.LastScheduleTime == nil || m.Status.SkewMillis == nil {
				return fmt.Errorf("the slot of %s is not recorded", m.Name)
			}
		}
		return nil
	})
	// The operator sends events in the background.
	settled(t, interval*time.Second, 2*time.Second, func() map[string]string { return w.requests(t) })
	before := w.requests(t)
	untilNext := interval - time.Now().Unix()%interval
	time.Sleep(time.Duration(untilNext-2) * time.Second) // the time between the slots
	after := w.requests(t)
	maps.DeleteFunc(after, func(request string, n string) bool { return before[request] == n })
	if len(after) > 0 {
		t.Errorf("requests in %d s between two slots: %v", untilNext-2, after)
	}
	if untilNext < 15 || len(before) == 0 {
		t.Errorf("the test checked only %d kinds of requests for %d s: this proves nothing", len(before), untilNext-2)
	}
}

var requestTotal = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)

// requests returns the API server's counts of requests for the resources of this project. It leaves out watches, which the API server
// counts only when they end.
func (w *world) requests(t *testing.T) map[string]string {
	t.Helper()
	raw, err := w.kube.Discovery().RESTClient().Get().AbsPath("/metrics").Do(t.Context()).Raw()
	must.Succeed(t, err)
	counts := map[string]string{}
	for scanner := bufio.NewScanner(strings.NewReader(string(raw))); scanner.Scan(); {
		m := requestTotal.FindStringSubmatch(scanner.Text())
		if m == nil || strings.Contains(m[1], `verb="WATCH"`) {
			continue
		}
		for _, resource := range []string{"mycronjobs", "jobs", "events", "customresourcedefinitions"} {
			if strings.Contains(m[1], `resource="`+resource+`"`) {
				counts[m[1]] = m[2]
			}
		}
	}
	return counts
}

// TestSecondSignalEndsAtOnce stops the operator while a sync hangs. The operator waits for the sync until it gets a second signal.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	o := w.operate(t, "--install-crds")
	w.create(t, "default", "sample", func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](1) })
	o.waitFor("Created Job")
	pid := w.pid(t, cluster.APIServer)
	w.must(t, syscall.Kill(pid, syscall.SIGSTOP))
	defer func() { w.must(t, syscall.Kill(pid, syscall.SIGCONT)) }()
	time.Sleep(1500 * time.Millisecond) // In this time a slot is due, and the create of its Job hangs.
	w.must(t, o.cmd.Process.Signal(syscall.SIGTERM))
	o.waitFor("Stopping")
	time.Sleep(500 * time.Millisecond) // The operator must still run after this time.
	if !o.running() {
		t.Fatal("the operator did not wait for the running sync")
	}
	begun := time.Now()
	w.must(t, o.cmd.Process.Signal(syscall.SIGTERM))
	if code := o.wait(5 * time.Second); code != 1 {
		t.Errorf("exit code %d after the second signal, want 1", code)
	}
	t.Logf("ended %s after the second signal", time.Since(begun))
}

func (w *world) pid(t *testing.T, component string) int {
	t.Helper()
	components, err := w.Status(t.Context())
	must.Succeed(t, err)
	for _, c := range components {
		if c.Name == component {
			return c.PID
		}
	}
	t.Fatalf("no component %s", component)
	return 0
}
