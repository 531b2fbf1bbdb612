// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/check"
)

// recheckInterval is the time between two runs of the checks. After a run in which no check fails, the checks do not run again.
const recheckInterval = 30 * time.Second

// selfCheck runs the checks of check.AtStart, and holds their last results. While a check fails, the operator works, but is not ready.
type selfCheck struct {
	sections []check.Section

	mu   sync.Mutex
	last check.Report
}

// once runs the checks once, and logs the results that have changed since the last run.
func (s *selfCheck) once(ctx context.Context) {
	report := check.Runner{Limit: 10 * time.Second, Slow: "see what keeps the API server"}.Run(ctx, s.sections)
	if report.Interrupted {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	logResults(klog.FromContext(ctx), s.last, report)
	s.last = report
}

// run repeats the checks every recheckInterval, until none fails or ctx ends.
func (s *selfCheck) run(ctx context.Context) {
	for s.ready(ctx) != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(recheckInterval):
			s.once(ctx)
		}
	}
}

// ready returns an error that names the first check that fails. It is a condition of /readyz.
func (s *selfCheck) ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.last.Outcomes(check.Failed) {
		return fmt.Errorf("%s: %s: %s: %s", o.ID, o.Title, o.Reason, o.Remedy)
	}
	return nil
}

// logResults logs each check whose state differs between before and now. Then it logs the number of checks in each state in now.
func logResults(logger klog.Logger, before, now check.Report) {
	states := map[string]check.State{}
	for _, o := range before.Outcomes() {
		states[o.ID] = o.State
	}
	bad := func(s check.State) bool { return s == check.Failed || s == check.Warning }
	for _, o := range now.Outcomes() {
		logger := logger.WithValues("check", o.ID, "state", o.State)
		switch was := states[o.ID]; {
		case was == o.State:
		case bad(o.State):
			logger.Info("Check: " + strings.Join([]string{o.Title, o.Reason, o.Remedy}, ": "))
		case bad(was):
			logger.Info("Check: " + o.Title)
		default:
			logger.V(2).Info("Check: "+o.Title, "reason", o.Reason)
		}
	}
	if len(states) > 0 {
		logger = logger.V(2)
	}
	logger.Info("Checked", "ok", len(now.Outcomes(check.OK)), "warnings", len(now.Outcomes(check.Warning)),
		"failed", len(now.Outcomes(check.Failed)), "skipped", len(now.Outcomes(check.Skipped)))
}
