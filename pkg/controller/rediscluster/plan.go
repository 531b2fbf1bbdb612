// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/report"
)

// DialReadOnly is Dial, but the Node refuses every command that may change something.
func DialReadOnly(ip string, port int, login redisnode.Login) Node {
	return redisnode.DialReadOnly(ip, port, login)
}

// Plan returns what Sync would do for one RedisCluster, and does nothing. It returns nil for an object that Sync leaves alone. Do not call
// it on a Controller that runs. With offline, it asks no redis-server. Where Sync would write a child and observe again, Plan continues,
// and also shows what the present nodes need. It makes no dry run of the next Pod.
func (c *Controller) Plan(ctx context.Context, key cache.ObjectName, offline bool) (*report.Plan, error) {
	rdc, err := c.fetch(key)
	if rdc == nil || err != nil {
		return nil, err
	}
	plan := &report.Plan{}
	if errs := rdc.Validate(nil); len(errs) > 0 {
		plan.Note = errs.ToAggregate().Error()
		return plan, c.status.Preview(rdc, statusOfInvalid(rdc, errs, c.clock.Now()), plan)
	}
	if !offline {
		defer c.sessions.forget(key)
		if rdc, err = c.withCertificate(ctx, rdc); err != nil {
			return nil, err
		}
	}
	o, err := c.observeObjects(rdc)
	if err != nil {
		return nil, err
	}
	changes, err := c.changes(o)
	if err != nil {
		return nil, err
	}
	children, err := child.PreviewAll(ctx, changes, plan)
	if err != nil {
		return nil, err
	}
	plan.Incomplete = "the redis-servers were not asked"
	if !offline {
		if err := c.observeCluster(ctx, o); err != nil {
			return nil, err
		}
		plan.Incomplete = o.unasked()
	}
	if plan.Incomplete != "" {
		return plan, o.previewPods(plan)
	}
	p := decide(o)
	plan.Policy, plan.Step, plan.Waiting = p.Policy, p.progress(), p.waits() || p.KeepStatus
	if p.KeepStatus {
		plan.Step = "Waiting for redis-servers that do not answer"
		if len(o.Problems) > 0 {
			plan.Step = o.Problems[0].Message
		}
		return plan, nil
	}
	if err := c.status.Preview(rdc, statusOf(o, p, children), plan); err != nil {
		return nil, err
	}
	return plan, o.previewCommands(plan, slices.Concat(p.Upkeep, p.Commands))
}

// unasked returns which redis-servers do not answer although their Pods are ready; "" if all answer. This process may be unable to reach
// the Pod network.
func (o *observed) unasked() string {
	var silent []string
	for _, m := range o.Members {
		if m.Pod != nil && isRedisReady(m.Pod) && whyNotAsked(m.Pod) == nil && !m.answers() && len(o.Problems) == 0 {
			silent = append(silent, fmt.Sprintf("%s does not answer: %s", m.Name, m.WhySilent))
		}
	}
	return strings.Join(silent, "; ")
}

// previewPods adds to a plan what follows from the Pods alone.
func (o *observed) previewPods(plan *report.Plan) error {
	if outdated := o.membersWhere(func(m *member) bool { return m.Outdated }); len(outdated) > 0 {
		plan.Waiting = true
		plan.Step = fmt.Sprintf("Pods with another revision, which are replaced one by one: %d of %d", len(outdated), len(o.Members))
	}
	configured := o.membersWhere(func(m *member) bool { return !m.Outdated && len(m.wanted) > 0 })
	if len(configured) > 0 && plan.Step == "" {
		plan.Waiting = true
		plan.Step = fmt.Sprintf("Nodes that need directives which are not in their redis.conf: %d of %d. They are asked and set; "+
			"a Pod is replaced if its node refuses to set one while it runs", len(configured), len(o.Members))
	}
	return o.previewCommands(plan, missingPods(o))
}

// previewCommands adds commands to a plan.
func (o *observed) previewCommands(plan *report.Plan, commands []command) error {
	for _, c := range commands {
		var w write
		if c.verb.writes != nil {
			w = c.verb.writes(o, c)
		}
		if c.verb.writes == nil || c.verb == setDirectives {
			plan.Calls = append(plan.Calls, report.Call{To: "Redis", Command: c.String()})
		}
		if w == (write{}) {
			continue
		}
		changed, err := fields.Diff(w.before, w.after)
		if err != nil {
			return err
		}
		plan.Writes = append(plan.Writes, report.Write{Verb: w.verb, Kind: w.kind, Name: w.name, Fields: changed})
	}
	return nil
}
