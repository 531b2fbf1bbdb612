// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

func TestPlan(t *testing.T) {
	slower := func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](7200) }
	for sentence, test := range map[string]struct {
		change func(*server)
		want   []string // the lines of the plan without fields; nil for no plan
	}{
		"settled: nothing to do":   {func(*server) {}, []string{"nothing to do"}},
		"a due slot: its Job":      {func(s *server) { s.clock.Step(time.Hour) }, []string{"create Job sample-1641736800"}},
		"run now: its Job":         {func(s *server) { s.setRunNow("A") }, []string{"create Job " + runA}},
		"another schedule: status": {func(s *server) { s.edit(slower) }, []string{"update MyCronJob sample"}},
		"paused: no plan": {func(s *server) {
			s.edit(func(m *v1.MyCronJob) { m.Annotations = map[string]string{glassback.AnnotationPaused: "true"} })
		}, nil},
		"no object: no plan": {func(s *server) { s.Remove("mycronjobs", key) }, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(cronjob(hourly))
			s.rest(t)
			test.change(s)
			c := s.connect()
			s.Forget()
			plan, err := c.Plan(t.Context(), key, false)
			if err != nil || (plan == nil) != (test.want == nil) {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			if requests := s.Requests(); len(requests) > 0 {
				t.Errorf("it made the requests %v", requests)
			}
			if plan == nil {
				return
			}
			lines := slices.DeleteFunc(plan.Lines(0), func(line string) bool { return strings.HasPrefix(line, " ") })
			if !slices.Equal(lines, test.want) || plan.Settled() != (test.want[0] == "nothing to do") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}
