// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/leaktest"
	"github.com/glassback/glassback/pkg/recording/recordtest"
)

func TestPlan(t *testing.T) {
	const password = "hunter2-of-the-redis-cluster"
	silent := func(s *stage) { s.views[ipOf(3)] = nil }
	edited := func(f func(*v1.RedisCluster)) func(*stage) { return func(s *stage) { s.edit(f) } }
	const unasked = "the redis-servers were not asked"
	for sentence, test := range map[string]struct {
		change     func(*stage)
		offline    bool
		want       []string // the lines of the plan without fields; nil for no plan
		incomplete string   // the beginning
	}{
		"settled: nothing to do": {change: func(*stage) {}, want: []string{"nothing to do"}},
		"a Pod is gone: it is created": {change: func(s *stage) { s.destroy("pods", "demo-5") }, offline: true,
			want: []string{"create Pod demo-5"}, incomplete: unasked},
		"another revision: a roll begins": {change: edited(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:8" }),
			want: []string{"create ConfigMap", "rollPods: ", "update RedisCluster demo", "evict Pod demo-"}},
		"another revision, offline: the Pods": {change: edited(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:8" }), offline: true,
			want: []string{"Pods with another revision, which are replaced one by one: 6 of 6"}, incomplete: unasked},
		"a directive that can perhaps be set: it is tried": {change: func(s *stage) {
			s.settable = map[string]string{"maxmemory": "0"}
			s.edit(func(rdc *v1.RedisCluster) { rdc.Spec.Config = configOf("maxmemory 97mb") })
		}, want: []string{
			"create ConfigMap", "Setting directives in 6 nodes: maxmemory", "patch Pod demo-0", "Redis: set directives of demo-0 maxmemory",
		}},
		"a directive, offline: the Pods": {change: edited(func(rdc *v1.RedisCluster) { rdc.Spec.Config = configOf("maxmemory 97mb") }),
			offline: true, want: []string{"Nodes that need directives which are not in their redis.conf: 6 of 6"}, incomplete: unasked},
		"access from outside: a Service for each node": {change: edited(external(v1.ExternalNodePort)), want: []string{
			"create Service demo-clients", "create Service demo-5", "waitForAddresses: Waiting for the address of the Service demo-0",
		}},
		"an address that the others do not reach: it is given up before the node leaves it": {change: func(s *stage) {
			s.edit(external(v1.ExternalNodePort))
			s.addServices()
			o := with(six(), announcing(allSix...))
			for i := range allSix {
				s.views[ipOf(i)] = o.members[i].view
			}
			s.setPod("demo-3", func(p *corev1.Pod) { p.Annotations[AnnotationUnreachable] = nodePortsOf(3).String() })
		}, want: []string{"correctAddresses: ", "Redis: announce address of demo-3 10.1.0.3:6379@16379"}},
		"no access from outside any more: Services are deleted": {change: func(s *stage) { s.addServices() },
			want: []string{"delete Service demo-0", "delete Service demo-5"}},
		"a ready Pod that does not answer: it is incomplete": {change: silent, incomplete: "demo-3 does not answer: connection refused"},
		"an invalid spec: the status says so": {change: edited(func(rdc *v1.RedisCluster) { rdc.Spec.Addr = "" }),
			want: []string{"update RedisCluster demo"}},
		"a password: it is not shown": {change: func(s *stage) {
			s.add(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "redis", Namespace: "default"}, Data: map[string][]byte{"password": []byte(password)},
			})
			s.password = password
			s.edit(func(rdc *v1.RedisCluster) {
				rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "redis", Key: "password"}
			})
		}, want: []string{"rollPods: ", "evict Pod demo-"}},
		"a backup is due: its Job": {change: edited(func(rdc *v1.RedisCluster) {
			backedUpHourly(rdc)
			rdc.Status.Backup = &v1.BackupStatus{Schedule: rdc.Spec.Backup.Schedule, LastScheduleTime: ptr.To(at(12, 30))}
		}), want: []string{"update RedisCluster demo", "create Job demo-backup-20260109t130000z"}},
		"paused: no plan": {
			change: edited(func(rdc *v1.RedisCluster) { rdc.Annotations = map[string]string{glassback.AnnotationPaused: "true"} })},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t, six()).settle()
			test.change(s)
			s.connect()
			s.kube.ClearActions()
			s.client.ClearActions()
			s.commands = nil
			plan, err := s.controller.Plan(t.Context(), demoKey, test.offline)
			if err != nil || (plan == nil) != (test.want == nil && test.incomplete == "") {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			for _, action := range slices.Concat(s.kube.Actions(), s.client.Actions()) {
				if action.GetVerb() != "get" {
					t.Errorf("it made the request %s %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
			if len(s.commands) > 0 {
				t.Errorf("the nodes got %q", s.commands)
			}
			if plan == nil {
				return
			}
			lines := plan.Lines(1000)
			for _, want := range test.want {
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("the plan has no line %q", want)
				}
			}
			settled := test.want == nil || test.want[0] == "nothing to do"
			if plan.Settled() != settled || !strings.HasPrefix(plan.Incomplete, test.incomplete) ||
				(plan.Incomplete == "") != (test.incomplete == "") {
				t.Errorf("settled %t, incomplete %q", plan.Settled(), plan.Incomplete)
			}
			if leaks := (leaktest.Secrets{"the password": password}).In(strings.Join(lines, "\n")); len(leaks) > 0 {
				t.Error(leaks)
			}
			if t.Failed() {
				t.Log(strings.Join(lines, "\n"))
			}
		})
	}
}

func TestAllFieldsAreRecorded(t *testing.T) {
	recordtest.Covers(t, observed{}, recordedObserved{}, "rdc", "byID", "slots", "configs", "rules", // merge sets byID and slots
		"users", "userProblems", "refusals", "accountHash", "retired") // missingUser follows from them; hashes of passwords are secret.
	// markOutdated has used the others: outdated, pending and pendingUsers follow from them. Values of directives may be secret.
	recordtest.Covers(t, member{}, recordedMember{}, "entries", "config", "set", "wanted", "directives", "noConfig", "users",
		"service") // matchServices sets service.
	recordtest.Covers(t, node{}, recordedNode{}, "Entry", "member")
	recordtest.Covers(t, plan{}, recordedPlan{})
}

func TestObservedIsPlain(t *testing.T) {
	recordtest.Plain(t, []any{corev1.Secret{}, session{}}, observed{})
}

func TestPoliciesHaveTheNamesOfTheirFunctions(t *testing.T) {
	recordtest.Named(t, policies)
}

// TestTheCorpusHasEveryPolicy keeps make decisions complete: it shows what a change of a policy changes.
func TestTheCorpusHasEveryPolicy(t *testing.T) {
	recordtest.InCorpus(t, "../../replay/testdata", Decisions, policies)
}

// TestScenesAreReplayed decides again on random states of a cluster, of which many never occur. GLASSBACK_SEEDS=n decides on so many.
func TestScenesAreReplayed(t *testing.T) {
	for seed := range fakeapi.Seeds(t, 1000, 100) {
		o := sceneOf(rand.New(rand.NewSource(int64(seed)))).observed
		if recordtest.Check(t, Decisions, o, decide(o)); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
