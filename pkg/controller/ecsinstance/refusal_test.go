// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// faults gives the calls of an action these faults, one after the other, and none after that.
// before runs before each call of the action, unless it is nil.
func (w *world) faults(action string, before func(ecssim.Call), faults ...ecssim.Fault) {
	w.cloud.SetFault(func(call ecssim.Call) ecssim.Fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if call.Action != action || len(faults) == 0 {
			return ecssim.Fault{}
		}
		if before != nil {
			before(call)
		}
		fault := faults[0]
		faults = faults[1:]
		return fault
	})
}

// answered is a call that ECS answers with an error, without an effect.
func answered(status int, code string) ecssim.Fault {
	return ecssim.Fault{Before: ecssim.Error(status, code, "something")}
}

// runningWithRestart makes an instance that runs, and may be stopped for another type.
func runningWithRestart(w *world) {
	w.apply("vm", func(e *v1alpha1.ECSInstance) { e.Spec.InstanceTypeChangePolicy = v1alpha1.TypeChangeRestart })
	w.ready("vm")
}

// TestPassingErrorRefusesNoType: an error that is not about the type stops the change of the type only while the error lasts. The first
// row is from world 1096: ECS did not accept the time of the request, also after a second signature.
func TestPassingErrorRefusesNoType(t *testing.T) {
	skewed := ecssim.Fault{Skew: time.Hour}
	for sentence, test := range map[string]struct {
		before func(*world, ecssim.Call)
		faults []ecssim.Fault
	}{
		"the time of the request is not accepted, twice": {faults: []ecssim.Fault{skewed, skewed}},
		"nor is it for some minutes":                     {faults: []ecssim.Fault{skewed, skewed, skewed, skewed, skewed, skewed}},
		"the nonce is not accepted, twice": {
			faults: []ecssim.Fault{answered(400, "SignatureNonceUsed"), answered(400, "SignatureNonceUsed")},
		},
		"the access key is disabled for a moment": {faults: []ecssim.Fault{answered(403, "Forbidden.AccessKeyDisabled")}},
		"the security token has just expired":     {faults: []ecssim.Fault{answered(400, "InvalidSecurityToken.Expired")}},
		"the signature is not accepted":           {faults: []ecssim.Fault{answered(400, "SignatureDoesNotMatch")}},
		"ECS throttles": {
			faults: []ecssim.Fault{{Before: ecssim.Throttled400()}, {Before: ecssim.Throttled429()}},
		},
		"ECS fails": {faults: []ecssim.Fault{{Before: ecssim.InternalError()}, {Before: ecssim.BadGateway()}}},
		"ECS changes the type, and the answer is lost": {faults: []ecssim.Fault{{LoseAnswer: true}}},
		"ECS shows the instance only later":            {faults: []ecssim.Fault{answered(404, "InvalidInstanceId.NotFound")}},
		"something else is done with the instance":     {faults: []ecssim.Fault{answered(409, "OperationConflict")}},
		"a second operator has started the instance": {
			before: func(w *world, call ecssim.Call) {
				w.cloud.Update(call.InstanceID, func(i *ecssim.Instance) { i.State = "Starting" })
			},
			faults: []ecssim.Fault{{}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				runningWithRestart(w)
				w.faults("ModifyInstanceSpec", func(call ecssim.Call) {
					if test.before != nil {
						test.before(w, call)
					}
				}, test.faults...)
				w.edit("vm", setType("ecs.g6.xlarge"))
				w.within(15*time.Minute, "the new type", func() bool {
					i := w.onlyInstance()
					return i.Type == "ecs.g6.xlarge" && i.State == "Running" && w.isReady("vm")
				})
				if n := w.countEvents("Warning TypeChangeRefused"); n != 0 || w.get("vm").Status.RefusedInstanceType != "" {
					t.Errorf("the type was refused %d times\n%s", n, w.describe())
				}
			})
		})
	}
}

// TestRefusesType has every class, so that a new one is put on one side or the other.
func TestRefusesType(t *testing.T) {
	for class, want := range map[aliyun.Class]bool{
		aliyun.Throttled: false, aliyun.Transient: false, aliyun.InFlight: false, aliyun.TokenDead: false,
		aliyun.WaitForState: false, aliyun.Gone: false,
		aliyun.Capacity: true, aliyun.Quota: true, aliyun.Unauthorized: true, aliyun.Rejected: true, aliyun.DeleteBlocked: true,
		aliyun.BadCredentials: false, aliyun.NoCredentials: false, aliyun.Clock: false,
	} {
		if got := refusesType(&aliyun.Error{Action: "ModifyInstanceSpec", Class: class, RequestID: "x"}); got != want {
			t.Errorf("%s: %t, want %t", class, got, want)
		}
		if refusesType(&aliyun.Error{Action: "ModifyInstanceSpec", Class: class}) {
			t.Errorf("%s: an error that is not of ECS refuses the type", class)
		}
	}
	if refusesType(context.Canceled) {
		t.Error("a call that was cancelled refuses the type")
	}
}

// TestTypeThatECSRefuses: ECS has read the request, and says no to the type. The instance has been
// stopped for it, once, and runs again as it was, until the spec says otherwise.
func TestTypeThatECSRefuses(t *testing.T) {
	for kind, code := range map[string]string{
		"nostock":     "OperationDenied.NoStock",
		"unsupported": "InvalidInstanceType.ZoneNotSupported",
		"missing":     "InvalidInstanceType.ValueNotSupported",
		"quota":       "QuotaExceed.ElasticQuota",
		"balance":     "InvalidAccountStatus.NotEnoughBalance",
		"forbidden":   "Forbidden.RAM",
	} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				runningWithRestart(w)
				w.edit("vm", setType("ecs."+kind+".large"))
				w.within(5*time.Minute, "the refusal", func() bool { return w.countEvents("Warning TypeChangeRefused") == 1 })
				time.Sleep(2 * time.Hour)
				w.readySoon("vm")
				if i := w.onlyInstance(); i.Type != "ecs.g6.large" || i.State != "Running" || w.count("stop") != 1 {
					t.Errorf("it was stopped %d times, and is %+v", w.count("stop"), i)
				}
				if got := w.get("vm").Status.RefusedInstanceType; got != "ecs."+kind+".large" {
					t.Errorf("refusedInstanceType is %q", got)
				}
				calls := w.cloud.Calls()
				if n := w.cloud.Count("ModifyInstanceSpec"); n != 1 {
					t.Errorf("ECS was asked %d times", n)
				}
				for _, c := range calls {
					if c.Action == "ModifyInstanceSpec" && c.Code != code {
						t.Errorf("ECS said %s", c.Code)
					}
				}
				w.edit("vm", setType("ecs.g6.xlarge"))
				w.within(5*time.Minute, "the new type", func() bool { return w.onlyInstance().Type == "ecs.g6.xlarge" && w.isReady("vm") })
				if got := w.get("vm").Status.RefusedInstanceType; got != "" {
					t.Errorf("refusedInstanceType still is %q", got)
				}
			})
		})
	}
}
