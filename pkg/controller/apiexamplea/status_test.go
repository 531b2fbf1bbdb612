/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiexamplea

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
)

// TestStatus is the table of what a sync may have found. Conditions are written as
// "True Reason: message".
func TestStatus(t *testing.T) {
	const fine = "False AsExpected: Nothing is wrong"
	const altered = "Something, a webhook perhaps, alters what is written into ConfigMap sample-greeting"
	greets := func(greeting string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{greetingKey: greeting}}
	}
	errs := field.ErrorList{field.Required(field.NewPath("spec", "foo"), "no")}
	for sentence, test := range map[string]struct {
		status                       func(*v1.ApiExampleA) v1.ApiExampleAStatus
		ready, degraded, progressing string
		state                        v1.State
		greeting                     string
	}{
		"nothing is wrong": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus {
				return statusAfter(e, greets("Greetings to Jimmy Zhuang"), nil, t0)
			},
			ready: "True Greeted: ConfigMap sample-greeting holds the greeting", degraded: fine, progressing: "False Settled: All is done",
			state: v1.StateRunning, greeting: "Greetings to Jimmy Zhuang",
		},
		"there was a problem": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus {
				return statusAfter(e, nil, &child.Problem{Reason: "ConfigMapRejected", Message: "because"}, t0)
			},
			ready: "False ConfigMapRejected: because", degraded: "True ConfigMapRejected: because",
			progressing: "False ConfigMapRejected: It waits until that is mended", state: v1.StateFailed,
		},
		"there is the same problem, in other words: they stay": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus {
				e.Status = statusAfter(e, nil, &child.Problem{Reason: "ConfigMapRejected", Message: "because"}, t0)
				return statusAfter(e, nil, &child.Problem{Reason: "ConfigMapRejected", Message: "because of request 2"}, t0)
			},
			ready: "False ConfigMapRejected: because", degraded: "True ConfigMapRejected: because",
			progressing: "False ConfigMapRejected: It waits until that is mended", state: v1.StateFailed,
		},
		"what was written is altered": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus { return statusAfter(e, greets("Boo"), nil, t0) },
			ready:  "False ConfigMapAltered: " + altered, degraded: "True ConfigMapAltered: " + altered,
			progressing: "False ConfigMapAltered: It waits until that is mended", state: v1.StateFailed, greeting: "Boo",
		},
		"the spec is invalid": {
			status: func(e *v1.ApiExampleA) v1.ApiExampleAStatus {
				return statusOfInvalid(e, greets("Greetings to somebody"), errs, t0)
			},
			ready: "False InvalidSpec: spec.foo: Required value: no", degraded: "True InvalidSpec: spec.foo: Required value: no",
			progressing: "False InvalidSpec: It waits until that is mended", state: v1.StateFailed, greeting: "Greetings to somebody",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := example(func(e *v1.ApiExampleA) { e.Generation = 4 })
			was := e.Spec
			status := test.status(e)
			got := map[string]string{}
			for _, c := range status.Conditions {
				got[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
			}
			want := map[string]string{
				glassback.ConditionReady: test.ready, glassback.ConditionDegraded: test.degraded, glassback.ConditionProgressing: test.progressing,
			}
			if !maps.Equal(got, want) {
				t.Errorf("conditions %q, want %q", got, want)
			}
			if status.Status != test.state || status.Greeting != test.greeting || status.ObservedGeneration != 4 {
				t.Errorf("status %+v, want %q, %q and generation 4", status, test.state, test.greeting)
			}
			if !equality.Semantic.DeepEqual(e.Spec, was) {
				t.Error("the object was changed")
			}
			e.Status = status
			e.Status.Conditions = append([]metav1.Condition(nil), status.Conditions...)
			if again := statusAfter(e, greets(test.greeting), nil, t0.Add(time.Hour)); test.state == v1.StateRunning && !equality.Semantic.DeepEqual(again, status) {
				t.Errorf("the same state gives another status later: %+v, before %+v", again, status)
			}
		})
	}
}
