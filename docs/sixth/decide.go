// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

// plan is the decision of one sync.
type plan struct {
	// configMap is the desired ConfigMap; nil if it must not exist.
	configMap *corev1ac.ConfigMapApplyConfiguration
}

// decide returns the plan for the observed state.
func decide(o *observed) plan {
	if _, requests := requested(o.service); !requests {
		return plan{}
	}
	return plan{configMap: configMap(o.service)}
}
