/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package redisnode

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Result is what came of a request.
type Result string

// The results.
const (
	Success Result = "success"
	// Refused: the node has answered with an error.
	Refused Result = "refused"
	// Password: the error is an ErrPassword.
	Password Result = "password"
	// Canceled: who asked does not wait for the answer any more.
	Canceled Result = "canceled"
	// Unreachable: there is no connection, or no answer.
	Unreachable Result = "unreachable"
)

// Observer is told of every request that a node was sent: the command, such as
// "CLUSTER MEET", what came of it, and after how long, connecting included. A round trip of
// many commands is one request; that of View is "VIEW". It may be called by many goroutines
// at once.
type Observer func(command string, result Result, took time.Duration)

var observer atomic.Pointer[Observer]

// SetObserver has observe told of the requests to all nodes from now on.
func SetObserver(observe Observer) { observer.Store(&observe) }

func observe(ctx context.Context, command string, err error, took time.Duration) {
	if observe := observer.Load(); observe != nil {
		(*observe)(command, resultOf(ctx, err), took)
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
