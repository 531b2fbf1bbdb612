// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

func TestTheBackupsOfRedis(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       State
	}{
		"none is reported": {nil, Skipped},
		"none has ended":   {[]metav1.Condition{{Type: redisv1.ConditionBackedUp, Status: metav1.ConditionFalse, Reason: "NotYet"}}, Skipped},
		"the last failed":  {[]metav1.Condition{{Type: redisv1.ConditionBackedUp, Status: metav1.ConditionFalse, Reason: "Failed"}}, Failed},
		"there is no image": {
			[]metav1.Condition{{Type: redisv1.ConditionBackedUp, Status: metav1.ConditionFalse, Reason: "BackupImageMissing"}}, Failed,
		},
		"the last succeeded": {[]metav1.Condition{{Type: redisv1.ConditionBackedUp, Status: metav1.ConditionTrue}}, OK},
	} {
		t.Run(name, func(t *testing.T) {
			rdc := &redisv1.RedisCluster{Status: redisv1.RedisClusterStatus{Conditions: test.conditions}}
			rdc.Namespace, rdc.Name, rdc.Spec.Backup = "default", "demo", &redisv1.Backup{}
			c := &checker{redis: []*redisv1.RedisCluster{rdc, {}}}
			checks := c.nodeChecks()
			if len(checks) != 3 || checks[1].ID != "redis/default/demo/backups" {
				t.Fatalf("the checks are %+v", checks)
			}
			if got := checks[1].Run(t.Context()); got.State != test.want {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
}

// A client outside of the cluster is told which addresses it does not reach.
func TestTheAnswersOfRedisFromOutside(t *testing.T) {
	rdc := &redisv1.RedisCluster{}
	rdc.Spec.Access = &redisv1.Access{External: &redisv1.ExternalAccess{Type: redisv1.ExternalNodePort}}
	rdc.Status.Nodes = []redisv1.Node{{Pod: "a-0", Address: "192.0.2.1:30000"}, {Pod: "a-1", Address: "[2001:db8::1]:30001"}}
	waiting := rdc.DeepCopy()
	waiting.Status.Nodes[1].Address = ""
	inside := rdc.DeepCopy()
	inside.Spec.Access = nil
	closed := errors.New("connect: refused")
	missed := func(pod, why string) Result {
		return Result{State: Warning, Reason: "x; from outside, not all answer: " + pod + ": " + why}
	}
	for name, test := range map[string]struct {
		rdc    *redisv1.RedisCluster
		before Result
		errs   map[int]error // by port
		want   Result
	}{
		"all answer":                     {rdc, pass("2 of 2 answer"), nil, pass("2 of 2 answer; from outside, 2 nodes answer")},
		"they answer only there":         {rdc, skip("no way"), nil, pass("no way; from outside, 2 nodes answer")},
		"one wants a password":           {rdc, pass(""), map[int]error{30000: redisnode.ErrPassword}, pass("from outside, 2 nodes answer")},
		"a warning stays":                {rdc, warn("one is silent", "see it"), nil, warn("one is silent", "see it")},
		"a failure stays":                {rdc, fail("none answers", "see them"), map[int]error{30000: closed}, fail("none answers", "see them")},
		"there is no access":             {inside, pass("2 of 2 answer"), map[int]error{30000: closed}, pass("2 of 2 answer")},
		"one is not reached from here":   {rdc, pass("x"), map[int]error{30001: closed}, missed("a-1", "connect: refused")},
		"one has no address until later": {waiting, pass("x"), nil, missed("a-1", "the node has no address outside of the cluster")},
	} {
		t.Run(name, func(t *testing.T) {
			got := reached(test.rdc, test.before, func(_ string, port int) error { return test.errs[port] })
			if got.State != test.want.State || got.Reason != test.want.Reason || (got.State == Warning && got.Remedy == "") {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestTheAnswersOfRedis(t *testing.T) {
	well, unwell := nodeAnswer{pod: "p", view: &redisnode.View{StateOK: true}}, nodeAnswer{pod: "p", view: &redisnode.View{}}
	silent, locked := nodeAnswer{pod: "p", err: errors.New("connect: refused")}, nodeAnswer{pod: "p", err: redisnode.ErrPassword}
	for name, test := range map[string]struct {
		answers         []nodeAnswer
		inside, outside State
	}{
		"all are well":                  {[]nodeAnswer{well, well}, OK, OK},
		"none has an address":           {nil, Skipped, Skipped},
		"none can be reached":           {[]nodeAnswer{silent, silent}, Failed, Skipped},
		"one cannot be reached":         {[]nodeAnswer{well, silent}, Warning, Warning},
		"one takes no requests":         {[]nodeAnswer{well, unwell}, Warning, Warning},
		"all of them want to know more": {[]nodeAnswer{locked, locked}, Failed, OK},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answered(test.answers, 2, true); got.State != test.inside {
				t.Errorf("inside: %+v, want %s", got, test.inside)
			}
			if got := answered(test.answers, 2, false); got.State != test.outside {
				t.Errorf("outside: %+v, want %s", got, test.outside)
			}
		})
	}
}
