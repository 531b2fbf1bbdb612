// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/report"
)

// conditionKinds are all conditions, in the order in which tests say them.
var conditionKinds = []string{
	glassback.ConditionReady, glassback.ConditionProgressing, glassback.ConditionDegraded,
	v1.ConditionClusterFormed, v1.ConditionSlotsCovered, v1.ConditionDataLoss,
}

// verdict is the conditions in short: "+" and "-" and "?" for those that are True, False or
// not there, each with its reason.
func verdict(status v1.RedisClusterStatus) string {
	var words []string
	for _, kind := range conditionKinds {
		c := meta.FindStatusCondition(status.Conditions, kind)
		switch {
		case c == nil:
			words = append(words, "?")
		case c.Status == metav1.ConditionTrue:
			words = append(words, "+"+c.Reason)
		default:
			words = append(words, "-"+c.Reason)
		}
	}
	return strings.Join(words, " ")
}

// statusFor is the status after a sync that saw this.
func statusFor(o *observed, problems ...child.Problem) v1.RedisClusterStatus {
	return statusOf(o, decide(o), child.Outcomes{Problems: problems})
}

func TestStatus(t *testing.T) {
	const (
		usable   = " +Formed +AllSlotsCovered -NoDataLoss"
		unusable = " +Formed -SlotsUncovered -NoDataLoss"
		forming  = "-Forming +Forming -AsExpected -Forming -Forming -NoDataLoss"
		ready    = "+Formed -Formed -AsExpected" + usable
	)
	refused := func(o *observed) {
		silenced(time.Second, 4)(o)
		o.Members[4].fail(fmt.Errorf("HELLO: %w: the node has another one", redisnode.ErrPassword))
	}
	commandFails := func(lasts time.Duration) alter {
		return func(o *observed) {
			o.Failure, o.FailingFor = &problem{reasonFailing, "meet demo-1 demo-0: it fails"}, duration(lasts)
		}
	}
	service := child.Problem{Reason: reasonConflict, Message: "Service demo exists already and has no controller"}
	full := viewed(func(v *redisnode.View) { v.WriteError = "aof_last_write_status is err" }, 1)
	unsaved := viewed(func(v *redisnode.View) { v.SaveError = "rdb_last_bgsave_status is err" }, 1)
	down := viewed(func(v *redisnode.View) { v.StateOK = false }, 2)
	unscheduled := func(p *corev1.Pod) {
		unstarted(p)
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		}}
	}
	news := cluster(slices.Repeat([]part{newcomer()}, 6)...)
	for _, test := range []struct {
		sentence string
		seen     *observed
		want     string // of the conditions
		message  string // of Ready; a part
		also     []child.Problem
	}{
		{"settled", with(six()), ready, "Pods: 6, masters: 3, slots: 16384", nil},
		{"forming: Pods are made", with(six(), unformed, clearStatus, noPod(all...)), forming, "Waiting for demo-0", nil},
		{"forming: nodes are introduced", with(news, unformed), forming, "Introducing", nil},
		{"a replica is silent for a moment: healing", with(six(), silenced(time.Second, 4)),
			"-Healing +Healing -AsExpected" + usable, "Waiting for demo-4", nil},
		{"a replica is silent for long: a problem", with(six(), silenced(silentTooLong+1, 4)),
			"-PodNotAnswering +Healing +PodNotAnswering" + usable, "demo-4 has not answered for more than 30s: connection refused", nil},
		{"a master is silent: its slots cannot be used", with(six(), silenced(time.Second, 1)),
			"-Healing +Healing -AsExpected" + unusable, "Waiting for demo-1", nil},
		{"slots are lost", with(six(), renewed(0, 3)),
			"-DataLoss +Healing +DataLoss -Divided -SlotsUncovered +DataLoss", "have lost what they held", nil},
		{"a node is none of ours", with(six(), known("ghost", true, "", 4)), "-UnknownNode +Healing +UnknownNode" + usable, "Node ghost", nil},
		{"two do not know each other, and both have a slot", with(sixAnd(part{slots: slotsOf("9"), masterOf: -1, lone: true})),
			"-Divided +ScalingOut +Divided -Divided -SlotsUncovered -NoDataLoss", "both have the slots 9", nil},
		{"a Pod does not start", with(six(), stored, podIs(crashing, 4), silenced(time.Second, 4)),
			"-PodNotStarting +Healing +PodNotStarting" + usable, "demo-4 does not start: CrashLoopBackOff: back-off 10s", nil},
		{"a Pod finds no machine", with(six(), stored, podIs(unscheduled, 4), silenced(time.Second, 4)),
			"-PodNotStarting +Healing +PodNotStarting" + usable, "demo-4 does not start: Unschedulable", nil},
		{"a node refuses the password", with(six(), refused),
			"-PasswordRefused +Healing +PasswordRefused" + usable, "demo-4: HELLO: the password is refused: the node has another one", nil},
		{"a snapshot failed that nobody needs", with(six(), unsaved), ready, "Pods: 6", nil},
		{"a snapshot failed, and Redis refuses writes until another succeeds",
			with(six(), unsaved, spec(func(s *v1.RedisClusterSpec) { s.Config = map[string]v1.ConfigValue{"save": "3600 1"} })),
			"-CannotWrite -Formed +CannotWrite" + usable, "demo-1 cannot keep what is written to it: rdb_last_bgsave_status is err", nil},
		{"a disk is full", with(six(), full), "-CannotWrite +Healing +CannotWrite" + usable, "demo-1 cannot keep what is written to it", nil},
		{"masters have had different functions for long", with(six(), libraries("f=1", 0, 1), differs(differTooLong+1)),
			"-FunctionsDiffer -Formed +FunctionsDiffer" + usable, "demo-0 and demo-2 do not have the same library f", nil},
		{"a library is loaded on one master after the other", with(six(), libraries("f=1", 0, 1), differs(differTooLong)), ready, "Pods", nil},
		{"a master without slots alone has a library", with(sixAnd(master("")), libraries("g=1", 6)),
			"-HeldBack -Formed +HeldBack" + usable, "demo-6 is a master without slots, but has the function library g", nil},
		{"a command fails for a moment", with(six(), commandFails(failingTooLong)), ready, "Pods: 6", nil},
		{"a command fails for long", with(six(), commandFails(failingTooLong+1)),
			"-CommandFailing -Formed +CommandFailing" + usable, "it fails", nil},
		{"the Service has another owner", with(six()),
			"-Conflict -Formed +Conflict" + usable, "Service demo exists already", []child.Problem{service, service}},
		{"another revision", with(six(), allOld), "-Rolling +Rolling -AsExpected" + usable, "6 Pods are not up to date", nil},
		{"fewer Pods", with(sixAnd(replica(0)), sized(6)), "-ScalingIn +ScalingIn -AsExpected" + usable, "Removing demo-6", nil},
		{"more Pods", with(sixAnd(newcomer())),
			"-ScalingOut +ScalingOut -AsExpected -Divided +AllSlotsCovered -NoDataLoss", "Introducing", nil},
		{"a node says that the cluster is down", with(six(), down),
			"-Healing +Healing -AsExpected" + unusable, "demo-2, which reports", nil},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			status := statusFor(test.seen, test.also...)
			if got := verdict(status); got != test.want {
				t.Errorf("conditions %s, want %s", got, test.want)
			}
			if message := meta.FindStatusCondition(status.Conditions, glassback.ConditionReady).Message; strings.Count(message, test.message) != 1 {
				t.Errorf("message %q, want one with %q, once", message, test.message)
			}
			endpoint := map[bool]string{true: "10.0.0.1:6379"}[strings.Contains(test.want, "+AllSlotsCovered")]
			if status.Endpoint != endpoint {
				t.Errorf("endpoint %q, want %q", status.Endpoint, endpoint)
			}
			if (status.Operation == nil) != (meta.IsStatusConditionFalse(status.Conditions, glassback.ConditionProgressing)) {
				t.Errorf("operation %v", status.Operation)
			}
		})
	}
}

func TestStatusSaysWhatEachNodeIs(t *testing.T) {
	o := with(six(), silenced(time.Second, 3), linkDown(4), podIs(old, 5))
	status := statusFor(o)
	nodes := []v1.Node{
		{Pod: "demo-0", ID: "id-0", IP: "10.1.0.0", Role: v1.RoleMaster},
		{Pod: "demo-1", ID: "id-1", IP: "10.1.0.1", Role: v1.RoleMaster},
		{Pod: "demo-2", ID: "id-2", IP: "10.1.0.2", Role: v1.RoleMaster},
		{Pod: "demo-3", ID: "id-3", IP: "10.1.0.3", Role: v1.RoleReplica, Master: "demo-0", Link: "down"},
		{Pod: "demo-4", ID: "id-4", IP: "10.1.0.4", Role: v1.RoleReplica, Master: "demo-1", Link: "down"},
		{Pod: "demo-5", ID: "id-5", IP: "10.1.0.5", Role: v1.RoleReplica, Master: "demo-2", Link: "up"},
	}
	if !slices.Equal(status.Nodes, nodes) {
		t.Errorf("nodes %+v, want %+v", status.Nodes, nodes)
	}
	shards := []v1.Shard{
		{Master: "demo-0", Slots: "0-5460"}, // Its replica does not say so.
		{Master: "demo-1", Slots: "5461-10922", Replicas: []string{"demo-4"}},
		{Master: "demo-2", Slots: "10923-16383", Replicas: []string{"demo-5"}},
	}
	if !equality.Semantic.DeepEqual(status.Shards, shards) {
		t.Errorf("shards %+v, want %+v", status.Shards, shards)
	}
	if status.Size != 6 || status.Masters != 3 || status.SlotsAssigned != redisnode.SlotCount ||
		status.Selector == "" || status.ObservedGeneration != 1 {
		t.Errorf("%+v", status)
	}
	// No member answers: nothing newer is known.
	dark := with(six(), func(d *observed) { d.Object.Status = status }, silenced(time.Second, all...))
	if got := statusFor(dark); !equality.Semantic.DeepEqual(got.Shards, shards) || got.Masters != 3 || got.Endpoint != "" {
		t.Errorf("while no member answers, the status is %+v, want what was before, and no endpoint", got)
	}
}

func TestStatusOperation(t *testing.T) {
	wider := func() *observed { return sixAnd(newcomer()) }
	for name, test := range map[string]struct {
		seen *observed
		want string // "": none
		new  bool   // or it began before
	}{
		"settled: none":                                {with(six()), "", false},
		"the one before has ended":                     {with(six(), under(opRoll)), "", false},
		"one begins":                                   {with(six(), silenced(1, 4)), opHeal, true},
		"it continues":                                 {with(six(), under(opHeal), silenced(1, 4)), opHeal, false},
		"it continues until the Pods are ready":        {with(six(), under(opRoll), podIs(unready, 4)), opRoll, false},
		"what is to be healed meanwhile is part of it": {with(six(), under(opScaleOut), silenced(1, 4)), opScaleOut, false},
		"another takes its place":                      {with(six(), under(opHeal), allOld), opRoll, true},
		"fewer Pods come before another revision":      {with(sixAnd(replica(0)), sized(6), allOld), opScaleIn, true},
		"more Pods while one is healed":                {with(wider(), under(opHeal)), opScaleOut, true},
		"more Pods of a cluster that is being formed":  {with(wider(), unformed, under(opForm)), opForm, false},
	} {
		got := ptr.Deref(statusFor(test.seen).Operation, v1.Operation{StartedAt: &metav1.Time{}})
		if got.Type != test.want || (got.Step == "") != (test.want == "") || got.StartedAt.Time.Equal(seenAt) != test.new {
			t.Errorf("%s: operation %+v, want %s, and a new one: %t", name, got, test.want, test.new)
		}
	}
}

// TestStatusIsTheSameForTheSame has errors that are another text each time be one status.
func TestStatusIsTheSameForTheSame(t *testing.T) {
	from := func(port int) v1.RedisClusterStatus {
		o := six()
		silenced(time.Hour, 4)(o)
		o.Members[4].fail(fmt.Errorf("CLUSTER MYID: read tcp 10.1.2.3:%d->10.1.0.4:6379: i/o timeout", port))
		return statusFor(with(o))
	}
	if a, b := from(40001), from(40002); !equality.Semantic.DeepEqual(a, b) {
		t.Errorf("%+v, and another time %+v", a, b)
	}
	const refused = "connect: dial tcp 10.1.0.4:6379: connect: connection refused"
	if got := withoutPort(errors.New(refused)); got != refused {
		t.Errorf("the cause of %q is %q", refused, got)
	}
}

func TestStatusWithoutTexts(t *testing.T) {
	base := func() v1.RedisClusterStatus { return statusFor(with(six(), allOld)) }
	for name, test := range map[string]struct {
		change func(*v1.RedisClusterStatus)
		want   bool
	}{
		"nothing":                 {func(*v1.RedisClusterStatus) {}, false},
		"another step":            {func(s *v1.RedisClusterStatus) { s.Operation.Step = "Another" }, false},
		"slots have moved":        {func(s *v1.RedisClusterStatus) { s.Shards[0].Slots = "0-7" }, false},
		"another reason":          {func(s *v1.RedisClusterStatus) { s.Conditions[0].Reason = "Another" }, true},
		"the operation has ended": {func(s *v1.RedisClusterStatus) { s.Operation = nil }, true},
		"a node has another role": {func(s *v1.RedisClusterStatus) { s.Nodes[0].Role = v1.RoleReplica }, true},
		"no endpoint":             {func(s *v1.RedisClusterStatus) { s.Endpoint = "" }, true},
	} {
		was, is := base(), base()
		test.change(&is)
		if got := !equality.Semantic.DeepEqual(withoutTexts(was), withoutTexts(is)); got != test.want {
			t.Errorf("%s: a major change: %t, want %t", name, got, test.want)
		}
		if !equality.Semantic.DeepEqual(was, base()) {
			t.Errorf("%s: it has changed the status", name)
		}
	}
}

// TestStatusKeepsALoss until the nodes show that it is over.
func TestStatusKeepsALoss(t *testing.T) {
	lost := statusFor(with(six(), renewed(0, 3)))
	c := meta.FindStatusCondition(lost.Conditions, v1.ConditionDataLoss)
	token := lossToken("0-5460")
	if !strings.Contains(c.Message, AnnotationAcceptDataLoss+"="+token) {
		t.Errorf("message %q, want the annotation with %s", c.Message, token)
	}
	later := func(alters ...alter) v1.RedisClusterStatus {
		o := six()
		o.Object.Status.Conditions = slices.Clone(lost.Conditions)
		o.Now = seenAt.Add(time.Hour)
		return statusFor(with(o, alters...))
	}
	noPassword := func(o *observed) { o.Problems = []problem{{reasonNoPassword, "gone"}} }
	for name, test := range map[string]struct {
		status v1.RedisClusterStatus
		want   bool
	}{
		"it is still so":       {later(renewed(0, 3)), true},
		"no member answers":    {later(silenced(time.Hour, all...)), true},
		"the slots are back":   {later(), false},
		"the password is gone": {later(silenced(1, all...), noPassword), true},
	} {
		got := meta.FindStatusCondition(test.status.Conditions, v1.ConditionDataLoss)
		if (got.Status == metav1.ConditionTrue) != test.want || (test.want && got.Message != c.Message) {
			t.Errorf("%s: %s: %s, want %t, and the same token", name, got.Status, got.Message, test.want)
		}
	}
	if c := meta.FindStatusCondition(later().Conditions, glassback.ConditionDegraded); c == nil || c.Reason != report.ReasonAsExpected {
		t.Errorf("though the slots are back, Degraded is %+v", c)
	}
}

func TestNodeMetrics(t *testing.T) {
	o := six()
	o.Members[0].View.Stats = redisnode.Stats{MemoryUsed: 7, Clients: 2}
	o.Members[1].View.Keys = 12
	o.Members[3].View.Offset = 900
	o.Members[4].View.LinkUp = false
	s, shown := newStage(t, o).settle(), map[cache.ObjectName][]redisnode.Metrics{}
	s.controller.nodes = func(cluster cache.ObjectName, nodes []redisnode.Metrics) { shown[cluster] = nodes }
	silent := o.Members[2]
	s.views[silent.ip()] = nil
	s.synced()

	want := []redisnode.Metrics{
		{Pod: "demo-0", Answers: true, Master: true, Slots: 5461, Keys: 10, Offset: 1000, Lag: -1,
			Stats: redisnode.Stats{MemoryUsed: 7, Clients: 2}},
		{Pod: "demo-1", Answers: true, Master: true, Slots: 5462, Keys: 12, Offset: 1000, Lag: -1},
		{Pod: "demo-2"},
		{Pod: "demo-3", Answers: true, LinkUp: true, Keys: 10, Offset: 900, Lag: 100},
		{Pod: "demo-4", Answers: true, Keys: 10, Offset: 1000, Lag: 0},
		{Pod: "demo-5", Answers: true, LinkUp: true, Keys: 10, Offset: 1000, Lag: -1},
	}
	if got := shown[demoKey]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	s.edit(paused)
	s.synced()
	if got := shown[demoKey]; got != nil {
		t.Errorf("the nodes of a paused RedisCluster are %+v", got)
	}
}
