/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecssim

import (
	"net/url"
	"time"
)

// Call is a request that was understood: it could be read, and named an action.
type Call struct {
	Action     string
	AccountID  string // the account of its access key, or "" if the key is unknown
	RegionID   string
	InstanceID string // the one that it is about, or that it made, the first of several
	At         time.Time
	State      string // of that instance before the call, "" without one
	Status     int    // of the answer, and 0 if it was lost
	Code       string // of the error in the answer, "" for success
	Message    string // of the error in the answer
	// Done: the call succeeded, even if the client got an error or no answer.
	Done bool
	// Lost: the client got no answer.
	Lost bool
	// Violation is a fault of the client: a parameter that ECS does not have.
	Violation string
	// Params are as they were sent, without AccessKeyId, Signature, SecurityToken,
	// UserData and Password.
	Params url.Values
}
