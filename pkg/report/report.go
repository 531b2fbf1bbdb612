// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report writes what a sync has found: into the conditions of a status, and into an event for each transition of a condition.
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
	// List holds the conditions. It must not be shared with a cached object.
	List *[]metav1.Condition
	// Generation is the metadata.generation that the conditions describe.
	Generation int64
	Now        time.Time
}

// maxMessage is the length in bytes at which Set truncates a message, which also goes into an event: an error of the API
// server may quote much of an object.
const maxMessage = 1000

// Set sets the condition kind to True or False, with a reason and a message.
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

// Keep does what Set does. But a condition of the same generation with the same status and reason keeps its message: the
// API server may word the same error in another way each time.
func (c Conditions) Keep(kind string, is bool, reason, message string) {
	was := meta.FindStatusCondition(*c.List, kind)
	if was != nil && was.Reason == reason && was.ObservedGeneration == c.Generation && (was.Status == metav1.ConditionTrue) == is {
		return
	}
	c.Set(kind, is, reason, message)
}

// ReasonAsExpected is the reason of a Degraded that is False.
const ReasonAsExpected = "AsExpected"

// transitions sends an event about obj for each of Ready and Degraded whose reason has changed; one event if both have
// the same new reason. The event is a warning if the condition reports a problem and its reason is none of calm. For a
// new object, a reason of calm causes no event.
func transitions(recorder record.EventRecorder, obj runtime.Object, was, now []metav1.Condition, calm ...string) {
	sent := ""
	for _, kind := range []string{glassback.ConditionReady, glassback.ConditionDegraded} {
		before, is := meta.FindStatusCondition(was, kind), meta.FindStatusCondition(now, kind)
		if is == nil || is.Reason == sent || (before != nil && before.Reason == is.Reason) {
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
		sent = is.Reason
	}
}
