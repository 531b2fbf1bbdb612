// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
)

// TestStatus is the table of what a sync may have found. Conditions are written as "True Reason: message".
func TestStatus(t *testing.T) {
	const fine = "False AsExpected: Nothing is wrong"
	const altered = "Something, such as a webhook, changes what the operator writes into ConfigMap sample-greeting"
	const waiting = "Waiting for the problem to be corrected"
	greets := func(greeting string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{greetingKey: greeting}}
	}
	status := func(e *v1.ApiExampleA, seen *corev1.ConfigMap, problem *child.Problem, at time.Time) v1.ApiExampleAStatus {
		o := &observed{example: e, now: at}
		o.configMap.Object = seen
		return statusOf(o, plan{}, outcome{Problem: problem})
	}
	for sentence, test := range map[string]struct {
		status                       func(*v1.ApiExampleA) v1.ApiExampleAStatus
		ready, degraded, progressing string
		state                        v1.State
		greeting                     string
	}{
		"nothing is wrong": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus {
				return status(e, greets("Greetings to Jimmy Zhuang"), nil, t0)
			},
			ready: "True Greeted: ConfigMap sample-greeting holds the greeting", degraded: fine, progressing: "False Settled: All is done",
			state: v1.StateRunning, greeting: "Greetings to Jimmy Zhuang",
		},
		"there was a problem": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus {
				return status(e, nil, &child.Problem{Reason: "ConfigMapRejected", Message: "because"}, t0)
			},
			ready: "False ConfigMapRejected: because", degraded: "True ConfigMapRejected: because",
			progressing: "False ConfigMapRejected: " + waiting, state: v1.StateFailed,
		},
		"there is the same problem, in other words: they stay": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus {
				e.Status = status(e, nil, &child.Problem{Reason: "ConfigMapRejected", Message: "because"}, t0)
				return status(e, nil, &child.Problem{Reason: "ConfigMapRejected", Message: "because of request 2"}, t0)
			},
			ready: "False ConfigMapRejected: because", degraded: "True ConfigMapRejected: because",
			progressing: "False ConfigMapRejected: " + waiting, state: v1.StateFailed,
		},
		"what was written is altered": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus { return status(e, greets("Boo"), nil, t0) },
			ready:  "False ConfigMapAltered: " + altered, degraded: "True ConfigMapAltered: " + altered,
			progressing: "False ConfigMapAltered: " + waiting, state: v1.StateFailed, greeting: "Boo",
		},
		"the spec is invalid": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus {
				o := &observed{example: e, now: t0}
				o.configMap.Object = greets("Greetings to Ada")
				return statusOf(o, plan{invalid: &child.Problem{Reason: reasonInvalidSpec, Message: "spec.foo: Required value: no"}}, outcome{})
			},
			ready: "False InvalidSpec: spec.foo: Required value: no", degraded: "True InvalidSpec: spec.foo: Required value: no",
			progressing: "False InvalidSpec: " + waiting, state: v1.StateFailed, greeting: "Greetings to Ada",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := example(func(e *v1.ApiExampleA) { e.Generation = 4 })
			was := e.Spec
			got := test.status(e)
			conditions := map[string]string{}
			for _, c := range got.Conditions {
				conditions[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
			}
			want := map[string]string{
				glassback.ConditionReady: test.ready, glassback.ConditionDegraded: test.degraded, glassback.ConditionProgressing: test.progressing,
			}
			if !maps.Equal(conditions, want) {
				t.Errorf("conditions %q, want %q", conditions, want)
			}
			if got.Status != test.state || got.Greeting != test.greeting || got.ObservedGeneration != 4 {
				t.Errorf("status %+v, want %q, %q and generation 4", got, test.state, test.greeting)
			}
			if !equality.Semantic.DeepEqual(e.Spec, was) {
				t.Error("the object was changed")
			}
			e.Status = *got.DeepCopy()
			again := status(e, greets(test.greeting), nil, t0.Add(time.Hour))
			if test.state == v1.StateRunning && !equality.Semantic.DeepEqual(again, got) {
				t.Errorf("the same state gives another status later: %+v, before %+v", again, got)
			}
		})
	}
}
