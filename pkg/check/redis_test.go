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
