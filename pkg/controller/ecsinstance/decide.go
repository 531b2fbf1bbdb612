// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/report"
)

// step is the one action that a sync takes, apart from the report of the status. Each step is beside the policies that choose it.
type step struct {
	name string // in logs, records and plans
	// status makes the change of a step that is a write of the status alone.
	status func(o *Observed, status *v1alpha1.ECSInstanceStatus)
	// do takes any other step. An error ends the sync. What ECS rejects is no error, but a problem of the outcome.
	do func(a *action, ctx context.Context) error
	// preview adds to a plan what the step would write and call: see addStep.
	preview func(o *Observed, to *report.Plan)

	// event is the reason of the event after a step that changes the instance, and "" for all others. The do of such a step is one call to
	// ECS, and returns its error: see action.change.
	event string
	// accepted notes that ECS accepted the call, unless it is nil.
	accepted func(m *memory)
	// rejected handles a problem of the call, unless it is nil. It returns false if the step is to be retried after a backoff.
	rejected func(a *action, problem *problem, err error) bool
}

// ofInstance returns the do of a step whose call needs nothing but the ID of the instance.
func ofInstance(call func(Cloud, context.Context, string) error) func(*action, context.Context) error {
	return func(a *action, ctx context.Context) error { return call(a.cloud(), ctx, a.o.ID) }
}

// String returns the name of the step, "" for none.
func (s *step) String() string {
	if s == nil {
		return ""
	}
	return s.name
}

// MarshalJSON returns the name of the step.
func (s *step) MarshalJSON() ([]byte, error) { return json.Marshal(s.name) }

// Plan is the decision of one sync. It is what a recording holds.
type Plan struct {
	Policy string            `json:"policy"` // the name of the policy that decided
	Step   *step             `json:"step,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`   // of stepTag
	Keys   []string          `json:"keys,omitempty"`   // of stepUntag
	Change *aliyun.Change    `json:"change,omitempty"` // of stepModify

	// Problem says why the object cannot become Ready. If it is nil, Reason and Message describe the progress.
	Problem *problem `json:"problem,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Message string   `json:"message,omitempty"`
	// Ready reports that the instance matches the spec, except for Drift: differences that the operator reports, and does not correct.
	Ready bool     `json:"ready,omitempty"`
	Drift []string `json:"drift,omitempty"`
	// KeepsConditions reports that the sync writes no conditions.
	KeepsConditions bool `json:"silent,omitempty"`

	// Wants is the name of the change of the instance that the plan requests now, or requests again after Wait.
	Wants string `json:"wants,omitempty"`
	// Gone reports that ECS no longer has the instance, and that the operator creates no other one.
	Gone bool `json:"gone,omitempty"`

	Wait metav1.Duration `json:"wait,omitzero"` // until the next sync, 0 for none
	Poll metav1.Duration `json:"look,omitzero"` // until the next poll of the instance, 0 for the usual interval
}

// acts reports whether the step needs more than a write of the status.
func (p Plan) acts() bool { return p.Step != nil && p.Step.status == nil }

// changesInstance reports whether the step changes an instance.
func (p Plan) changesInstance() bool { return p.Step != nil && p.Step.event != "" }

// after returns the plan from which the status is computed. out is the outcome of act.
func (p Plan) after(out outcome) Plan {
	switch {
	case !p.acts():
		return p
	case p.changesInstance():
		return Plan{KeepsConditions: true} // The next poll shows the result.
	case out.problem != nil:
		return Plan{Problem: out.problem, Wait: in(out.wait)}
	}
	return Plan{KeepsConditions: true, Wait: in(out.wait)}
}

// policy decides in one situation. decide returns nil in any other. name is the function's name, which logs and plans show.
type policy struct {
	name   string
	decide func(*Observed) *Plan
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
func decide(o *Observed) Plan {
	list := policies
	if o.deleting() {
		list = deletionPolicies
	}
	for _, policy := range list {
		if p := policy.decide(o); p != nil {
			p.Policy = policy.name
			return p.unlessBackingOff(o).afterRecentPoll(o)
		}
	}
	return Plan{KeepsConditions: true}
}

// unlessBackingOff returns p, or a plan to wait while the backoff of its step lasts.
func (p Plan) unlessBackingOff(o *Observed) Plan {
	b := o.Memory.Backoff
	if p.Step == nil || p.Step.name != b.Step || !b.active(o.Object.Generation, o.Now) {
		return p
	}
	return Plan{Policy: p.Policy, Problem: b.Problem, Wait: in(b.Until.Sub(o.Now)), Wants: p.Wants}
}

// recentPoll is the largest age of the answer on which the operator deletes or releases an instance. DeleteInstance has no precondition
// on tags, so a tag that changes between the poll and the call goes unnoticed.
const recentPoll = 3 * time.Second

// afterRecentPoll returns p, or a plan to poll first: a deletion must not rely on a tag that ECS showed some time ago.
func (p Plan) afterRecentPoll(o *Observed) Plan {
	if !o.deleting() || !p.changesInstance() || o.Now.Sub(o.AnsweredAt) <= recentPoll {
		return p
	}
	return Plan{Policy: p.Policy, KeepsConditions: true, Poll: pollSoon, Wants: p.Wants}
}
