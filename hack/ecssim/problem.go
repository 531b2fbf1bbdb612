// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// problem is the reason for which the server rejects a call.
type problem struct {
	status  int
	code    string
	message string
}

// object is a JSON object in an answer.
type object map[string]any

func badRequest(code, message string) *problem { return &problem{http.StatusBadRequest, code, message} }

func forbidden(code, message string) *problem { return &problem{http.StatusForbidden, code, message} }

func missing(parameter string) *problem {
	return badRequest("MissingParameter",
		"The input parameter \""+parameter+"\" that is mandatory for processing this request is not supplied.")
}

func invalid(parameter string) *problem {
	return badRequest("InvalidParameter", "The specified parameter \""+parameter+"\" is not valid.")
}

var (
	dryRun           = badRequest("DryRunOperation", "Request validation has been passed with DryRun flag set.")
	noInstance       = &problem{http.StatusNotFound, "InvalidInstanceId.NotFound", "The specified InstanceId does not exist."}
	wrongState       = forbidden("IncorrectInstanceStatus", "The current status of the resource does not support this operation.")
	initializing     = forbidden("IncorrectInstanceStatus.Initializing", "The specified instance status does not support this operation.")
	chargeType       = forbidden("ChargeTypeViolation", "The operation is not permitted due to charge type of the instance.")
	protected        = forbidden("InvalidOperation.DeletionProtection", "The operation is not allowed due to deletion protection.")
	allocatedAlready = forbidden("AllocatedAlready", "There is an IpAddress allocated already for the specified instance.")
	lockedSecurity   = forbidden("InstanceLockedForSecurity",
		"The specified operation is denied as your instance is locked for security reasons.")
	inArrears = forbidden("InstanceExpiredOrInArrears",
		"The specified operation is denied as your prepay instance is expired (prepay mode) or in arrears (afterpay mode).")
	internal = &problem{http.StatusInternalServerError, "InternalError", "The request processing has failed due to some unknown error."}
)

// encode returns the JSON of v without escapes for HTML, as ECS does.
func encode(v any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // Strings, numbers and lists of them can always be encoded.
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}
