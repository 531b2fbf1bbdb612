// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"fmt"
	"strings"
)

// classes are the classes of error codes. A key is a code, or the beginning of codes up to a
// dot. The longest key that matches a code decides. Codes are at
// https://api.alibabacloud.com/document/Ecs/2014-05-26/errorCode
var classes = map[string]Class{
	"InternalError":      Transient,
	"ServiceUnavailable": Transient,
	"UnknownError":       Transient,

	"IdempotentProcessing": InFlight,
	"LastTokenProcessing":  InFlight,

	"IdempotentFailed":            TokenDead,
	"IdempotentParameterMismatch": TokenDead,
	"InvalidIdempotenceParameter": TokenDead,

	"IncorrectInstanceStatus":          WaitForState,
	"InstanceNotReady":                 WaitForState,
	"OperationConflict":                WaitForState,
	"InvalidOperation.Conflict":        WaitForState,
	"IncorrectVSwitchStatus":           WaitForState,
	"OperationDenied.CreatingConflict": WaitForState,

	"InvalidInstanceId.NotFound": Gone,
	"InvalidResourceId.NotFound": Gone, // from a call for tags: the operator tags only instances

	"OperationDenied.NoStock":              Capacity,
	"Zone":                                 Capacity,
	"InvalidInstanceType.ZoneNotSupported": Capacity,
	"ResourceNotAvailable":                 Capacity,

	"InsufficientBalance":  Quota,
	"Account.Arrearage":    Quota,
	"InvalidAccountStatus": Quota,

	"InvalidAccessKeyId":          BadCredentials,
	"SignatureDoesNotMatch":       BadCredentials,
	"IncompleteSignature":         BadCredentials,
	"InvalidSecurityToken":        BadCredentials,
	"MissingSecurityToken":        BadCredentials,
	"Forbidden.AccessKeyDisabled": BadCredentials,

	"SignatureNonceUsed": Clock,
	"InvalidTimeStamp":   Clock,
	"IllegalTimestamp":   Clock,

	"NoPermission":                Unauthorized,
	"RealNameAuthenticationError": Unauthorized,

	"ChargeTypeViolation":                 DeleteBlocked,
	"InvalidOperation.DeletionProtection": DeleteBlocked,
	"InstanceLockedForSecurity":           DeleteBlocked,
	"DependencyViolation":                 DeleteBlocked,

	"DryRunOperation":      Rejected,
	"UnsupportedOperation": Rejected,
}

// families are the classes of codes that are not in classes, by a prefix.
var families = []struct {
	prefix string
	class  Class
}{
	{"QuotaExceed", Quota}, // QuotaExceed.X and QuotaExceeded.X
	{"SecurityGroupInstanceLimitExceed", Quota},
	{"Forbidden", Unauthorized},
	{"Invalid", Rejected},
	{"Missing", Rejected},
}

// classify returns the class of an error of ECS.
func classify(status int, code, message string) Class {
	switch {
	case strings.HasPrefix(code, "Throttling") || strings.HasPrefix(code, "Rejected.Throttling"):
		return Throttled // with 400, 403, 429 and 503
	case status/100 != 4 && !strings.HasPrefix(code, "InstanceNotReady"):
		return Transient // After a failure or a contradictory answer, ECS may have carried out the call.
	case code == "OperationDenied":
		return denied(message)
	}
	for name, more := code, true; more; {
		if class, ok := classes[name]; ok {
			return class
		}
		dot := strings.LastIndexByte(name, '.')
		if more = dot >= 0; more {
			name = name[:dot]
		}
	}
	for _, family := range families {
		if strings.HasPrefix(code, family.prefix) {
			return family.class
		}
	}
	if strings.HasSuffix(code, ".NotFound") || strings.HasSuffix(code, ".Malformed") || strings.HasSuffix(code, ".NotSupported") {
		return Rejected
	}
	return Transient
}

// denied returns the class of the code OperationDenied without a suffix. Only the message shows the cause.
func denied(message string) Class {
	message = strings.ToLower(message)
	for _, sign := range []string{"stock", "sold out", "not available", "insufficient"} {
		if strings.Contains(message, sign) {
			return Capacity
		}
	}
	return Transient
}

// refusal returns the error in an answer.
func (a *answer) refusal() *Error {
	e := &Error{Class: classify(a.status, a.code, a.message), Code: a.code, RequestID: a.requestID, Message: a.message}
	switch {
	case e.Class == BadCredentials:
		e.Message = aboutCredentials(a.code)
	case e.Class == Clock:
		e.Message = "ECS did not accept the time or the nonce of two requests: correct the clock of the operator's machine"
	case strings.HasPrefix(a.code, "InvalidUserData"):
		e.Message = "ECS did not accept the user data: it may have at most 32 KB"
	case a.status/100 == 2:
		e.Message = "the answer has the status of a success with an error code"
	case clean(a.message) == "":
		e.Message = fmt.Sprintf("HTTP %d, and no message", a.status)
	}
	return e
}

// aboutCredentials returns the meaning of an error of ECS about credentials. ECS's own message contains the string that was signed.
func aboutCredentials(code string) string {
	switch {
	case code == "InvalidAccessKeyId.NotFound":
		return "there is no access key with this ID"
	case code == "SignatureDoesNotMatch":
		return "the secret is not that of the access key's ID"
	case code == "InvalidSecurityToken.Expired":
		return "the security token has expired"
	case strings.Contains(code, "SecurityToken"):
		return "the security token is not that of the access key, or is missing"
	case code == "Forbidden.AccessKeyDisabled" || code == "InvalidAccessKeyId.Inactive":
		return "the access key is disabled"
	}
	return "the access key is not accepted"
}
