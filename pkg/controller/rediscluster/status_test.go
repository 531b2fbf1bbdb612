// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
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
func statusFor(o *observed, problems ...problem) v1.RedisClusterStatus {
	return statusOf(o, decide(o), outcome{problems: problems})
}

func TestStatus(t *testing.T) {
	refused := func(o *observed) {
		silenced(time.Second, 4)(o)
		o.members[4].fail(fmt.Errorf("HELLO: %w: the node has another one", redisnode.ErrPassword))
	}
	commandFails := func(lasts time.Duration) alter {
		return func(o *observed) {
			o.failure, o.failingFor = &problem{reasonFailing, "meet demo-1 demo-0: it fails"}, lasts
		}
	}
	service := problem{reasonConflict, "Service demo exists already and has no controller"}
	full := viewed(func(v *redisnode.View) { v.WriteError = "aof_last_write_status is err" }, 1)
	unscheduled := func(p *corev1.Pod) {
		unstarted(p)
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		}}
	}
	news := func() *observed {
		return cluster(newcomer(), newcomer(), newcomer(), newcomer(), newcomer(), newcomer())
	}
	for name, test := range map[string]struct {
		seen     *observed
		also     []problem
		want     string // of the conditions
		message  string // of Ready; a part
		endpoint bool
	}{
		"settled": {
			seen: with(six()), want: "+Formed -Formed -AsExpected +Formed +AllSlotsCovered -NoDataLoss",
			message: "Pods: 6, masters: 3, slots: 16384", endpoint: true,
		},
		"forming: Pods are made": {
			seen: with(six(), unformed, clearStatus, noPod(0, 1, 2, 3, 4, 5)), message: "Waiting for demo-0",
			want: "-Forming +Forming -AsExpected -Forming -SlotsUncovered -NoDataLoss",
		},
		"forming: nodes are introduced": {
			seen: with(news(), unformed), message: "Introducing", want: "-Forming +Forming -AsExpected -Forming -SlotsUncovered -NoDataLoss",
		},
		"a replica is silent for a moment: healing": {
			seen: with(six(), silenced(time.Second, 4)), message: "Waiting for demo-4", endpoint: true,
			want: "-Healing +Healing -AsExpected +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a replica is silent for long: a problem": {
			seen: with(six(), silenced(silentTooLong+1, 4)), endpoint: true,
			message: "demo-4 has not answered for more than 30s: connection refused",
			want:    "-PodNotAnswering +Healing +PodNotAnswering +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a master is silent: its slots cannot be used": {
			seen:    with(six(), silenced(time.Second, 1)),
			message: "Waiting for demo-1",
			want:    "-Healing +Healing -AsExpected +Formed -SlotsUncovered -NoDataLoss",
		},
		"slots are lost": {
			seen:    with(six(), renewed(0, 3)),
			message: "have lost what they held",
			want:    "-DataLoss +Healing +DataLoss -Divided -SlotsUncovered +DataLoss",
		},
		"a node is none of ours": {
			seen: with(six(), known("ghost", true, "", 4)), message: "Node ghost", endpoint: true,
			want: "-UnknownNode +Healing +UnknownNode +Formed +AllSlotsCovered -NoDataLoss",
		},
		"two do not know each other, and both have a slot": {
			seen: with(sixAnd(part{slots: slotsOf("9"), masterOf: -1, lone: true})), message: "both have the slots 9",
			want: "-Divided +ScalingOut +Divided -Divided -SlotsUncovered -NoDataLoss",
		},
		"a Pod does not start": {
			seen:     with(six(), stored, podIs(crashing, 4), silenced(time.Second, 4)),
			message:  "demo-4 does not start: CrashLoopBackOff: back-off 10s",
			endpoint: true,
			want:     "-PodNotStarting +Healing +PodNotStarting +Formed +AllSlotsCovered -NoDataLoss",
		},
		"an init container does not end": {
			seen:     with(six(), stored, podIs(blocked, 4), silenced(time.Second, 4)),
			message:  "demo-4 does not start: CrashLoopBackOff: back-off 10s",
			endpoint: true,
			want:     "-PodNotStarting +Healing +PodNotStarting +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a Pod finds no machine": {
			seen:     with(six(), stored, podIs(unscheduled, 4), silenced(time.Second, 4)),
			message:  "demo-4 does not start: Unschedulable",
			endpoint: true,
			want:     "-PodNotStarting +Healing +PodNotStarting +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a node refuses the password": {
			seen: with(six(), refused), message: "demo-4: HELLO: the password is refused: the node has another one", endpoint: true,
			want: "-PasswordRefused +Healing +PasswordRefused +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a disk is full": {
			seen: with(six(), full), message: "demo-1 cannot keep what is written to it", endpoint: true,
			want: "-CannotWrite +Healing +CannotWrite +Formed +AllSlotsCovered -NoDataLoss",
		},
		"masters have had different functions for long": {
			seen:     with(six(), libraries("f=1", 0, 1), differs(differTooLong+1)),
			message:  "demo-0 and demo-2 do not have the same library f",
			endpoint: true,
			want:     "-FunctionsDiffer -Formed +FunctionsDiffer +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a library is loaded on one master after the other": {
			seen: with(six(), libraries("f=1", 0, 1), differs(differTooLong)), message: "Pods: 6, masters: 3", endpoint: true,
			want: "+Formed -Formed -AsExpected +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a master without slots alone has a library": {
			seen:     with(sixAnd(master("")), libraries("g=1", 6)),
			message:  "demo-6 is a master without slots, but has the function library g",
			endpoint: true,
			want:     "-HeldBack -Formed +HeldBack +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a command fails for a moment": {
			seen: with(six(), commandFails(failingTooLong)), message: "Pods: 6, masters: 3", endpoint: true,
			want: "+Formed -Formed -AsExpected +Formed +AllSlotsCovered -NoDataLoss",
		},
		"a command fails for long": {
			seen: with(six(), commandFails(failingTooLong+1)), message: "it fails", endpoint: true,
			want: "-CommandFailing -Formed +CommandFailing +Formed +AllSlotsCovered -NoDataLoss",
		},
		"the Service has another owner": {
			seen: with(six()), also: []problem{service, service}, message: "Service demo exists already", endpoint: true,
			want: "-Conflict -Formed +Conflict +Formed +AllSlotsCovered -NoDataLoss",
		},
		"another revision": {
			seen: with(six(), allOld), message: "6 Pods are not up to date", endpoint: true,
			want: "-Rolling +Rolling -AsExpected +Formed +AllSlotsCovered -NoDataLoss",
		},
		"fewer Pods": {
			seen: with(sixAnd(replica(0)), sized(6)), message: "Removing demo-6", endpoint: true,
			want: "-ScalingIn +ScalingIn -AsExpected +Formed +AllSlotsCovered -NoDataLoss",
		},
		"more Pods": {
			seen: with(sixAnd(newcomer())), message: "Introducing",
			want: "-ScalingOut +ScalingOut -AsExpected -Divided +AllSlotsCovered -NoDataLoss", endpoint: true,
		},
		"a node says that the cluster is down": {
			seen: with(six(), viewed(func(v *redisnode.View) { v.StateOK = false }, 2)), message: "demo-2, which reports",
			want: "-Healing +Healing -AsExpected +Formed -SlotsUncovered -NoDataLoss",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := statusFor(test.seen, test.also...)
			if got := verdict(status); got != test.want {
				t.Errorf("conditions %s, want %s", got, test.want)
			}
			message := meta.FindStatusCondition(status.Conditions, glassback.ConditionReady).Message
			if !strings.Contains(message, test.message) || strings.Count(message, test.message) > 1 {
				t.Errorf("message %q, want one with %q, once", message, test.message)
			}
			if got := status.Endpoint == "10.0.0.1:6379"; got != test.endpoint || (!got && status.Endpoint != "") {
				t.Errorf("endpoint %q", status.Endpoint)
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
	o.rdc.Status = status
	dark := with(cluster(sixOf()...), func(d *observed) { d.rdc.Status = status }, silenced(time.Second, 0, 1, 2, 3, 4, 5))
	if got := statusFor(dark); !equality.Semantic.DeepEqual(got.Shards, shards) || got.Masters != 3 || got.Endpoint != "" {
		t.Errorf("shards %+v of %d masters at %q while no member answers, want them as before, and no endpoint",
			got.Shards, got.Masters, got.Endpoint)
	}
}

func TestStatusOperation(t *testing.T) {
	began := metav1.NewTime(seenAt.Add(-time.Minute))
	now := metav1.NewTime(seenAt)
	wider := func() *observed { return sixAnd(newcomer()) }
	for name, test := range map[string]struct {
		seen *observed
		want *v1.Operation
	}{
		"settled: none":                         {with(six()), nil},
		"the one before has ended":              {with(six(), under(opRoll)), nil},
		"one begins":                            {with(six(), silenced(1, 4)), &v1.Operation{Type: opHeal, StartedAt: &now}},
		"it continues":                          {with(six(), under(opHeal), silenced(1, 4)), &v1.Operation{Type: opHeal, StartedAt: &began}},
		"it continues until the Pods are ready": {with(six(), under(opRoll), podIs(unready, 4)), &v1.Operation{Type: opRoll, StartedAt: &began}},
		"what is to be healed meanwhile is part of it": {
			with(six(), under(opScaleOut), silenced(1, 4)), &v1.Operation{Type: opScaleOut, StartedAt: &began},
		},
		"another takes its place":                 {with(six(), under(opHeal), allOld), &v1.Operation{Type: opRoll, StartedAt: &now}},
		"fewer Pods come before another revision": {with(sixAnd(replica(0)), sized(6), allOld), &v1.Operation{Type: opScaleIn, StartedAt: &now}},
		"more Pods":                                   {with(wider()), &v1.Operation{Type: opScaleOut, StartedAt: &now}},
		"more Pods while one is healed":               {with(wider(), under(opHeal)), &v1.Operation{Type: opScaleOut, StartedAt: &now}},
		"more Pods of a cluster that is being formed": {with(wider(), unformed, under(opForm)), &v1.Operation{Type: opForm, StartedAt: &began}},
	} {
		t.Run(name, func(t *testing.T) {
			got := statusFor(test.seen).Operation
			if got != nil {
				if got.Step == "" {
					t.Error("an operation without a step")
				}
				got.Step = ""
			}
			if !equality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("operation %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestStatusIsTheSameForTheSame has errors that are another text each time be one status.
func TestStatusIsTheSameForTheSame(t *testing.T) {
	from := func(port int) v1.RedisClusterStatus {
		o := six()
		silenced(time.Hour, 4)(o)
		o.members[4].fail(fmt.Errorf("CLUSTER MYID: read tcp 10.1.2.3:%d->10.1.0.4:6379: i/o timeout", port))
		return statusFor(with(o))
	}
	if a, b := from(40001), from(40002); !equality.Semantic.DeepEqual(a, b) {
		t.Errorf("%+v, and another time %+v", a, b)
	}
	for text, want := range map[string]string{
		"PING: read tcp 10.1.2.3:40001->10.1.0.4:6379: i/o timeout":    "PING: read tcp 10.1.0.4:6379: i/o timeout",
		"PING: write tcp 10.1.2.3:40001->10.1.0.4:6379: broken pipe":   "PING: write tcp 10.1.0.4:6379: broken pipe",
		"connect: dial tcp 10.1.0.4:6379: connect: connection refused": "connect: dial tcp 10.1.0.4:6379: connect: connection refused",
		"it is loading its data": "it is loading its data",
	} {
		if got := withoutPort(errors.New(text)); got != want {
			t.Errorf("the cause of %q is %q, want %q", text, got, want)
		}
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
		"another message":         {func(s *v1.RedisClusterStatus) { s.Conditions[0].Message = "Another" }, false},
		"slots have moved":        {func(s *v1.RedisClusterStatus) { s.Shards[0].Slots = "0-7" }, false},
		"another reason":          {func(s *v1.RedisClusterStatus) { s.Conditions[0].Reason = "Another" }, true},
		"another operation":       {func(s *v1.RedisClusterStatus) { s.Operation.Type = opHeal }, true},
		"the operation has ended": {func(s *v1.RedisClusterStatus) { s.Operation = nil }, true},
		"a node has another role": {func(s *v1.RedisClusterStatus) { s.Nodes[0].Role = v1.RoleReplica }, true},
		"a node has an ID":        {func(s *v1.RedisClusterStatus) { s.Nodes[0].ID = "another" }, true},
		"one master more":         {func(s *v1.RedisClusterStatus) { s.Masters++ }, true},
		"no endpoint":             {func(s *v1.RedisClusterStatus) { s.Endpoint = "" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := base(), base()
			test.change(&is)
			if got := !equality.Semantic.DeepEqual(withoutTexts(was), withoutTexts(is)); got != test.want {
				t.Errorf("a major change: %t, want %t", got, test.want)
			}
			if !equality.Semantic.DeepEqual(was, base()) {
				t.Error("it has changed the status")
			}
		})
	}
}

func TestStatusOfInvalid(t *testing.T) {
	o := with(six())
	o.rdc.Status = statusFor(o)
	o.rdc.Generation, o.rdc.Spec.Addr = 2, "nowhere"
	status := statusOfInvalid(o.rdc, o.rdc.Validate(nil), seenAt)
	if got, want := verdict(status), "-InvalidSpec -InvalidSpec +InvalidSpec +Formed +AllSlotsCovered -NoDataLoss"; got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
	if status.ObservedGeneration != 2 || status.Endpoint == "" || len(status.Shards) != 3 {
		t.Errorf("%+v, want what runs to be as before", status)
	}
	if was := meta.FindStatusCondition(o.rdc.Status.Conditions, glassback.ConditionReady); was.Status != metav1.ConditionTrue {
		t.Error("the status before was changed")
	}
}

// TestStatusKeepsALoss until the nodes show that it is over.
func TestStatusKeepsALoss(t *testing.T) {
	lost := statusFor(with(six(), renewed(0, 3)))
	c := meta.FindStatusCondition(lost.Conditions, v1.ConditionDataLoss)
	token := newLoss(six().rdc, slotsOf("0-5460"), seenAt).token
	if !strings.Contains(c.Message, AnnotationAcceptDataLoss+"="+token) {
		t.Errorf("message %q, want the annotation with %s", c.Message, token)
	}
	later := func(alters ...alter) v1.RedisClusterStatus {
		o := six()
		o.rdc.Status.Conditions = slices.Clone(lost.Conditions)
		o.now = seenAt.Add(time.Hour)
		return statusFor(with(o, alters...))
	}
	for name, test := range map[string]struct {
		status v1.RedisClusterStatus
		want   bool
	}{
		"it is still so":     {later(renewed(0, 3)), true},
		"no member answers":  {later(silenced(time.Hour, 0, 1, 2, 3, 4, 5)), true},
		"the slots are back": {later(), false},
		"the password is gone": {
			later(silenced(1, 0, 1, 2, 3, 4, 5), func(o *observed) { o.problems = []problem{{reasonNoPassword, "gone"}} }),
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := meta.FindStatusCondition(test.status.Conditions, v1.ConditionDataLoss)
			if (got.Status == metav1.ConditionTrue) != test.want || (test.want && got.Message != c.Message) {
				t.Errorf("%s: %s, want %t, and the same token", got.Status, got.Message, test.want)
			}
		})
	}
	degraded := meta.FindStatusCondition(later().Conditions, glassback.ConditionDegraded)
	if ptr.Deref(degraded, metav1.Condition{}).Reason != report.ReasonAsExpected {
		t.Error("Degraded though the slots are back")
	}
}
