// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// problem says why an object is not Ready, what a person can do about it, and when to try again.
type problem struct {
	reason  string
	message string
	code    string // the error code of ECS, which the message contains; "" if ECS did not answer
	wait    time.Duration
	// stalled reports that waiting does not help: a person has to act.
	stalled bool
	// passing reports that the problem is likely to pass by itself, and soon.
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
	reasonOwnCredentials    = "OwnCredentialsNotAllowed"
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

// The times until a failed step is tried again.
const (
	waitForBusy       = 5 * time.Second
	waitForCloud      = 15 * time.Second
	waitForClock      = time.Minute
	waitForDeletion   = 3 * time.Minute
	waitForSecret     = 5 * time.Minute // A change of the Secret ends the wait.
	waitForStock      = 7 * time.Minute
	waitForPermission = 10 * time.Minute
	waitForSpec       = 10 * time.Minute // A change of the spec ends the wait.
	waitForMoney      = 20 * time.Minute
)

// jitter is the share by which waits vary, so that waits that begin together do not end together.
const jitter = 0.1

// later returns d or a little more: see jittered.
func later(d time.Duration, whose string, now time.Time) time.Duration {
	return time.Duration(float64(d) * (1 + jitter*share(whose, now)))
}

// jittered returns about d. The difference depends on whose wait it is and when it begins, and on nothing
// else. So policies stay pure functions, and tests can repeat a run.
func jittered(d time.Duration, whose string, now time.Time) time.Duration {
	return time.Duration(float64(d) * (1 + jitter*(2*share(whose, now)-1)))
}

// share returns a number from 0 to 1 for jitter.
func share(whose string, now time.Time) float64 {
	sum := fnv.New64a()
	sum.Write([]byte(whose))                                                    // It never fails.
	return rand.New(rand.NewPCG(sum.Sum64(), uint64(now.UnixNano()))).Float64() //nolint:gosec // It is not secret, and no time is negative.
}

const busyMessage = "ECS is still busy with the instance: "

// problems holds the problem for each class of errors of ECS. The text of the error follows the message.
var problems = map[aliyun.Class]problem{
	aliyun.Throttled:    {reason: reasonThrottled, wait: waitForBusy, passing: true, message: "ECS throttles this call: "},
	aliyun.InFlight:     {reason: reasonBusy, wait: waitForBusy, passing: true, message: busyMessage},
	aliyun.WaitForState: {reason: reasonBusy, wait: waitForBusy, passing: true, message: busyMessage},
	aliyun.Gone:         {reason: reasonBusy, wait: waitForBusy, passing: true, message: busyMessage},
	aliyun.TokenDead: {reason: reasonSettling, wait: waitForBusy, passing: true,
		message: "Looking up whether the last attempt created an instance: "},
	aliyun.Transient: {reason: reasonUnreachable, wait: waitForCloud, passing: true,
		message: "ECS did not answer, or answered without sense; the operator tries again: "},
	aliyun.Capacity: {reason: reasonOutOfStock, wait: waitForStock,
		message: "ECS is out of stock, and the operator tries again every few minutes. " +
			"For an instance at once, set another instanceType, zoneID or vSwitchID: "},
	aliyun.Quota: {reason: reasonQuotaExceeded, wait: waitForMoney,
		message: "The account has used up its quota: have the quota raised, or delete other instances: "},
	aliyun.BadCredentials: {reason: reasonRefused, wait: waitForSecret, stalled: true,
		message: "ECS rejected the access key of %s: correct it: "},
	aliyun.NoCredentials: {reason: reasonNoCredentials, wait: waitForSecret, stalled: true},
	aliyun.Clock: {reason: reasonClock, wait: waitForClock,
		message: "The clock of the operator's machine differs from that of ECS: set it right: "},
	aliyun.Unauthorized: {reason: reasonForbidden, wait: waitForPermission, stalled: true,
		message: "The access key of %s may not do this: grant it ecs:%s in RAM: "},
	aliyun.Rejected: {reason: reasonRejected, wait: waitForSpec, stalled: true, message: "ECS rejected the request: correct the spec: "},
	aliyun.DeleteBlocked: {reason: reasonInstanceLocked, wait: waitForDeletion, stalled: true,
		message: "ECS has locked the instance: the console says what to do: "},
}

// problemOf returns the problem of a call that failed. from names the source of the credentials.
func problemOf(err error, from string) *problem {
	e, ok := errors.AsType[*aliyun.Error](err)
	if !ok {
		return &problem{reason: reasonUnreachable, message: err.Error(), wait: waitForCloud, passing: true}
	}
	p, ok := problems[e.Class]
	if !ok {
		p = problems[aliyun.Transient]
	}
	switch e.Class {
	case aliyun.Throttled:
		p.wait = max(e.RetryAfter, p.wait)
	case aliyun.BadCredentials:
		p.message = fmt.Sprintf(p.message, from)
	case aliyun.Unauthorized:
		p.message = fmt.Sprintf(p.message, from, e.Action)
	case aliyun.Quota:
		if strings.Contains(e.Code, "Balance") || strings.Contains(e.Code, "Arrearage") {
			p.reason, p.message = reasonNoMoney, "The balance of the account is too low: top it up: "
		}
	case aliyun.Rejected:
		if strings.HasPrefix(e.Code, "InvalidRegionId") {
			p.reason, p.message = reasonUnknownRegion, "There is no such region: correct regionID: "
		}
	case aliyun.DeleteBlocked:
		if e.Action == "DeleteInstance" {
			p.reason, p.message = deletionBlocked(e.Code)
		}
	}
	p.message, p.code = p.message+e.Error(), e.Code
	return &p
}

// untilNextPoll returns the time between a poll that ended with err and the next one.
func untilNextPoll(err error) time.Duration {
	switch aliyun.ClassOf(err) {
	case "":
		return pollEvery
	case aliyun.Transient:
		return pollRetry
	}
	return problemOf(err, "").wait
}

// deletionBlocked returns why ECS does not delete an instance.
func deletionBlocked(code string) (reason, message string) {
	switch {
	case strings.HasPrefix(code, "ChargeTypeViolation"):
		return reasonPaidFor, "The instance is paid for (PrePaid) until its period ends, and ECS does not delete it before: " +
			"unsubscribe from it in the console, wait, or set deletionPolicy: Retain: "
	case strings.HasSuffix(code, "DeletionProtection"):
		return reasonDeletionProtected, "ECS protects the instance: switch its deletion protection off in the console, " +
			"or set deletionPolicy: Retain: "
	case strings.HasPrefix(code, "InstanceLocked"):
		return reasonInstanceLocked, "ECS has locked the instance: the console says what to do, or set deletionPolicy: Retain: "
	}
	return reasonDeletionBlocked, "ECS does not delete the instance: remove what depends on it, or set deletionPolicy: Retain: "
}

// refusesType reports whether err is ECS's decision about a type change: the account cannot have this type, or this instance cannot. Only
// such an error sets status.refusedInstanceType, which blocks retries until a user acts. An error without a request ID comes from the
// client, not from ECS. The errors of all other classes are temporary or have a condition of their own: clock, credentials, load, state of
// the instance.
func refusesType(err error) bool {
	e, ok := errors.AsType[*aliyun.Error](err)
	return ok && e.RequestID != "" &&
		slices.Contains([]aliyun.Class{aliyun.Rejected, aliyun.Capacity, aliyun.Quota, aliyun.Unauthorized, aliyun.DeleteBlocked}, e.Class)
}
