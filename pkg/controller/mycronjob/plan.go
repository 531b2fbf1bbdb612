// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/report"
)

// Plan returns what Sync would do for one MyCronJob at this time, and writes nothing. It returns nil for an object that Sync leaves alone.
// Do not call it on a Controller that runs. Plan reads only the caches, so the parameter offline has no effect.
func (c *Controller) Plan(ctx context.Context, key cache.ObjectName, _ bool) (*report.Plan, error) {
	mcj, err := c.fetch(key)
	if mcj == nil || err != nil {
		return nil, err
	}
	o, err := c.observe(ctx, mcj)
	if err != nil {
		return nil, err
	}
	p := decide(o)
	plan := &report.Plan{Note: p.invalid}
	remove := func(jobs []*batchv1.Job) {
		for _, job := range jobs {
			plan.Writes = append(plan.Writes, report.Write{Verb: "delete", Kind: "Job", Name: job.Name})
		}
	}
	remove(p.replace)
	var made []*batchv1.Job
	if p.manual != "" {
		made = append(made, manualJob(mcj, p.manual))
	}
	for _, s := range p.run {
		made = append(made, slotJob(mcj, s, o.now.Sub(p.table.start(s))))
	}
	for _, job := range made {
		set, err := fields.Diff(nil, job)
		if err != nil {
			return nil, err
		}
		plan.Writes = append(plan.Writes, report.Write{Verb: "create", Kind: "Job", Name: job.Name, Fields: set})
	}
	remove(p.expired)
	return plan, c.status.Preview(mcj, statusOf(o, p, outcome{confirmed: true}), plan)
}
