// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/glassback/glassback/pkg/child"
)

// plan is the decision of one sync.
type plan struct {
	// invalid says why the spec cannot be used; nil if it can.
	invalid *child.Problem
	// configMap is the desired ConfigMap. It is nil if the spec is invalid: then the existing ConfigMap stays as it is.
	configMap *corev1ac.ConfigMapApplyConfiguration
}

// decide returns the plan for the observed state.
func decide(o *observed) plan {
	if errs := o.example.Validate(nil); len(errs) > 0 {
		return plan{invalid: &child.Problem{Reason: reasonInvalidSpec, Message: errs.ToAggregate().Error()}}
	}
	return plan{configMap: configMap(o.example)}
}
