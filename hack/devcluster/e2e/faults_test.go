// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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
	"github.com/glassback/glassback/pkg/must"
)

// TestFaults kills processes while MyCronJobs with each missedRunPolicy run. Each slot has at most one Job. Every slot has run, or is
// counted as missed.
func TestFaults(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	first := w.operate(t, "--install-crds")
	policies := []v1.MissedRunPolicy{v1.LatestMissed, v1.SkipMissed, v1.AllMissed}
	ns := w.namespace(t)
	audit := w.audit(t, ns)
	names := make([]string, len(policies))
	for i, policy := range policies {
		m := w.create(t, ns, fmt.Sprintf("sample%d", i), func(m *v1.MyCronJob) {
			m.Spec.MissedRunPolicy = policy
			// Without a history, the operator deletes a finished Job at once, unless a guard keeps it.
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
	check("before any fault")

	first.kill()
	time.Sleep(12 * time.Second) // length of the outage
	second := w.operate(t)
	check("after 12 s without an operator")

	// The API server is down for longer than an interval, while the operator runs.
	w.must(t, w.Kill(t.Context(), cluster.APIServer))
	time.Sleep(7 * time.Second) // length of the outage
	w.must(t, w.Restart(t.Context(), cluster.APIServer))
	check("after 7 s without an API server")

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

func (w *world) must(t *testing.T, err error) {
	t.Helper()
	must.Succeed(t, err)
}

// runs waits until each of the MyCronJobs has created two more Jobs.
func (w *world) runs(t *testing.T, audit *audit, names []string) {
	t.Helper()
	before := map[string]int{}
	for _, name := range names {
		before[name] = len(audit.of(name))
	}
	eventually(t, patience, func(context.Context) error {
		for _, name := range names {
			if len(audit.of(name)) < before[name]+2 {
				return errors.New(name + " has not created two more Jobs")
			}
		}
		return nil
	})
}
