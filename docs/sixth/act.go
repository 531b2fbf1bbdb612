// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"context"

	"github.com/glassback/glassback/pkg/child"
)

// act creates, updates or deletes the ConfigMap, if it differs from the plan.
func (c *Controller) act(ctx context.Context, o *observed, p plan) (child.Outcome, error) {
	change := c.configMaps.Reconcile(o.service, configMapName(o.service), o.configMap, false, p.configMap)
	return change.Do(ctx)
}
