// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/report"
)

// Plan returns what Sync would do for one ApiExampleA, and writes nothing. It returns nil for an object that Sync leaves alone. Do not
// call it on a Controller that runs. Plan reads only the caches, so the parameter offline has no effect.
func (c *Controller) Plan(ctx context.Context, key cache.ObjectName, _ bool) (*report.Plan, error) {
	example, err := c.fetch(key)
	if example == nil || err != nil {
		return nil, err
	}
	o, err := c.observe(ctx, example)
	if err != nil {
		return nil, err
	}
	p, plan := decide(o), &report.Plan{}
	var out outcome
	if p.invalid != nil {
		plan.Note = p.invalid.Message
	} else {
		change := c.configMaps.Reconcile(example, example.ConfigMapName(), o.configMap, false, p.configMap)
		out, err = change.Preview(ctx, plan)
	}
	if err != nil || out.Wrote {
		return plan, err // The next sync reports.
	}
	return plan, c.status.Preview(example, statusOf(o, p, out), plan)
}
