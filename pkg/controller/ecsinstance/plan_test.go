// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/report"
)

// plan returns the plan for an object by a Controller that does not run.
func (w *world) plan(name string, offline bool) (*report.Plan, error) {
	w.t.Helper()
	cloud, err := aliyun.New(aliyun.Config{Endpoint: "http://ecs.example.com", Transport: w.cloud.Transport(), ReadOnly: true})
	must.Succeed(w.t, err)
	instances := cache.NewSharedIndexInformer(nil, &v1alpha1.ECSInstance{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	w.api.Cache("ecsinstances", instances.GetStore(), nil)
	c, err := New(Config{
		Client: w.api.Glassback(), ECSInstances: source{instances}, Recorder: recorder{w}, Clock: clock.RealClock{},
		Refuse: (&OwnCredentials{}).Refusal, Secrets: w.api.Kube().CoreV1(), Version: w.api.ReadVersion,
		Open: func(key *aliyun.AccessKey, region string) Cloud { return cloud.Open(key, region) },
	})
	must.Succeed(w.t, err)
	defer c.loop.Queue.ShutDown()
	plan, err := c.Plan(w.t.Context(), key(name), offline)
	if _, ok := c.sessions.Load(key(name)); ok || len(c.fleets.byKey) > 0 {
		w.t.Error("the plan left a session or a fleet")
	}
	return plan, err
}

func TestPlan(t *testing.T) {
	tag := func(e *v1alpha1.ECSInstance) { e.Spec.Tags = map[string]string{"team": "a"} }
	for sentence, test := range map[string]struct {
		change     func(w *world, id string) // after the operator has ended
		offline    bool
		want       []string // the lines of the plan without fields, with the ID of the instance for ID; nil for no plan
		incomplete string   // the beginning
	}{
		"settled: nothing to do":                {want: []string{"nothing to do"}},
		"settled and offline: it is incomplete": {offline: true, incomplete: "ECS was not asked"},
		"another type: the instance is stopped": {
			change: func(w *world, _ string) {
				w.edit("vm", func(e *v1alpha1.ECSInstance) {
					e.Spec.InstanceType, e.Spec.InstanceTypeChangePolicy = "ecs.g6.xlarge", v1alpha1.TypeChangeRestart
				})
			},
			want: []string{
				"changeType: Changing the type of instance ID from ecs.g6.large to ecs.g6.xlarge; it is stopped first", "ECS cn-beijing: stop ID",
			},
		},
		"a tag that another client changed: it is set": {
			change: func(w *world, id string) { w.cloud.Update(id, func(i *ecssim.Instance) { i.Tags["team"] = "b" }) },
			want:   []string{"changeTags: Setting tags of instance ID", "ECS cn-beijing: tag ID team=a"},
		},
		"gone: no plan": {change: func(w *world, _ string) { w.api.Remove("ecsinstances", key("vm")) }},
		"a new object: the finalizer": {
			change:  func(w *world, _ string) { w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Finalizers = nil }) },
			offline: true, want: []string{"patch ECSInstance vm"}, incomplete: "ECS was not asked",
		},
		"no instance: a call that creates one": {
			change: func(w *world, _ string) {
				w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Status = v1alpha1.ECSInstanceStatus{} })
			},
			want: []string{
				"createInstance: Creating an instance in ECS", "update ECSInstance vm",
				"ECS cn-beijing: create an instance of the type ecs.g6.large, unless one has the tag of this object",
			},
		},
		"an invalid spec: the status says so": {
			change: func(w *world, _ string) { w.edit("vm", func(e *v1alpha1.ECSInstance) { e.Spec.RegionID = "" }) },
			want:   []string{"update ECSInstance vm"},
		},
		"ECS does not answer: it is incomplete": {
			change: func(w *world, _ string) {
				w.refuse(ecssim.Error(503, "ServiceUnavailable", "later"), "DescribeInstances")
			},
			incomplete: "ECS did not answer",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.apply("vm", tag)
				id := w.ready("vm").Status.InstanceID
				time.Sleep(settleAfter)
				w.finish()
				if test.change != nil {
					test.change(w, id)
				}
				w.cloud.Forget()
				w.api.Forget()
				plan, err := w.plan("vm", test.offline)
				if err != nil || (plan == nil) != (test.want == nil && test.incomplete == "") {
					t.Fatalf("plan %v, error %v", plan, err)
				}
				if requests := w.api.Requests(); slices.ContainsFunc(requests, fakeapi.Request.Writes) {
					t.Errorf("it made the requests %v", requests)
				}
				for _, call := range w.cloud.Calls() {
					if call.Action != "DescribeInstances" && call.Action != "GetCallerIdentity" || test.offline {
						t.Errorf("ECS got the call %s", call.Action)
					}
				}
				if plan == nil {
					return
				}
				var lines []string
				for _, line := range plan.Lines(0) {
					if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "incomplete: ") && !strings.HasPrefix(line, "note: ") {
						lines = append(lines, strings.ReplaceAll(line, id, "ID"))
					}
				}
				settled := test.want == nil || test.want[0] == "nothing to do"
				if !slices.Equal(lines, test.want) || plan.Settled() != settled ||
					!strings.HasPrefix(plan.Incomplete, test.incomplete) || (plan.Incomplete == "") != (test.incomplete == "") {
					t.Errorf("got %q, incomplete %q, want %q", lines, plan.Incomplete, test.want)
				}
				if leaked := leaks(fmt.Sprintf("%+v\n%s", plan, strings.Join(plan.Lines(100), "\n"))); len(leaked) > 0 {
					t.Error(leaked)
				}
			})
		})
	}
}

func TestAllFieldsAreRecorded(t *testing.T) {
	for _, value := range []any{Observed{}, memory{}, trial{}, backoff{}, problem{}, secretState{}, Plan{}} {
		for field := range reflect.TypeOf(value).Fields() {
			if !field.IsExported() {
				t.Errorf("%T.%s is not exported, so it is not recorded", value, field.Name)
			}
		}
	}
}

func TestObservedIsPlain(t *testing.T) {
	recordtest.Plain(t, []any{aliyun.AccessKey{}, corev1.Secret{}, session{}}, Observed{}, outcome{})
}

func TestPoliciesHaveTheNamesOfTheirFunctions(t *testing.T) {
	recordtest.Named(t, slices.Concat(policies, deletionPolicies))
}

// TestTheCorpusHasEveryPolicy keeps make decisions complete: it shows what a change of a policy changes.
func TestTheCorpusHasEveryPolicy(t *testing.T) {
	recordtest.InCorpus(t, "../../replay/testdata", Decisions, slices.Concat(policies, deletionPolicies))
}
