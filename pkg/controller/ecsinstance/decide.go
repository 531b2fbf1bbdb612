/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"time"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// step is the one thing that a sync changes in the cloud or of the object, beside the status.
type step string

const (
	stepNone        step = ""
	stepFinalize    step = "finalize"     // add the finalizer
	stepCreate      step = "create"       // look up the instance, and create it if there is none
	stepFindAttempt step = "find attempt" // look up what the last attempt created
	stepRenew       step = "renew"        // begin another attempt, as the instance is gone
	stepAdopt       step = "adopt"        // write the adopted instance into the status
	stepTag         step = "tag"
	stepUntag       step = "untag"
	stepModify      step = "modify"
	stepSetType     step = "set type"
	stepStart       step = "start"
	stepStop        step = "stop"
	stepDelete      step = "delete"
	stepVerifyGone  step = "verify gone" // look up that no instance is left, and remove the finalizer
	stepRelease     step = "release"     // remove the finalizer
)

// plan is the decision of one sync.
type plan struct {
	policy string // the name of the policy that decided
	step   step
	tags   map[string]string // of stepTag
	keys   []string          // of stepUntag
	change aliyun.Change     // of stepModify

	// problem says why the object cannot become Ready. Without a problem, reason and message say how far
	// it is.
	problem         *problem
	reason, message string
	// ready reports that the instance is as the spec says, except for drift.
	ready bool
	drift []string
	// silent leaves the conditions as they are.
	silent bool

	// wants is the step that the plan waits to repeat, or takes.
	wants step
	// gone reports that the instance is gone.
	gone bool

	wait time.Duration // until the next sync, 0 for none
	look time.Duration // until the next look at the instance, 0 for the usual time
}

// acts reports whether the step needs more than a write of the status.
func (p plan) acts() bool {
	return p.step != stepNone && p.step != stepAdopt && p.step != stepRenew
}

// changes reports whether the step changes an instance.
func (p plan) changes() bool {
	_, changes := changeEvents[p.step]
	return changes
}

// after returns the plan that the status shows after act.
func (p plan) after(out outcome) plan {
	switch {
	case !p.acts():
		return p
	case p.changes():
		return plan{silent: true} // The next look shows the result.
	case out.problem != nil:
		return plan{problem: out.problem, wait: out.wait}
	}
	return plan{silent: true, wait: out.wait}
}

// policy decides in one situation. decide returns nil in any other. The name is that of the function: logs and plans show it.
type policy struct {
	name   string
	decide func(*observed) *plan
}

// policies is the list for an object that is not being deleted. The first policy that returns a plan decides.
var policies = []policy{
	{"addFinalizer", addFinalizer},             // the finalizer is missing
	{"waitForAccess", waitForAccess},           // credentials are missing, or ECS does not answer
	{"refuseOtherAccount", refuseOtherAccount}, // the credentials are of another account
	{"adoptInstance", adoptInstance},           // an instance is to be adopted
	{"createInstance", createInstance},         // there is no instance
	{"waitForLook", waitForLook},               // the instance was not looked at since the last change
	{"replaceInstance", replaceInstance},       // the instance is gone
	{"recordFirstLook", recordFirstLook},       // the instance shows for the first time
	{"refuseOtherOwner", refuseOtherOwner},     // the instance does not have this object's tag
	{"waitForState", waitForState},             // ECS changes the state of the instance
	{"changeTags", changeTags},                 // tags differ
	{"changeAttributes", changeAttributes},     // the name or the security groups differ
	{"changeType", changeType},                 // the type differs
	{"changePower", changePower},               // the power state differs
	{"reportReady", reportReady},               // nothing differs
}

// deletionPolicies is the list for an object that is being deleted.
var deletionPolicies = []policy{
	{"releaseUncreated", releaseUncreated},     // no instance was created
	{"waitForAccess", waitForAccess},           // credentials are missing, or ECS does not answer
	{"refuseOtherAccount", refuseOtherAccount}, // the credentials are of another account
	{"settleAttempt", settleAttempt},           // an attempt may have created an instance
	{"waitForLook", waitForLook},               // the instance was not looked at since the last change
	{"releaseGone", releaseGone},               // the instance is gone
	{"recordFirstLook", recordFirstLook},       // the instance shows for the first time
	{"releaseOtherOwner", releaseOtherOwner},   // the instance does not have this object's tag
	{"releaseRetained", releaseRetained},       // the instance is to be kept
	{"waitForState", waitForState},             // ECS changes the state of the instance
	{"deleteInstance", deleteInstance},         // the instance exists
}

// decide returns the plan for o.
func decide(o *observed) plan {
	list := policies
	if o.deleting() {
		list = deletionPolicies
	}
	for _, policy := range list {
		if p := policy.decide(o); p != nil {
			p.policy = policy.name
			return p.unlessHeld(o)
		}
	}
	return plan{silent: true}
}

// unlessHeld returns p, or a plan to wait if the same step failed a moment ago.
func (p plan) unlessHeld(o *observed) plan {
	h := o.memory.hold
	if !p.acts() || p.step == stepFinalize || p.step == stepRelease || p.step != h.step || !h.active(o.ecs.Generation, o.now) {
		return p
	}
	return plan{policy: p.policy, problem: h.problem, wait: h.until.Sub(o.now), wants: p.wants}
}
