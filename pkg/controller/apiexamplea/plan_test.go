// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
)

func TestPlan(t *testing.T) {
	jim := func(e *v1.ApiExampleA) { e.Spec.FirstName = "Jim" }
	const hidden = "    data.greeting: changed, values not shown"
	for sentence, test := range map[string]struct {
		change func(*server)
		want   []string // the first lines of the plan; nil for no plan
	}{
		"settled: nothing to do":          {func(*server) {}, []string{"nothing to do"}},
		"an edited greeting: one write":   {data(greetingKey, "theirs"), []string{"update ConfigMap sample-greeting", hidden}},
		"a key of another client: stays":  {data("other", "theirs"), []string{"nothing to do"}},
		"no ConfigMap: it is created":     {gone, []string{"create ConfigMap sample-greeting", "    apiVersion: none → v1", hidden}},
		"one that is being deleted":       {terminate, []string{"update ApiExampleA sample"}},
		"another name: one write":         {edit(jim), []string{"update ConfigMap sample-greeting", hidden}},
		"an edited status: it is written": {edit(func(e *v1.ApiExampleA) { e.Status.Greeting = "" }), []string{"update ApiExampleA sample"}},
		"an invalid spec: the status":     {edit(twoLines), []string{"update ApiExampleA sample"}},
		"paused: no plan":                 {edit(paused), nil},
		"no object: no plan":              {goneExample, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(example()).settle(t)
			test.change(s)
			s.connect() // The program has no memory of earlier syncs.
			s.Forget()
			plan, err := s.Plan(quiet(t), key, false)
			if err != nil || (plan == nil) != (test.want == nil) {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			if requests := s.Requests(); len(requests) > 0 {
				t.Errorf("it made the requests %v", requests)
			}
			if plan == nil {
				return
			}
			lines := plan.Lines(100)
			if len(lines) < len(test.want) || !slices.Equal(lines[:len(test.want)], test.want) || len(plan.Writes) > 1 ||
				plan.Settled() != (test.want[0] == "nothing to do") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}
