/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiexamplea

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/report"
)

// Reasons of the conditions, beside those of a child.Problem.
const (
	reasonGreeted     = "Greeted"
	reasonSettled     = "Settled"
	reasonInvalidSpec = "InvalidSpec"
	reasonAltered     = "ConfigMapAltered"
)

// statusOfInvalid is the status of an object whose spec has errs. The ConfigMap is
// left as it is.
func statusOfInvalid(example *v1.ApiExampleA, seen *corev1.ConfigMap, errs field.ErrorList, now time.Time) v1.ApiExampleAStatus {
	return statusAfter(example, seen, &child.Problem{Reason: reasonInvalidSpec, Message: errs.ToAggregate().Error()}, now)
}

// statusAfter is the status after a sync that saw this ConfigMap, which is nil if
// there is none, and wrote nothing: because all is as it should be, or because of a
// problem.
func statusAfter(example *v1.ApiExampleA, seen *corev1.ConfigMap, problem *child.Problem, now time.Time) v1.ApiExampleAStatus {
	status := *example.Status.DeepCopy()
	status.ObservedGeneration = example.Generation
	status.Status, status.Greeting = v1.StateFailed, ""
	if seen != nil {
		status.Greeting = seen.Data[greetingKey]
	}
	if problem == nil && status.Greeting != example.Greeting() {
		problem = &child.Problem{Reason: reasonAltered, Message: fmt.Sprintf(
			"Something, a webhook perhaps, alters what is written into ConfigMap %s", example.ConfigMapName())}
	}
	conditions := report.Conditions{List: &status.Conditions, Generation: example.Generation, Now: now}
	if problem != nil {
		conditions.Keep(glassback.ConditionReady, false, problem.Reason, problem.Message)
		conditions.Keep(glassback.ConditionProgressing, false, problem.Reason, "It waits until that is mended")
		conditions.Keep(glassback.ConditionDegraded, true, problem.Reason, problem.Message)
		return status
	}
	status.Status = v1.StateRunning
	conditions.Set(glassback.ConditionReady, true, reasonGreeted, fmt.Sprintf("ConfigMap %s holds the greeting", example.ConfigMapName()))
	conditions.Set(glassback.ConditionProgressing, false, reasonSettled, "All is done")
	conditions.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Nothing is wrong")
	return status
}
