/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"time"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// step is what a sync does: at most one thing that changes anything in the cloud.
type step string

const (
	stepNone     step = ""
	stepFinalize step = "finalize" // put the finalizer on
	stepCreate   step = "create"   // look whether there is an instance already, and else make one
	stepSettle   step = "settle"   // look what came of an attempt
	stepRenew    step = "renew"    // give up the instance that is gone, for another attempt
	stepAdopt    step = "adopt"    // put down the instance that was taken over
	stepTag      step = "tag"
	stepUntag    step = "untag"
	stepModify   step = "modify"
	stepSetType  step = "set type"
	stepStart    step = "start"
	stepStop     step = "stop"
	stepDelete   step = "delete"
	stepBury     step = "bury"    // look that no instance is left, and release
	stepRelease  step = "release" // take the finalizer off
)

// plan is what one sync makes of what it has seen.
type plan struct {
	step   step
	tags   map[string]string // of stepTag
	keys   []string          // of stepUntag
	change aliyun.Change     // of stepModify

	// problem is why it does not go on, and reason and message how far it has come, if
	// there is none.
	problem         *problem
	reason, message string
	// ready is whether all is as the spec says, but for what drift names.
	ready bool
	drift []string
	// silent leaves the conditions as they are.
	silent bool

	// wants is what it would do if that had not been asked for just now.
	wants step
	// gone is whether to put down that the instance is not there.
	gone bool

	wait time.Duration // until the next sync, 0 for none
	look time.Duration // until the next look at the instance, 0 for as usual
}

// acts returns whether there is more to do than to write the status.
func (p plan) acts() bool {
	switch p.step {
	case stepNone, stepAdopt, stepRenew:
		return false
	}
	return true
}

// policy is one thing to look at. It returns false if it has nothing to say. What is seen is
// in seeing.go, what there is to make, to mend and to end in the files of those names.
type policy struct {
	name   string
	decide func(*observed) (plan, bool)
}

// life is what is done about an ECSInstance that is to be: the first policy that has
// something to say decides.
var life = []policy{
	{"no finalizer yet", unfinalized},
	{"no credentials, or no answer", blind},
	{"credentials of another account", elsewhere},
	{"no instance, and one is to be adopted", adopting},
	{"no instance", absent},
	{"instance not seen since", unseen},
	{"instance gone", gone},
	{"instance seen for the first time", discovered},
	{"instance is somebody else's", foreign},
	{"ECS is at work on it", transitional},
	{"tags differ", untagged},
	{"name or security groups differ", altered},
	{"type differs", resized},
	{"power state differs", powered},
	{"nothing differs", settled},
}

// death is the same for one that is being deleted.
var death = []policy{
	{"nothing was ever made", unmade},
	{"no credentials, or no answer", blind},
	{"credentials of another account", elsewhere},
	{"it is not known what came of an attempt", unsettled},
	{"instance not seen since", unseen},
	{"instance gone", buried},
	{"instance seen for the first time", discovered},
	{"instance is somebody else's", disowned},
	{"instance is to be kept", retained},
	{"ECS is at work on it", transitional},
	{"instance is still there", condemned},
}

// decide says what to do next.
func decide(o *observed) plan {
	policies := life
	if o.deleting() {
		policies = death
	}
	for _, p := range policies {
		if next, ok := p.decide(o); ok {
			return next.held(o)
		}
	}
	return plan{silent: true}
}

// held makes of a plan to ask ECS for something one to wait, if that was asked for in vain.
func (p plan) held(o *observed) plan {
	switch p.step {
	case stepFinalize, stepRelease:
		return p
	}
	if o.held == nil || !p.acts() || (p.step != o.mine.heldStep && o.mine.heldStep != stepNone) {
		return p
	}
	return plan{problem: o.held, wait: o.heldFor, wants: p.wants}
}
