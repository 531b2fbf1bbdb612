// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"errors"
	"fmt"
	"testing"
)

func TestClassify(t *testing.T) {
	for class, codes := range map[Class]map[string][]int{
		Throttled: {
			"Throttling": {400, 403, 429, 500, 503, 200}, "Throttling.User": {400}, "Throttling.Api": {403},
			"Throttling.ConcurrentLimitExceeded": {400}, "Rejected.Throttling": {400, 403},
		},
		Transient: {
			"InternalError": {500, 400}, "ServiceUnavailable": {503}, "UnknownError": {400},
			"OperationDenied": {403}, "OperationDenied.Whatever": {403}, "": {400, 401, 403, 404, 407, 500, 502}, "NeverHeardOf": {400, 403, 404},
			// Whoever fails, or succeeds, may have done it.
			"InvalidInstanceId.NotFound": {500, 200}, "InvalidParameter": {500}, "SignatureDoesNotMatch": {502}, "IncorrectInstanceStatus": {500},
		},
		InFlight:  {"IdempotentProcessing": {403}, "LastTokenProcessing": {403}},
		TokenDead: {"IdempotentFailed": {400, 403}, "IdempotentParameterMismatch": {400, 403}, "InvalidIdempotenceParameter.Mismatch": {403}},
		WaitForState: {
			"IncorrectInstanceStatus": {403}, "IncorrectInstanceStatus.Initializing": {403},
			"InstanceNotReady": {403, 500}, "OperationConflict": {409},
			"InvalidOperation.Conflict": {403}, "IncorrectVSwitchStatus": {403}, "OperationDenied.CreatingConflict": {403},
		},
		Gone: {"InvalidInstanceId.NotFound": {404}, "InvalidResourceId.NotFound": {404}},
		Capacity: {
			"OperationDenied.NoStock": {403}, "Zone.NotOnSale": {403}, "InvalidInstanceType.ZoneNotSupported": {403}, "ResourceNotAvailable": {400},
		},
		Quota: {
			"QuotaExceed.ElasticQuota": {403}, "QuotaExceed": {403}, "QuotaExceeded.Image": {400}, "SecurityGroupInstanceLimitExceed": {403},
			"SecurityGroupInstanceLimitExceeded.Ipv4": {403}, "InsufficientBalance": {403},
			"Account.Arrearage": {403}, "InvalidAccountStatus.NotEnoughBalance": {403},
		},
		BadCredentials: {
			"InvalidAccessKeyId.NotFound": {400, 404}, "InvalidAccessKeyId.Inactive": {403},
			"SignatureDoesNotMatch": {400, 403}, "IncompleteSignature": {400},
			"InvalidSecurityToken.Expired": {400}, "InvalidSecurityToken.Malformed": {400},
			"MissingSecurityToken": {400}, "Forbidden.AccessKeyDisabled": {403},
		},
		Clock: {"SignatureNonceUsed": {400}, "InvalidTimeStamp.Expired": {400}, "InvalidTimeStamp.Format": {400}, "IllegalTimestamp": {400}},
		Unauthorized: {
			"Forbidden.RAM":               {403},
			"Forbidden.Unauthorized":      {403},
			"Forbidden.RiskControl":       {403},
			"RealNameAuthenticationError": {403},
			"NoPermission":                {403},
		},
		Rejected: {
			"InvalidParameter": {400}, "InvalidParameterValue": {400}, "InvalidParameter.Conflict": {400},
			"MissingParameter": {400}, "InvalidInstanceId.Malformed": {400}, "InstanceName.Malformed": {400}, "InvalidImageId.NotFound": {404},
			"InvalidInstanceType.ValueNotSupported": {400, 403}, "InvalidSecurityGroupId.NotFound": {404},
			"InvalidVSwitchId.NotFound": {404}, "InvalidRegionId.NotFound": {404}, "DryRunOperation": {400},
			"InvalidAction.NotFound": {404}, "KeyPair.NotFound": {404},
		},
		DeleteBlocked: {
			"ChargeTypeViolation": {403}, "InvalidOperation.DeletionProtection": {403},
			"InstanceLockedForSecurity": {403}, "DependencyViolation.RouteEntry": {403},
		},
	} {
		for code, statuses := range codes {
			for _, status := range statuses {
				t.Run(fmt.Sprintf("%s with %d is %s", code, status, class), func(t *testing.T) {
					err := open(t, says(status, refusal(code, "words"))).Stop(t.Context(), "i-1")
					e := failure(t, err)
					if e.Class != class || e.Code != code || e.RequestID != "R-1" || e.Action != "StopInstance" || e.Message == "" {
						t.Errorf("got %#v", e)
					}
					if e.Ambiguous() != (class == Transient || class == InFlight) || (e.RetryAfter > 0) != (class == Throttled) {
						t.Errorf("got %#v", e)
					}
				})
			}
		}
	}
}

func TestOperationDenied(t *testing.T) {
	for message, class := range map[string]Class{
		"The resource is out of stock in the specified zone.":               Capacity,
		"The specified instance type is not available in the zone.":         Capacity,
		"The resource of the instance type has been SOLD OUT.":              Capacity,
		"The specified operation is denied as another one is being done.":   Transient,
		"The current user does not support this operation; open a ticket.":  Transient,
		"The requested resource is insufficient, please try another region": Capacity,
	} {
		t.Run(message, func(t *testing.T) {
			if got := classify(403, "OperationDenied", message); got != class {
				t.Errorf("got %s, want %s", got, class)
			}
		})
	}
}

func TestClassOf(t *testing.T) {
	wrapped := fmt.Errorf("create: %w", &Error{Class: Gone})
	for name, test := range map[string]struct {
		err  error
		want Class
	}{
		"no error has no class":                      {nil, ""},
		"an error that is wrapped keeps its":         {wrapped, Gone},
		"an error that is not from ECS is transient": {errors.New("x"), Transient},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ClassOf(test.err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestMessagesSayWhatToDo(t *testing.T) {
	for code, want := range map[string]string{
		"InvalidAccessKeyId.NotFound":  "no access key with this ID",
		"SignatureDoesNotMatch":        "secret",
		"InvalidSecurityToken.Expired": "expired",
		"InvalidSecurityToken.Unknown": "security token",
		"MissingSecurityToken":         "security token",
		"Forbidden.AccessKeyDisabled":  "disabled",
		"IncompleteSignature":          "not accepted",
		"InvalidUserData.SizeExceeded": "32 KB",
	} {
		t.Run(code, func(t *testing.T) {
			e := (&answer{status: 400, code: code, message: "StringToSign is POST&%2F&AccessKeyId"}).refusal()
			if e.Message == "" || !containsAll(e.Message, want) || containsAll(e.Message, "POST") {
				t.Errorf("got %q, want %q in it", e.Message, want)
			}
		})
	}
}
