// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

var t0 = time.Date(2022, 1, 9, 13, 50, 0, 0, time.UTC)

func TestConditionsSet(t *testing.T) {
	before := metav1.Condition{
		Type: glassback.ConditionReady, Status: metav1.ConditionFalse, Reason: "Waiting", Message: "It waits",
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(t0),
	}
	for sentence, test := range map[string]struct {
		list            []metav1.Condition
		is              bool
		reason, message string
		want            metav1.Condition
	}{
		"a new one gets the time, in whole seconds": {
			is: true, reason: "Done", message: "It is done",
			want: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: "Done", Message: "It is done", LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
			},
		},
		"another status gets the time": {
			list: []metav1.Condition{before}, is: true, reason: "Done", message: "It is done",
			want: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: "Done", Message: "It is done", LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
			},
		},
		"another reason keeps the time": {
			list: []metav1.Condition{before}, reason: "Broken", message: "It is broken",
			want: metav1.Condition{Status: metav1.ConditionFalse, Reason: "Broken", Message: "It is broken", LastTransitionTime: metav1.NewTime(t0)},
		},
		"a message that is long enough is kept": {
			is: true, reason: "Done", message: strings.Repeat("m", maxMessage),
			want: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: "Done",
				Message: strings.Repeat("m", maxMessage), LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
			},
		},
		"a longer message is cut, between two characters": {
			is: true, reason: "Done", message: "-" + strings.Repeat("ß", maxMessage),
			want: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: "Done", Message: "-" + strings.Repeat("ß", maxMessage/2-1) + "…",
				LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
			},
		},
		"the same at a later generation keeps the time": {
			list: []metav1.Condition{before}, reason: "Waiting", message: "It waits",
			want: metav1.Condition{Status: metav1.ConditionFalse, Reason: "Waiting", Message: "It waits", LastTransitionTime: metav1.NewTime(t0)},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			list := slices.Clone(test.list)
			Conditions{List: &list, Generation: 7, Now: t0.Add(time.Minute + 300*time.Millisecond)}.
				Set(glassback.ConditionReady, test.is, test.reason, test.message)
			test.want.Type, test.want.ObservedGeneration = glassback.ConditionReady, 7
			if !slices.Equal(list, []metav1.Condition{test.want}) {
				t.Errorf("conditions %+v, want %+v alone", list, test.want)
			}
		})
	}
}

func TestTransitions(t *testing.T) {
	ready := func(is metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: glassback.ConditionReady, Status: is, Reason: reason, Message: "about Ready"}
	}
	degraded := func(is metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: glassback.ConditionDegraded, Status: is, Reason: reason, Message: "about Degraded"}
	}
	fine := degraded(metav1.ConditionFalse, ReasonAsExpected)
	type conditions = []metav1.Condition
	for sentence, test := range map[string]struct {
		was, now conditions
		calm     []string
		want     []string
	}{
		"nothing changes: no event": {
			was: conditions{ready(metav1.ConditionTrue, "Done"), fine}, now: conditions{ready(metav1.ConditionTrue, "Done"), fine},
		},
		"the first report of a good state: one event, and none that all is as expected": {
			now: conditions{ready(metav1.ConditionTrue, "Done"), fine}, want: []string{"Normal Done about Ready"},
		},
		"the first report, of what is nothing bad: no event": {
			now: conditions{ready(metav1.ConditionFalse, "Waiting"), fine}, calm: []string{"Waiting"},
		},
		"only the text changes: no event": {
			was: conditions{{Type: glassback.ConditionReady, Status: metav1.ConditionTrue, Reason: "Done", Message: "2 of 3"}, fine},
			now: conditions{ready(metav1.ConditionTrue, "Done"), fine},
		},
		"not ready: a warning": {
			was: conditions{ready(metav1.ConditionTrue, "Done"), fine}, now: conditions{ready(metav1.ConditionFalse, "Waiting"), fine},
			want: []string{"Warning Waiting about Ready"},
		},
		"not ready, for a reason that is nothing bad: no warning": {
			was: conditions{ready(metav1.ConditionTrue, "Done"), fine}, now: conditions{ready(metav1.ConditionFalse, "Waiting"), fine},
			calm: []string{"Other", "Waiting"}, want: []string{"Normal Waiting about Ready"},
		},
		"degraded: a warning": {
			was:  conditions{ready(metav1.ConditionTrue, "Done"), fine},
			now:  conditions{ready(metav1.ConditionTrue, "Done"), degraded(metav1.ConditionTrue, "Broken")},
			want: []string{"Warning Broken about Degraded"},
		},
		"not ready and degraded for one reason: one event": {
			was:  conditions{ready(metav1.ConditionTrue, "Done"), fine},
			now:  conditions{ready(metav1.ConditionFalse, "Broken"), degraded(metav1.ConditionTrue, "Broken")},
			want: []string{"Warning Broken about Ready"},
		},
		"not ready and degraded for two reasons: two events": {
			now:  conditions{ready(metav1.ConditionFalse, "Waiting"), degraded(metav1.ConditionTrue, "Broken")},
			want: []string{"Warning Waiting about Ready", "Warning Broken about Degraded"},
		},
		"degraded for another reason than before: a warning again": {
			was:  conditions{ready(metav1.ConditionTrue, "Done"), degraded(metav1.ConditionTrue, "Broken")},
			now:  conditions{ready(metav1.ConditionTrue, "Done"), degraded(metav1.ConditionTrue, "Lost")},
			want: []string{"Warning Lost about Degraded"},
		},
		"corrected: both send an event, and none is a warning": {
			was:  conditions{ready(metav1.ConditionFalse, "Broken"), degraded(metav1.ConditionTrue, "Broken")},
			now:  conditions{ready(metav1.ConditionTrue, "Done"), fine},
			want: []string{"Normal Done about Ready", "Normal AsExpected about Degraded"},
		},
		"other conditions: no event": {
			was: conditions{fine}, now: conditions{fine, {Type: "Available", Status: metav1.ConditionFalse, Reason: "Gone"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			recorder := record.NewFakeRecorder(10)
			transitions(recorder, &corev1.ConfigMap{}, test.was, test.now, test.calm...)
			close(recorder.Events)
			var events []string
			for event := range recorder.Events {
				events = append(events, event)
			}
			if !slices.Equal(events, test.want) {
				t.Errorf("events %q, want %q", events, test.want)
			}
		})
	}
}
