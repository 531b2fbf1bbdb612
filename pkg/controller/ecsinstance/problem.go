/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// problem is why an instance is not as it should be, what a person can do about it, and when
// to see whether that was done.
type problem struct {
	reason  string
	message string
	code    string // of ECS, which the message has in it; "" if it is not from there
	wait    time.Duration
	// stalled is whether nothing will come of waiting.
	stalled bool
	// passing is whether it is likely to pass by itself, and soon.
	passing bool
}

// Reasons of conditions that are problems.
const (
	reasonInvalidSpec       = "InvalidSpec"
	reasonThrottled         = "Throttled"
	reasonUnreachable       = "CloudUnreachable"
	reasonBusy              = "InstanceBusy"
	reasonOutOfStock        = "OutOfStock"
	reasonQuotaExceeded     = "QuotaExceeded"
	reasonNoMoney           = "InsufficientBalance"
	reasonRefused           = "CredentialsRefused"
	reasonNoCredentials     = "NoCredentials"
	reasonSecretMissing     = "SecretMissing"
	reasonSecretUnreadable  = "SecretUnreadable"
	reasonWrongAccount      = "WrongAccount"
	reasonClock             = "ClockSkewed"
	reasonForbidden         = "Forbidden"
	reasonUnknownRegion     = "UnknownRegion"
	reasonRejected          = "RequestRejected"
	reasonPaidFor           = "PaidForPeriod"
	reasonDeletionProtected = "DeletionProtected"
	reasonDeletionBlocked   = "DeletionBlocked"
	reasonInstanceLocked    = "InstanceLocked"
	reasonInstanceGone      = "InstanceGone"
	reasonNotOwned          = "NotOwned"
	reasonNotFound          = "InstanceNotFound"
	reasonSurplus           = "SurplusInstances"
	reasonSettling          = "SettlingCreate"
	reasonNoEffect          = "ChangeHasNoEffect"
	reasonDrifted           = "Drifted"
)

// How long until something that somebody has to mend is tried again.
const (
	waitForState      = 5 * time.Second
	waitForSecret     = 5 * time.Minute // The Secret is watched.
	waitForStock      = 7 * time.Minute
	waitForMoney      = 20 * time.Minute
	waitForPermission = 10 * time.Minute
	waitForMending    = 10 * time.Minute
	waitForDeletion   = 3 * time.Minute
	waitForCloud      = 15 * time.Second
	waitForClock      = time.Minute
)

// problemOf is the problem of a call that has failed. from says where the credentials come
// from.
func problemOf(err error, from string) *problem {
	e, ok := errors.AsType[*aliyun.Error](err)
	if !ok {
		return &problem{reason: reasonUnreachable, message: err.Error(), wait: waitForCloud, passing: true}
	}
	p := classified(e, from)
	p.code = e.Code
	return p
}

func classified(e *aliyun.Error, from string) *problem {
	said := e.Error()
	switch e.Class {
	case aliyun.Throttled:
		return &problem{reason: reasonThrottled, message: "ECS lets no more calls through for now: " + said, wait: max(e.RetryAfter, waitForState), passing: true}
	case aliyun.InFlight, aliyun.WaitForState, aliyun.Gone:
		return &problem{reason: reasonBusy, message: "It is waited for what ECS is doing: " + said, wait: waitForState, passing: true}
	case aliyun.TokenDead:
		return &problem{reason: reasonSettling, message: "It is being made sure that nothing came of the last attempt: " + said, wait: waitForState, passing: true}
	case aliyun.Capacity:
		return &problem{reason: reasonOutOfStock, message: "ECS has none now, and is asked again every few minutes; " +
			"set another instanceType, zoneID or vSwitchID to have it at once: " + said, wait: waitForStock}
	case aliyun.Quota:
		return quota(e)
	case aliyun.BadCredentials:
		return &problem{reason: reasonRefused, message: fmt.Sprintf("ECS does not accept the access key of %s: correct it: %s", from, said), wait: waitForSecret, stalled: true}
	case aliyun.NoCredentials:
		return &problem{reason: reasonNoCredentials, message: said, wait: waitForSecret, stalled: true}
	case aliyun.Clock:
		return &problem{reason: reasonClock, message: "The clock of the operator's machine is not that of ECS: set it right: " + said, wait: waitForClock}
	case aliyun.Unauthorized:
		return &problem{reason: reasonForbidden, message: fmt.Sprintf("The access key of %s may not do this: grant it ecs:%s in RAM: %s", from, e.Action, said), wait: waitForPermission, stalled: true}
	case aliyun.Rejected:
		return rejected(e)
	case aliyun.DeleteBlocked:
		return blocked(e)
	}
	return &problem{reason: reasonUnreachable, message: "ECS does not answer as it should, and is asked again: " + said, wait: waitForCloud, passing: true}
}

// refusesType returns whether err is ECS's decision about a type change: the account cannot have
// this type, or this instance cannot. Only such an error sets status.refusedInstanceType, which
// waits for a person. ECS must have read the request: an error without a request ID was made
// here. Every other class is about something else, which passes or has a condition of its own:
// the clock, the credentials, the load, or the state that the instance had at that moment.
func refusesType(err error) bool {
	e, ok := errors.AsType[*aliyun.Error](err)
	if !ok || e.RequestID == "" {
		return false
	}
	switch e.Class {
	case aliyun.Rejected, aliyun.Capacity, aliyun.Quota, aliyun.Unauthorized, aliyun.DeleteBlocked:
		return true
	}
	return false
}

func quota(e *aliyun.Error) *problem {
	for _, sign := range []string{"Balance", "Arrearage"} {
		if strings.Contains(e.Code, sign) {
			return &problem{reason: reasonNoMoney, message: "The account cannot pay for it: top it up: " + e.Error(), wait: waitForMoney}
		}
	}
	return &problem{reason: reasonQuotaExceeded, message: "The account may not have any more: have the quota raised, or delete others: " + e.Error(), wait: waitForMoney}
}

func rejected(e *aliyun.Error) *problem {
	if strings.HasPrefix(e.Code, "InvalidRegionId") {
		return &problem{reason: reasonUnknownRegion, message: "There is no such region: correct regionID: " + e.Error(), wait: waitForMending, stalled: true}
	}
	return &problem{reason: reasonRejected, message: "ECS will not have it so: correct the spec: " + e.Error(), wait: waitForMending, stalled: true}
}

func blocked(e *aliyun.Error) *problem {
	if e.Action != "DeleteInstance" {
		return &problem{reason: reasonInstanceLocked, message: "ECS does not allow that now: see the console for what to do about it: " + e.Error(), wait: waitForDeletion, stalled: true}
	}
	p := &problem{reason: reasonDeletionBlocked, message: "ECS does not let the instance go: remove what is in the way, or set deletionPolicy: Retain: " + e.Error(), wait: waitForDeletion, stalled: true}
	switch {
	case strings.HasPrefix(e.Code, "ChargeTypeViolation"):
		p.reason, p.message = reasonPaidFor, "The instance is paid for (PrePaid) until its period ends, and cannot be deleted before: "+
			"unsubscribe from it in the console, wait, or set deletionPolicy: Retain: "+e.Error()
	case strings.HasSuffix(e.Code, "DeletionProtection"):
		p.reason, p.message = reasonDeletionProtected, "The instance is protected in ECS: switch its deletion protection off there, or set deletionPolicy: Retain: "+e.Error()
	case strings.HasPrefix(e.Code, "InstanceLocked"):
		p.reason = reasonInstanceLocked
	}
	return p
}
