// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/permissions"
)

// AtStart returns the checks that an operator with the options o runs after its start. The start itself checks the CRDs and the permissions
// that the operator cannot work without.
func AtStart(c *clients.Clients, o *options.Options) []Section {
	own := cmp.Or(command.OwnNamespace(), command.DefaultNamespace)
	s := &checker{
		clients: c, account: permissions.Own(c.Kube),
		options: &settings{Options: *o, leaseName: command.DefaultLease, leaseNamespace: own},
	}
	return []Section{
		{ID: "cluster", Title: "Cluster", Checks: []Check{
			{ID: "cluster/version", Title: versionTitle, Run: s.checkVersion},
			{ID: "cluster/clock", Title: clockTitle, Run: s.checkClock},
		}},
		{ID: "permissions", Title: "Permissions", Checks: s.accessChecks(o.MetricsWants())},
		{ID: "lease", Title: "Leader election", Checks: []Check{
			{ID: "lease/rival", Title: "no other operator does the same work", Run: s.checkRival},
		}},
	}
}

// checkRival looks for an operator that leads, while this one works without leader election.
func (c *checker) checkRival(ctx context.Context) Result {
	if c.options.Lease.Elect {
		return pass("")
	}
	l, err := c.leaseState(ctx)
	if err != nil {
		return unanswered(err)
	}
	if l.Held() {
		return warn(fmt.Sprintf("the Lease %s/%s is held: %s", c.options.leaseNamespace, c.options.leaseName, l),
			"stop one of the two, or give this one --leader-elect and the same Lease")
	}
	return pass("")
}
