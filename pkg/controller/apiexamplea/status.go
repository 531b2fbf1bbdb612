// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"cmp"
	"fmt"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/report"
)

// These are the reasons of the conditions, besides the reasons of a child.Problem.
const (
	reasonGreeted     = "Greeted"
	reasonSettled     = "Settled"
	reasonInvalidSpec = "InvalidSpec"
	reasonAltered     = "ConfigMapAltered"
)

// statusOf returns the status after a sync that wrote no ConfigMap: the observed ConfigMap is as desired, or there is
// a problem.
func statusOf(o *observed, p plan, out outcome) v1.ApiExampleAStatus {
	example := o.example
	status := *example.Status.DeepCopy()
	status.ObservedGeneration = example.Generation
	status.Status, status.Greeting = v1.StateFailed, ""
	if o.configMap.Object != nil {
		status.Greeting = o.configMap.Object.Data[greetingKey]
	}
	problem := cmp.Or(p.invalid, out.Problem)
	if problem == nil && status.Greeting != example.Greeting() {
		problem = &child.Problem{Reason: reasonAltered, Message: fmt.Sprintf(
			"Something, such as a webhook, changes what the operator writes into ConfigMap %s", example.ConfigMapName())}
	}
	conditions := report.Conditions{List: &status.Conditions, Generation: example.Generation, Now: o.now}
	if problem != nil {
		conditions.Keep(glassback.ConditionReady, false, problem.Reason, problem.Message)
		conditions.Keep(glassback.ConditionProgressing, false, problem.Reason, "Waiting for the problem to be corrected")
		conditions.Keep(glassback.ConditionDegraded, true, problem.Reason, problem.Message)
		return status
	}
	status.Status = v1.StateRunning
	conditions.Set(glassback.ConditionReady, true, reasonGreeted, fmt.Sprintf("ConfigMap %s holds the greeting", example.ConfigMapName()))
	conditions.Set(glassback.ConditionProgressing, false, reasonSettled, "All is done")
	conditions.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Nothing is wrong")
	return status
}
