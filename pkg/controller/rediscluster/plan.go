/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/redisnode"
)

// The operations, as status.operation.type has them.
const (
	opForm     = "Form"
	opScaleOut = "ScaleOut"
	opScaleIn  = "ScaleIn"
	opRoll     = "Roll"
	opHeal     = "Heal"
)

// How soon a sync looks again at what it waits for. A Pod that changes leads to a sync
// by itself; what happens within Redis does not.
const (
	poll  = 10 * time.Second       // while all is as it should be
	check = time.Second            // while Pods start, or nodes copy
	brief = 250 * time.Millisecond // while nodes hear of each other
	soon  = 20 * time.Millisecond  // while one hears of what another has just said
)

// plan is what is to be done next.
type plan struct {
	// policy is the name of the policy that decided; "" if none had anything to do.
	policy string
	// keepStatus is whether nothing is to be reported, nor done.
	keepStatus bool
	// step says it, for status.operation; "" if all is as the spec says.
	step     string
	held     string    // why the eviction among the commands was refused the last time; "" if it was not
	upkeep   []command // of which each is tried, whatever comes of the others
	commands []command // of which one that fails ends it
	wait     time.Duration
	problems []problem
	// loss is what has been lost, if that was not accepted.
	loss *loss
}

// progress is the step, and what holds it up.
func (p plan) progress() string {
	if p.held == "" {
		return p.step
	}
	return p.step + ". The PodDisruptionBudget does not allow the eviction now: " + p.held
}

// waits returns whether the plan is to wait for something, rather than to do anything.
func (p plan) waits() bool {
	acts := len(p.commands)+len(p.upkeep) > 0 && p.held == ""
	return p.step != "" && !acts
}

// verb is what a command does.
type verb string

const (
	createClaim   verb = "create claim of"
	growClaim     verb = "grow claim of"
	deleteClaim   verb = "delete claim of"
	createPod     verb = "create Pod"
	deletePod     verb = "delete Pod"
	evictPod      verb = "evict Pod"      // as far as the PodDisruptionBudget allows it
	meet          verb = "meet"           // on gets to know peer
	forget        verb = "forget"         // on forgets id
	addSlots      verb = "add slots"      // to on
	replicate     verb = "replicate"      // on becomes a replica of peer
	failover      verb = "failover"       // on takes over from its master
	moveSlots     verb = "move slots"     // from on to peer
	copyFunctions verb = "copy functions" // of peer to on
	closeSlots    verb = "close slots"    // that are open on on
	openSlots     verb = "open slots"     // of on that peer is to get
	reunite       verb = "reunite"        // slots of on with keys of theirs that are elsewhere
)

// command is one thing that is to be done.
type command struct {
	verb  verb
	on    *member
	peer  *member
	id    string
	slots redisnode.Slots
	how   redisnode.Failover
}

// String is the command in a few words, for logs and tests.
func (c command) String() string {
	words := []string{string(c.verb), c.on.name}
	if c.how != redisnode.Graceful {
		words = append(words, string(c.how))
	}
	if c.peer != nil {
		words = append(words, c.peer.name)
	}
	if c.id != "" {
		words = append(words, c.id)
	}
	if len(c.slots) > 0 {
		words = append(words, c.slots.String())
	}
	return strings.Join(words, " ")
}

// wait is the plan to do nothing for now.
func wait(after time.Duration, format string, args ...any) *plan {
	return &plan{step: fmt.Sprintf(format, args...), wait: after}
}

// do is the plan to do this, and to look again soon: at once after slots were moved, since
// there is nothing to wait for.
func do(commands []command, format string, args ...any) *plan {
	p := &plan{step: fmt.Sprintf(format, args...), commands: commands, wait: brief}
	if commands[0].verb == moveSlots {
		p.wait = time.Millisecond
	}
	return p
}

// stuck is the plan to do nothing until a person has done something.
func stuck(reason, format string, args ...any) *plan {
	message := fmt.Sprintf(format, args...)
	return &plan{step: message, wait: check, problems: []problem{{reason, message}}}
}
