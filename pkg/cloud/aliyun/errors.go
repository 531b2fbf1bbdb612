// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Class is the meaning of an error for the caller.
type Class string

// The classes. After an error of any class but Transient and InFlight, the call has changed nothing.
const (
	// Throttled: too many calls. See Error.RetryAfter.
	Throttled Class = "Throttled"
	// Transient: there is no answer, or it does not tell the result: ECS may have carried out the call.
	Transient Class = "Transient"
	// InFlight: ECS is still carrying out an earlier call with the same token.
	InFlight Class = "InFlight"
	// TokenDead: no call with this token can succeed any more.
	TokenDead Class = "TokenDead"
	// WaitForState: the present state of the instance, or of a resource that it needs, does not allow the call.
	WaitForState Class = "WaitForState"
	// Gone: there is no such instance.
	Gone Class = "Gone"
	// Capacity: ECS has no such instances in this zone now.
	Capacity Class = "Capacity"
	// Quota: the account has reached its quota or its balance.
	Quota Class = "Quota"
	// BadCredentials: ECS does not accept the access key, its signature or its security token.
	BadCredentials Class = "BadCredentials"
	// Clock: ECS does not accept the request's time or nonce, although the request was signed a second time.
	Clock Class = "Clock"
	// Unauthorized: ECS accepts the access key, but the key lacks a permission.
	Unauthorized Class = "Unauthorized"
	// Rejected: a parameter is wrong, and the same call would fail again.
	Rejected Class = "Rejected"
	// DeleteBlocked: the instance is protected against deletion.
	DeleteBlocked Class = "DeleteBlocked"
	// NoCredentials: there is no access key, so no call was made.
	NoCredentials Class = "NoCredentials"
)

// Error is the error of a call. It contains no secret.
type Error struct {
	Action    string // such as "CreateInstance"
	Class     Class
	Code      string // of ECS; "" if it did not answer
	Message   string // of ECS, or of this package if ECS did not answer
	RequestID string // "" if ECS did not answer
	// RetryAfter is how long the caller must not call this action. Only a Throttled error has it.
	RetryAfter time.Duration

	cause error // the error of the caller's context, or nil
}

func (e *Error) Error() string {
	text := e.Action + ": "
	if e.Code != "" {
		text += e.Code + ": "
	}
	text += e.Message
	if e.RequestID != "" {
		text += fmt.Sprintf(" (request %s)", e.RequestID)
	}
	return text
}

// Unwrap returns the error of the caller's context if that ended the call, and nil otherwise.
func (e *Error) Unwrap() error { return e.cause }

// during sets the action and returns e.
func (e *Error) during(action string) *Error {
	e.Action = action
	return e
}

// ended returns the error of a call whose context has ended.
func ended(ctx context.Context) *Error {
	what := "the call was given up before there was an answer"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		what = "the time for the call was over before there was an answer"
	}
	return &Error{Class: Transient, Message: what, cause: ctx.Err()}
}

// Ambiguous returns whether ECS may have carried out the call in spite of the error.
func (e *Error) Ambiguous() bool { return e.Class == Transient || e.Class == InFlight }

// ClassOf returns the class of err: Transient if it is not an *Error, and "" for nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Transient
}
