// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/child"
)

// outcome is the result of act.
type outcome = child.Outcome

// act writes the desired ConfigMap, if the observed one differs.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (outcome, error) {
	if p.invalid != nil {
		return outcome{}, nil
	}
	change := c.configMaps.Reconcile(o.example, o.example.ConfigMapName(), o.configMap, false, p.configMap)
	out, err := change.Do(ctx)
	if out.Wrote {
		klog.FromContext(ctx).Info("Greeted", "greeting", o.example.Greeting())
	}
	return out, err
}
