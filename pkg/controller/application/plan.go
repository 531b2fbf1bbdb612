// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/report"
)

// Plan returns what Sync would do for one Application, and writes nothing. It returns nil for an object that Sync leaves alone. Do not
// call it on a Controller that runs. Plan reads only the caches, so the parameter offline has no effect.
func (c *Controller) Plan(ctx context.Context, key cache.ObjectName, _ bool) (*report.Plan, error) {
	app, err := c.fetch(key)
	if app == nil || err != nil {
		return nil, err
	}
	o, err := c.observe(ctx, app)
	if err != nil {
		return nil, err
	}
	p, plan := decide(o), &report.Plan{}
	if p.Invalid != nil {
		plan.Note = p.Invalid.Message
	}
	out, err := child.PreviewAll(ctx, c.changes(o, p), plan)
	if err != nil || out.Wrote {
		return plan, err // The next sync reports.
	}
	return plan, c.status.Preview(app, statusOf(o, p, out), plan)
}
