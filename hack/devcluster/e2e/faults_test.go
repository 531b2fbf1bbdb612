/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// TestFaults kills processes while MyCronJobs of each missedRunPolicy work: at
// most one Job a slot, and every slot has run or is counted.
func TestFaults(t *testing.T) {
	t.Parallel()
	w := start(t, cluster.Config{})
	first := w.operate(t, "--install-crds")
	policies := []v1.MissedRunPolicy{v1.LatestMissed, v1.SkipMissed, v1.AllMissed}
	ns := w.namespace(t)
	audit := w.audit(t, ns)
	names := make([]string, len(policies))
	for i, policy := range policies {
		m := w.create(t, ns, fmt.Sprintf("sample%d", i), func(m *v1.MyCronJob) {
			m.Spec.MissedRunPolicy = policy
			// There is no history: an object that no guard protects is deleted at once.
			m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0)
		})
		names[i] = m.Name
	}
	check := func(what string) {
		t.Helper()
		t.Log(what)
		w.runs(t, audit, names)
		for _, name := range names {
			audit.check(t, name)
		}
	}
	check("from the start")

	first.kill()
	time.Sleep(12 * time.Second) // the outage itself
	second := w.operate(t)
	check("the operator was dead for 12 s")

	// The API server goes away for longer than an interval, under a running operator.
	w.must(t, w.Kill(t.Context(), cluster.APIServer))
	time.Sleep(7 * time.Second) // the outage itself
	w.must(t, w.Restart(t.Context(), cluster.APIServer))
	check("the API server was dead for 7 s")

	third := w.operate(t)
	check("two operators at the same time")
	for range 4 { // each in turn, in the middle of their work
		second.kill()
		second = w.operate(t)
		third.kill()
		third = w.operate(t)
	}
	check("two operators, killed in turn")
	if code := second.stop(); code != 0 {
		t.Errorf("SIGTERM: exit code %d, want 0", code)
	}
	check("one of them was stopped")
}

func (w *world) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runs waits until each of the MyCronJobs has made two more Jobs.
func (w *world) runs(t *testing.T, audit *audit, names []string) {
	t.Helper()
	before := map[string]int{}
	for _, name := range names {
		before[name] = len(audit.of(name))
	}
	eventually(t, 60*time.Second, func(context.Context) error {
		for _, name := range names {
			if len(audit.of(name)) < before[name]+2 {
				return errors.New(name + " makes no Jobs")
			}
		}
		return nil
	})
}
