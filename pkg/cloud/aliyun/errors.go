/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aliyun

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Class is what an error means to the caller.
type Class string

// The classes. All but Transient and InFlight say that the call has changed nothing.
const (
	// Throttled: too many calls. See Error.RetryAfter.
	Throttled Class = "Throttled"
	// Transient: no answer, or none that says anything: the call may have been carried out.
	Transient Class = "Transient"
	// InFlight: an earlier call with the same token is being carried out.
	InFlight Class = "InFlight"
	// TokenDead: nothing can come of this token any more.
	TokenDead Class = "TokenDead"
	// WaitForState: not in the state that the instance, or something that it needs, is in.
	WaitForState Class = "WaitForState"
	// Gone: there is no such instance.
	Gone Class = "Gone"
	// Capacity: out of stock, here and now.
	Capacity Class = "Capacity"
	// Quota: the account may not, or cannot pay for, any more.
	Quota Class = "Quota"
	// BadCredentials: the access key, or what it came with, is not accepted.
	BadCredentials Class = "BadCredentials"
	// Clock: the request's time or nonce is not accepted, though it was signed anew.
	Clock Class = "Clock"
	// Unauthorized: the access key is accepted, and may not do this.
	Unauthorized Class = "Unauthorized"
	// Rejected: a parameter is wrong, and will be.
	Rejected Class = "Rejected"
	// DeleteBlocked: the instance is protected from being deleted.
	DeleteBlocked Class = "DeleteBlocked"
	// NoCredentials: there are none to sign with. No call was made.
	NoCredentials Class = "NoCredentials"
)

// Error is a call that failed. Nothing in it is secret.
type Error struct {
	Action    string // such as "CreateInstance"
	Class     Class
	Code      string // of ECS, or "" if it did not answer
	Message   string // of ECS, or what went wrong
	RequestID string // "" if ECS did not answer
	// RetryAfter is, of a Throttled, how long not to call this action.
	RetryAfter time.Duration

	cause error // that the caller's context has ended, or nil
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

// Unwrap returns the error of the caller's context, if that is why there was no answer.
func (e *Error) Unwrap() error { return e.cause }

// of names the action. It returns nil for nil.
func (e *Error) of(action string) *Error {
	if e != nil {
		e.Action = action
	}
	return e
}

// ended is the error of a call whose caller does not wait for it any more.
func ended(ctx context.Context) *Error {
	what := "the call was given up before there was an answer"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		what = "the time for the call was over before there was an answer"
	}
	return &Error{Class: Transient, Message: what, cause: ctx.Err()}
}

// Ambiguous returns whether the call may have been carried out, though it failed.
func (e *Error) Ambiguous() bool { return e.Class == Transient || e.Class == InFlight }

// ClassOf returns the class of err: Transient for one that is no *Error, and "" for nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Transient
}
