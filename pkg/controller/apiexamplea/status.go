/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiexamplea

import (
	"fmt"
	"time"

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
)

// statusOfInvalid is the status of an object whose spec has errs. The ConfigMap is
// left as it is.
func statusOfInvalid(example *v1.ApiExampleA, errs field.ErrorList, now time.Time) v1.ApiExampleAStatus {
	return failed(example, child.Problem{Reason: reasonInvalidSpec, Message: errs.ToAggregate().Error()}, now)
}

// statusAfter is the status after a sync that wrote nothing: because all is as it
// should be, or because of a problem.
func statusAfter(example *v1.ApiExampleA, problem *child.Problem, now time.Time) v1.ApiExampleAStatus {
	if problem != nil {
		return failed(example, *problem, now)
	}
	status, conditions := begin(example, now)
	status.Status, status.Greeting = v1.StateRunning, example.Greeting()
	conditions.Set(glassback.ConditionReady, true, reasonGreeted, fmt.Sprintf("ConfigMap %s holds the greeting", example.ConfigMapName()))
	conditions.Set(glassback.ConditionProgressing, false, reasonSettled, "All is done")
	conditions.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Nothing is wrong")
	return *status
}

// failed is the status of an object whose greeting cannot be kept.
func failed(example *v1.ApiExampleA, problem child.Problem, now time.Time) v1.ApiExampleAStatus {
	status, conditions := begin(example, now)
	status.Status, status.Greeting = v1.StateFailed, ""
	conditions.Set(glassback.ConditionReady, false, problem.Reason, problem.Message)
	conditions.Set(glassback.ConditionProgressing, false, problem.Reason, "It waits until that is mended")
	conditions.Set(glassback.ConditionDegraded, true, problem.Reason, problem.Message)
	return *status
}

// begin returns a copy of the status that example has, for this generation, and
// what sets its conditions.
func begin(example *v1.ApiExampleA, now time.Time) (*v1.ApiExampleAStatus, report.Conditions) {
	status := example.Status.DeepCopy()
	status.ObservedGeneration = example.Generation
	return status, report.Conditions{List: &status.Conditions, Generation: example.Generation, Now: now}
}
