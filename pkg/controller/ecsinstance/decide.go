// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"time"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// step is the one action that a sync takes in ECS or on the object, apart from a write of the status.
type step string

const (
	stepNone        step = ""
	stepFinalize    step = "finalize"     // add the finalizer
	stepCreate      step = "create"       // look up the instance, and create it if there is none
	stepFindAttempt step = "find attempt" // look up the instance that the last call to create may have left
	stepRecreate    step = "recreate"     // begin to create another instance, as the last one is gone
	stepAdopt       step = "adopt"        // write the adopted instance into the status
	stepTag         step = "tag"
	stepUntag       step = "untag"
	stepModify      step = "modify"
	stepSetType     step = "set type"
	stepAllocate    step = "allocate address"
	stepStart       step = "start"
	stepStop        step = "stop"
	stepDelete      step = "delete"
	stepVerifyGone  step = "verify gone" // check that no instance is left, and remove the finalizer
	stepRelease     step = "release"     // remove the finalizer
)

// plan is the decision of one sync.
type plan struct {
	policy string // the name of the policy that decided
	step   step
	tags   map[string]string // of stepTag
	keys   []string          // of stepUntag
	change aliyun.Change     // of stepModify

	// problem says why the object cannot become Ready. If it is nil, reason and message describe the progress.
	problem         *problem
	reason, message string
	// ready reports that the instance matches the spec, except for drift: differences that the operator reports, and does not correct.
	ready bool
	drift []string
	// keepsConditions reports that the sync writes no conditions.
	keepsConditions bool

	// wants is the change of the instance that the plan requests now, or requests again after wait.
	wants step
	// gone reports that ECS no longer has the instance, and that the operator creates no other one.
	gone bool

	wait time.Duration // until the next sync, 0 for none
	poll time.Duration // until the next poll of the instance, 0 for the usual interval
}

// acts reports whether the step needs more than a write of the status.
func (p plan) acts() bool {
	return p.step != stepNone && p.step != stepAdopt && p.step != stepRecreate
}

// changesInstance reports whether the step changes an instance.
func (p plan) changesInstance() bool {
	_, changes := changeEvents[p.step]
	return changes
}

// after returns the plan from which the status is computed. out is the outcome of act.
func (p plan) after(out outcome) plan {
	switch {
	case !p.acts():
		return p
	case p.changesInstance():
		return plan{keepsConditions: true} // The next poll shows the result.
	case out.problem != nil:
		return plan{problem: out.problem, wait: out.wait}
	}
	return plan{keepsConditions: true, wait: out.wait}
}

// policy decides in one situation. decide returns nil in any other. name is the function's name, which logs and plans show.
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
	{"waitForPoll", waitForPoll},               // the instance was not polled since the last change
	{"replaceInstance", replaceInstance},       // the instance is gone
	{"recordFirstState", recordFirstState},     // ECS shows the instance for the first time
	{"refuseOtherOwner", refuseOtherOwner},     // the instance does not have this object's tag
	{"waitForState", waitForState},             // the instance is neither Running nor Stopped
	{"changeTags", changeTags},                 // tags differ
	{"changeAttributes", changeAttributes},     // the name or the security groups differ
	{"changeType", changeType},                 // the type differs
	{"allocateAddress", allocateAddress},       // a stopped instance lacks its public IP
	{"changePower", changePower},               // the power state differs
	{"reportReady", reportReady},               // nothing differs
}

// deletionPolicies is the list for an object that is being deleted.
var deletionPolicies = []policy{
	{"releaseUncreated", releaseUncreated},     // no instance was created
	{"waitForAccess", waitForAccess},           // credentials are missing, or ECS does not answer
	{"refuseOtherAccount", refuseOtherAccount}, // the credentials are of another account
	{"settleAttempt", settleAttempt},           // an attempt may have created an instance
	{"waitForPoll", waitForPoll},               // the instance was not polled since the last change
	{"releaseGone", releaseGone},               // the instance is gone
	{"recordFirstState", recordFirstState},     // ECS shows the instance for the first time
	{"releaseOtherOwner", releaseOtherOwner},   // the instance does not have this object's tag
	{"releaseRetained", releaseRetained},       // the instance is to be kept
	{"waitForState", waitForState},             // the instance is neither Running nor Stopped
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
			return p.unlessBackingOff(o).afterRecentPoll(o)
		}
	}
	return plan{keepsConditions: true}
}

// unlessBackingOff returns p, or a plan to wait while the backoff of its step lasts.
func (p plan) unlessBackingOff(o *observed) plan {
	b := o.memory.backoff
	if !p.acts() || p.step == stepFinalize || p.step == stepRelease || p.step != b.step || !b.active(o.ecs.Generation, o.now) {
		return p
	}
	return plan{policy: p.policy, problem: b.problem, wait: b.until.Sub(o.now), wants: p.wants}
}

// recentPoll is the largest age of the answer on which the operator deletes or releases an instance. DeleteInstance has no precondition
// on tags, so a tag that changes between the poll and the call goes unnoticed.
const recentPoll = 3 * time.Second

// afterRecentPoll returns p, or a plan to poll first: a deletion must not rely on a tag that ECS showed some time ago.
func (p plan) afterRecentPoll(o *observed) plan {
	if !o.deleting() || !p.changesInstance() || o.now.Sub(o.answeredAt) <= recentPoll {
		return p
	}
	return plan{policy: p.policy, keepsConditions: true, poll: pollSoon, wants: p.wants}
}
