/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecssim

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// problem is why a call is refused.
type problem struct {
	status  int
	code    string
	message string
}

// wireError is a problem as it is sent.
type wireError struct {
	RequestID string `json:"RequestId"`
	HostID    string `json:"HostId"`
	Code      string
	Message   string
	Recommend string
}

func missing(parameter string) *problem {
	return &problem{http.StatusBadRequest, "MissingParameter",
		"The input parameter \"" + parameter + "\" that is mandatory for processing this request is not supplied."}
}

func invalid(parameter string) *problem {
	return &problem{http.StatusBadRequest, "InvalidParameter", "The specified parameter \"" + parameter + "\" is not valid."}
}

var (
	dryRun     = &problem{http.StatusBadRequest, "DryRunOperation", "Request validation has been passed with DryRun flag set."}
	noInstance = &problem{http.StatusNotFound, "InvalidInstanceId.NotFound", "The specified InstanceId does not exist."}
	wrongState = &problem{http.StatusForbidden, "IncorrectInstanceStatus",
		"The current status of the resource does not support this operation."}
	initializing = &problem{http.StatusForbidden, "IncorrectInstanceStatus.Initializing",
		"The specified instance status does not support this operation."}
	chargeType = &problem{http.StatusForbidden, "ChargeTypeViolation",
		"The operation is not permitted due to charge type of the instance."}
	protected = &problem{http.StatusForbidden, "InvalidOperation.DeletionProtection",
		"The operation is not allowed due to deletion protection."}
	lockedSecurity = &problem{http.StatusForbidden, "InstanceLockedForSecurity",
		"The specified operation is denied as your instance is locked for security reasons."}
	inArrears = &problem{http.StatusForbidden, "InstanceExpiredOrInArrears",
		"The specified operation is denied as your prepay instance is expired (prepay mode) or in arrears (afterpay mode)."}
	internal = &problem{http.StatusInternalServerError, "InternalError", "The request processing has failed due to some unknown error."}
)

// encode returns the JSON of v without escapes for HTML, which ECS does not make.
func encode(v any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // All that is encoded is strings, numbers and lists of them.
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}
