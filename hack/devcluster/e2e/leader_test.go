// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
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

const (
	leaseDuration = 15 * time.Second // --leader-elect-lease-duration's default
	leading       = "Successfully acquired lease"
)

// candidate is an operator that competes with others.
type candidate struct {
	*operator

	metrics string
}

func (w *world) candidate(t *testing.T) *candidate {
	t.Helper()
	probes, metrics := freeAddress(t), freeAddress(t)
	r := &candidate{launch(t, "--kubeconfig", w.Kubeconfig(), "-v=2", "--leader-elect", "--leader-elect-resource-namespace="+operatorNamespace,
		"--health-probe-bind-address="+probes, "--metrics-bind-address="+metrics, "--metrics-secure=false"), metrics}
	eventually(t, time.Minute, func(ctx context.Context) error { return answersOK(ctx, "http://"+probes+"/readyz") })
	return r
}

func answersOK(ctx context.Context, url string) error {
	_, err := fetch(ctx, url)
	return err
}

// fetch returns the answer to a GET of a URL.
func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered with the code %d: %s", url, answer.StatusCode, body)
	}
	return string(body), err
}

// added returns the number of keys that were ever added to the queue of MyCronJobs, and the number that wait in it.
func (c *candidate) added(t *testing.T) (added, waiting string) {
	t.Helper()
	text, err := fetch(t.Context(), "http://"+c.metrics+"/metrics")
	must.Succeed(t, err)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case `workqueue_adds_total{name="mycronjob"}`:
			added = value
		case `workqueue_depth{name="mycronjob"}`:
			waiting = value
		}
	}
	return added, waiting
}

func (c *candidate) leads() bool { return strings.Contains(c.log.String(), leading) }

// follows waits until one of the replicas is the leader. It returns that replica, and how long this took.
func follows(t *testing.T, replicas []*candidate, since time.Time, patience time.Duration) (*candidate, time.Duration) {
	t.Helper()
	for time.Since(since) < patience {
		if i := slices.IndexFunc(replicas, (*candidate).leads); i >= 0 {
			return replicas[i], time.Since(since)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("no operator is the leader after %s", patience)
	return nil, 0
}

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
	leader := w.candidate(t)
	follows(t, []*candidate{leader}, time.Now(), time.Minute)
	standby := []*candidate{w.candidate(t), w.candidate(t)}
	replace := func() (left *candidate) {
		left = leader
		leader, _ = follows(t, standby, time.Now(), time.Minute)
		standby = slices.DeleteFunc(standby, func(c *candidate) bool { return c == leader })
		standby = append(standby, w.candidate(t))
		w.runs(t, audit, []string{m.Name})
		audit.check(t, m.Name)
		return left
	}

	if slices.ContainsFunc(standby, (*candidate).leads) {
		t.Fatal("two operators are leaders at once")
	}
	began := time.Now()
	if code := leader.stop(); code != 0 {
		t.Errorf("SIGTERM: exit code %d, want 0", code)
	}
	_, took := follows(t, standby, began, leaseDuration)
	t.Logf("%s after the leader got SIGTERM, another operator was the leader", took)
	if took > 2*time.Second {
		t.Errorf("a planned handover took %s", took)
	}
	replace()

	began = time.Now()
	leader.kill()
	_, took = follows(t, standby, began, 2*leaseDuration)
	t.Logf("%s after the leader was killed, another operator was the leader", took)
	if took > leaseDuration+time.Second {
		t.Errorf("the handover took %s, but the lease lasts %s", took, leaseDuration)
	}
	replace()

	// Jobs were created and deleted, but only the leader's queue got keys.
	for _, c := range standby {
		if added, waiting := c.added(t); added != "0" || waiting != "0" {
			t.Errorf("a standby added %s keys to its queue, and %s wait", added, waiting)
		}
	}
	if added, _ := leader.added(t); added == "0" {
		t.Error("the leader added no key to its queue")
	}

	// The leader sleeps for longer than its lease. When it wakes, it does not know at first that it has lost the Lease.
	w.must(t, leader.cmd.Process.Signal(syscall.SIGSTOP))
	follows(t, standby, time.Now(), 2*leaseDuration)
	sleeper := leader
	w.must(t, sleeper.cmd.Process.Signal(syscall.SIGCONT))
	replace()
	if code := sleeper.wait(leaseDuration); code != 1 || !strings.Contains(sleeper.log.String(), "lost the Lease: ") {
		t.Errorf("a leader that lost its Lease ended with the code %d:\n%s", code, tail(sleeper.log.String(), 5))
	}

	// An administrator deletes the Lease. The leader creates it again, and stays the leader.
	leases := w.kube.CoordinationV1().Leases(operatorNamespace)
	held, err := leases.Get(t.Context(), "glassback", metav1.GetOptions{})
	w.must(t, err)
	w.must(t, leases.Delete(t.Context(), "glassback", metav1.DeleteOptions{}))
	w.runs(t, audit, []string{m.Name})
	audit.check(t, m.Name)
	again, err := leases.Get(t.Context(), "glassback", metav1.GetOptions{})
	w.must(t, err)
	if *again.Spec.HolderIdentity != *held.Spec.HolderIdentity || slices.ContainsFunc(standby, (*candidate).leads) || !leader.running() {
		t.Errorf("after the Lease was deleted, the leader is %s, want %s", *again.Spec.HolderIdentity, *held.Spec.HolderIdentity)
	}
}

// createNamespace creates a namespace with exactly this name.
func (w *world) createNamespace(t *testing.T, name string) {
	t.Helper()
	ns := namespaceObject()
	ns.Name, ns.GenerateName = name, ""
	if _, err := w.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
