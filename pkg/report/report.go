/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package report is how controllers tell what a sync has found: in the conditions
// of a status, and in an event for every transition of theirs.
package report

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// Conditions sets the conditions of one status.
type Conditions struct {
	// List is what is set. It must not be shared with a cached object.
	List *[]metav1.Condition
	// Generation is the metadata.generation that the conditions are about.
	Generation int64
	Now        time.Time
}

// maxMessage bounds a condition's message, which also goes into an event: what the
// API server says of an object may hold much of that object.
const maxMessage = 1000

// Set says that the condition kind is True, or False, and why.
func (c Conditions) Set(kind string, is bool, reason, message string) {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	value := metav1.ConditionFalse
	if is {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(c.List, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message,
		ObservedGeneration: c.Generation, LastTransitionTime: metav1.NewTime(c.Now.Truncate(time.Second)),
	})
}

// Keep is Set, but a condition that says the same of the same generation keeps its
// message: what the API server says may be another text each time.
func (c Conditions) Keep(kind string, is bool, reason, message string) {
	was := meta.FindStatusCondition(*c.List, kind)
	if was != nil && was.Reason == reason && was.ObservedGeneration == c.Generation && (was.Status == metav1.ConditionTrue) == is {
		return
	}
	c.Set(kind, is, reason, message)
}

// ReasonAsExpected is the reason of a Degraded that is False.
const ReasonAsExpected = "AsExpected"

// Transitions sends an event about obj for each of Ready and Degraded whose reason
// is another one than before, and returns the reason that it told last, or "". The
// event is a warning if the condition is bad, unless its reason is one of calm: with
// such a reason, an object that is new is not worth an event at all.
func Transitions(recorder record.EventRecorder, obj runtime.Object, was, now []metav1.Condition, calm ...string) string {
	told := ""
	for _, kind := range []string{glassback.ConditionReady, glassback.ConditionDegraded} {
		before, is := meta.FindStatusCondition(was, kind), meta.FindStatusCondition(now, kind)
		if is == nil || is.Reason == told || (before != nil && before.Reason == is.Reason) {
			continue
		}
		if before == nil && (is.Reason == ReasonAsExpected || slices.Contains(calm, is.Reason)) {
			continue
		}
		severity := corev1.EventTypeNormal
		if bad := (kind == glassback.ConditionDegraded) == (is.Status == metav1.ConditionTrue); bad && !slices.Contains(calm, is.Reason) {
			severity = corev1.EventTypeWarning
		}
		recorder.Event(obj, severity, is.Reason, is.Message)
		told = is.Reason
	}
	return told
}
