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
// call it on a Controller that runs. With offline, it reads only the caches, and not the versions of the sources of restartOn.
func (c *Controller) Plan(ctx context.Context, key cache.ObjectName, offline bool) (*report.Plan, error) {
	app, err := c.fetch(key)
	if app == nil || err != nil {
		return nil, err
	}
	o, err := c.observe(ctx, app)
	if err != nil {
		return nil, err
	}
	plan := &report.Plan{}
	if o.sources.Pending && !offline {
		c.poller.Poll(ctx, key)
		o.sources = c.pollSources(app, o.deployment.Object)
	}
	if o.sources.Pending {
		plan.Incomplete = "The ConfigMaps and Secrets of spec.restartOn were not read"
		o.sources.Sum = sumOf(o.deployment.Object)
	}
	p := decide(o)
	if p.Invalid != nil {
		plan.Note = p.Invalid.Message
	}
	out, err := child.PreviewAll(ctx, c.changes(o, p), plan)
	if err != nil || out.Wrote {
		return plan, err // The next sync reports.
	}
	return plan, c.status.Preview(app, statusOf(o, p, out), plan)
}
