// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Result is the outcome of a request.
type Result string

// The results.
const (
	Success Result = "success"
	// Refused: the node has answered with an error.
	Refused Result = "refused"
	// Password: the error is an ErrPassword.
	Password Result = "password"
	// Canceled: the caller stopped waiting for the answer.
	Canceled Result = "canceled"
	// Unreachable: there is no connection, or no answer.
	Unreachable Result = "unreachable"
)

// Observer is called after every request to a node. It gets the context of the request, the command, such as "CLUSTER MEET", the result,
// and the duration, which includes the time to connect. A round trip of many commands is one request; the request of View is "VIEW".
// Several goroutines may call an Observer at once.
type Observer func(ctx context.Context, command string, result Result, took time.Duration)

func (n *Node) observe(ctx context.Context, command string, err error, took time.Duration) {
	for _, observe := range n.observers {
		observe(ctx, command, resultOf(ctx, err), took)
	}
}

func resultOf(ctx context.Context, err error) Result {
	_, refused := errors.AsType[refusal](err)
	switch {
	case err == nil:
		return Success
	case errors.Is(err, ErrPassword):
		return Password
	case refused:
		return Refused
	case ctx.Err() != nil:
		return Canceled
	}
	return Unreachable
}

// Metrics are the figures of the redis-server in a Pod, as the last sync observed them.
type Metrics struct {
	Pod string
	// Answers is whether the redis-server answered. If it did not, only Pod is set.
	Answers bool
	Master  bool
	// LinkUp is whether a replica is connected to its master.
	LinkUp bool
	// Slots is the number of slots that a master owns.
	Slots int
	Keys  int64
	// Offset is the replication offset: the bytes that a master has sent, or a replica has applied.
	Offset int64
	// Lag is the number of bytes that a replica lacks. It is negative for a master, and if the master does not answer.
	Lag int64
	Stats
}

// NodesObserver is called with the nodes of a RedisCluster after each poll, and with nil when the operator no longer
// polls them. Several goroutines may call it at once.
type NodesObserver func(cluster cache.ObjectName, nodes []Metrics)
