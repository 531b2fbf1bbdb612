// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/leaktest"
)

func TestPlan(t *testing.T) {
	const password = "hunter2-in-an-environment"
	for sentence, test := range map[string]struct {
		change func(*server)
		want   []string // nil for no plan
	}{
		"settled: nothing to do": {func(*server) {}, []string{"nothing to do"}},
		"another image: one write": {
			func(s *server) { s.edit(func(a *v1.Application) { a.Spec.Image = "nginx:2" }) },
			[]string{"update Deployment sample", "    spec.template.spec.containers[app].image: nginx:1.29 → nginx:2"},
		},
		"a variable: its value is not shown": {
			func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Env = []v1.EnvVar{{Name: "PASSWORD", Value: password}} })
			},
			[]string{
				"update Deployment sample", "    spec.template.spec.containers[app].env[PASSWORD].name: none → PASSWORD",
				"    spec.template.spec.containers[app].env[PASSWORD].value: changed, values not shown",
			},
		},
		"an edited Deployment: it is repaired": {
			func(s *server) {
				alter(s, "deployments", "other-client", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
			},
			[]string{"update Deployment sample", "    spec.template.spec.containers[app].image: theirs → nginx:1.29"},
		},
		"a child that the spec no longer has: it is deleted": {
			func(s *server) {
				s.edit(func(a *v1.Application) { a.Spec.Autoscaling, a.Spec.Replicas = nil, ptr.To[int32](2) })
			},
			[]string{"delete HorizontalPodAutoscaler sample"},
		},
		"an invalid spec: the status says so": {
			func(s *server) { s.edit(negative) }, []string{"update Application sample"},
		},
		"paused: no plan":    {func(s *server) { s.edit(paused) }, nil},
		"no object: no plan": {func(s *server) { s.Remove("applications", key) }, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(application(full)).settle(t)
			test.change(s)
			o := s.connect()
			s.Forget()
			plan, err := o.Plan(t.Context(), key, false)
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
			if len(lines) < len(test.want) || !slices.Equal(lines[:len(test.want)], test.want) ||
				plan.Settled() != (test.want[0] == "nothing to do") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(test.want, "\n"))
			}
			if leaks := (leaktest.Secrets{"a variable": password}).In(strings.Join(lines, "\n")); len(leaks) > 0 {
				t.Error(leaks)
			}
		})
	}
}
