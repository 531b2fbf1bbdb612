// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"context"
	"time"
)

// Failover is the way in which a replica takes the place of its master.
type Failover string

// The ways of a failover, as of https://redis.io/docs/latest/commands/cluster-failover/
const (
	// Graceful makes the master accept no writes until the replica has them all. Redis ends this after 5 s: a replica that is ready at that
	// moment can still take over, without the writes that the master accepts then. PauseWrites prevents these.
	Graceful Failover = ""
	// Force needs the votes of the other masters, but not the master itself, which may be gone. The writes that have not reached the
	// replica are lost.
	Force Failover = "FORCE"
	// Takeover needs no votes. It serves when most masters are gone. If two replicas take over at once, or the master is alive, two nodes
	// own the slots for a while.
	Takeover Failover = "TAKEOVER"
)

// Failover makes the node, a replica, take the place of its master. It returns before the failover has ended. If the failover does not
// succeed, the node gives it up without an error.
func (n *Node) Failover(ctx context.Context, how Failover) error {
	if how == Graceful {
		return n.command(ctx, "CLUSTER", "FAILOVER")
	}
	return n.command(ctx, "CLUSTER", "FAILOVER", string(how))
}

// PauseWrites makes the node hold back the writes of all clients, and commands that may write, such as EVAL and PUBLISH. The pause ends
// with ResumeWrites, or after the duration. Until then, these clients wait for their answers. The node still serves reads, and redirects
// clients for slots that it does not have: https://redis.io/docs/latest/commands/client-pause/
func (n *Node) PauseWrites(ctx context.Context, duration time.Duration) error {
	return n.command(ctx, "CLIENT", "PAUSE", duration.Milliseconds(), "WRITE")
}

// ResumeWrites ends PauseWrites, and every CLIENT PAUSE of others.
func (n *Node) ResumeWrites(ctx context.Context) error {
	return n.command(ctx, "CLIENT", "UNPAUSE")
}
