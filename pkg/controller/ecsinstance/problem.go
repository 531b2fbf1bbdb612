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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// problem says why an object is not Ready, what a person can do about it, and when to try again.
type problem struct {
	Reason  string          `json:"reason"`
	Message string          `json:"message"`
	Code    string          `json:"code,omitempty"` // the error code of ECS, which the message contains; "" if ECS did not answer
	Wait    metav1.Duration `json:"wait,omitzero"`
	// Stalled reports that waiting does not help: a person has to act.
	Stalled bool `json:"stalled,omitempty"`
	// Passing reports that the problem is likely to pass by itself, and soon.
	Passing bool `json:"passing,omitempty"`
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
var (
	waitForBusy       = in(5 * time.Second)
	waitForCloud      = in(15 * time.Second)
	waitForClock      = in(time.Minute)
	waitForDeletion   = in(3 * time.Minute)
	waitForSecret     = in(5 * time.Minute) // A change of the Secret ends the wait.
	waitForStock      = in(7 * time.Minute)
	waitForPermission = in(10 * time.Minute)
	waitForSpec       = in(10 * time.Minute) // A change of the spec ends the wait.
	waitForMoney      = in(20 * time.Minute)
)

// in returns d in the form that records have.
func in(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

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
	aliyun.Throttled:    {Reason: reasonThrottled, Wait: waitForBusy, Passing: true, Message: "ECS throttles this call: "},
	aliyun.InFlight:     {Reason: reasonBusy, Wait: waitForBusy, Passing: true, Message: busyMessage},
	aliyun.WaitForState: {Reason: reasonBusy, Wait: waitForBusy, Passing: true, Message: busyMessage},
	aliyun.Gone:         {Reason: reasonBusy, Wait: waitForBusy, Passing: true, Message: busyMessage},
	aliyun.TokenDead: {Reason: reasonSettling, Wait: waitForBusy, Passing: true,
		Message: "Looking up whether the last attempt created an instance: "},
	aliyun.Transient: {Reason: reasonUnreachable, Wait: waitForCloud, Passing: true,
		Message: "ECS did not answer, or answered without sense; the operator tries again: "},
	aliyun.Capacity: {Reason: reasonOutOfStock, Wait: waitForStock,
		Message: "ECS is out of stock, and the operator tries again every few minutes. " +
			"For an instance at once, set another instanceType, zoneID or vSwitchID: "},
	aliyun.Quota: {Reason: reasonQuotaExceeded, Wait: waitForMoney,
		Message: "The account has used up its quota: have the quota raised, or delete other instances: "},
	aliyun.BadCredentials: {Reason: reasonRefused, Wait: waitForSecret, Stalled: true,
		Message: "ECS rejected the access key of %s: correct it: "},
	aliyun.NoCredentials: {Reason: reasonNoCredentials, Wait: waitForSecret, Stalled: true},
	aliyun.Clock: {Reason: reasonClock, Wait: waitForClock,
		Message: "The clock of the operator's machine differs from that of ECS: set it right: "},
	aliyun.Unauthorized: {Reason: reasonForbidden, Wait: waitForPermission, Stalled: true,
		Message: "The access key of %s may not do this: grant it ecs:%s in RAM: "},
	aliyun.Rejected: {Reason: reasonRejected, Wait: waitForSpec, Stalled: true, Message: "ECS rejected the request: correct the spec: "},
	aliyun.DeleteBlocked: {Reason: reasonInstanceLocked, Wait: waitForDeletion, Stalled: true,
		Message: "ECS has locked the instance: the console says what to do: "},
}

// problemOf returns the problem of a call that failed. from names the source of the credentials.
func problemOf(err error, from string) *problem {
	e, ok := errors.AsType[*aliyun.Error](err)
	if !ok {
		return &problem{Reason: reasonUnreachable, Message: err.Error(), Wait: waitForCloud, Passing: true}
	}
	p, ok := problems[e.Class]
	if !ok {
		p = problems[aliyun.Transient]
	}
	switch e.Class {
	case aliyun.Throttled:
		p.Wait.Duration = max(e.RetryAfter, p.Wait.Duration)
	case aliyun.BadCredentials:
		p.Message = fmt.Sprintf(p.Message, from)
	case aliyun.Unauthorized:
		p.Message = fmt.Sprintf(p.Message, from, e.Action)
	case aliyun.Quota:
		if strings.Contains(e.Code, "Balance") || strings.Contains(e.Code, "Arrearage") {
			p.Reason, p.Message = reasonNoMoney, "The balance of the account is too low: top it up: "
		}
	case aliyun.Rejected:
		if strings.HasPrefix(e.Code, "InvalidRegionId") {
			p.Reason, p.Message = reasonUnknownRegion, "There is no such region: correct regionID: "
		}
	case aliyun.DeleteBlocked:
		if e.Action == "DeleteInstance" {
			p.Reason, p.Message = deletionBlocked(e.Code)
		}
	}
	p.Message, p.Code = p.Message+e.Error(), e.Code
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
	return problemOf(err, "").Wait.Duration
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
