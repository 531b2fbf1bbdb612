// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"net/url"
	"time"
)

// Call is a request that the server could parse and that names an action.
type Call struct {
	Action     string
	AccountID  string // the account of its access key, or "" if the key is unknown
	RegionID   string
	InstanceID string // the instance that it names or created; the first, if there are several
	At         time.Time
	State      string // of that instance before the call, "" without one
	Status     int    // of the answer; 0 if the answer was lost
	Code       string // of the error in the answer, "" for success
	Message    string // of the error in the answer
	// Done: the call succeeded, even if the client got an error or no answer.
	Done bool
	// Lost: the client got no answer.
	Lost bool
	// Violation is a mistake of the client: a parameter that ECS does not have.
	Violation string
	// Params are the sent parameters, without AccessKeyId, Signature, SecurityToken, UserData and Password.
	Params url.Values
}
