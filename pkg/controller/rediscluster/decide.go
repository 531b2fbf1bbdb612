/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"slices"
	"strconv"
	"time"
)

const (
	// leastPatience is how long it may take at least until the nodes have missed one that is
	// gone, and have elected a replica of it.
	leastPatience = 20 * time.Second
	// failoverPatience is how long a replica may take to take over: Redis gives up after
	// five seconds.
	failoverPatience = 6 * time.Second
	// silencePatience is how long a Pod that is to be replaced may be silent before that is
	// taken for its state.
	silencePatience = 10 * time.Second

	// maxMeets bounds how many nodes are introduced at once.
	maxMeets = 64
	// batch is how many slots are moved at once.
	batch = 16
)

// policies are what decides, in their order: the first that has something to do, or to
// wait for, says what. So what comes first in the list is done before anything after it,
// and each may rely on those before it having nothing to say.
//
// None of them remembers anything: whatever was interrupted goes on by what is seen.
var policies = []policy{
	{"ignoreShortSilence", ignoreShortSilence}, // no node of a settled cluster is silent for a moment only
	{"possible", possible},                     // there is a password, and no other Pod has the name of one
	{"strangers", strangers},                   // no node of another cluster is among the nodes
	{"losses", losses},                         // every slot has an owner that lives, or comes back
	{"strays", strays},                         // keys that were moved to a master that is gone are with its replica
	{"adrift", adrift},                         // slots whose old owner was replaced while it gave them are given by the new one
	{"gone", gone},                             // nodes whose Pods are gone are forgotten
	{"broken", broken},                         // Pods that do not run, and are not what they should be now, are replaced
	{"introduce", introduce},                   // nodes know each other, where they are now
	{"form", form},                             // the slots are given out, once
	{"adopt", adopt},                           // who is not to be a master is a replica of one
	{"agree", agree},                           // all that answer say the same of each other
	{"open", open},                             // slots that were on the move are moved
	{"functions", functions},                   // a new master has the functions of the others, before its first slot
	{"balance", balance},                       // the masters have the slots, and nobody else
	{"whole", whole},                           // every Pod answers, and every replica is up to date
	{"remove", remove},                         // who is to leave is forgotten and deleted
	{"spread", spread},                         // every master has as many replicas as the others
	{"roll", roll},                             // Pods that are not what they should be now are replaced, one by one
	{"ready", ready},                           // the Pods are ready
	{"grow", grow},                             // volumes are as large as they should be
}

// policy decides about one aspect of a cluster: it returns nil if there is nothing to do, or to wait for.
type policy struct {
	name   string
	decide func(*observed) *plan
}

// decide returns what is to be done next: whatever is missing is made, and the first policy
// has its way.
func decide(o *observed) plan {
	p := plan{wait: poll}
	upkeep := children(o)
	if len(upkeep) > 0 {
		p.step, p.wait = "Making Pods", brief
	}
	for _, policy := range policies {
		if decided := policy.decide(o); decided != nil {
			p, p.policy = *decided, policy.name
			break
		}
	}
	p.upkeep = upkeep
	if slices.ContainsFunc(p.commands, func(c command) bool { return c.verb == evictPod }) {
		p.held = o.held
	}
	if p.waits() && !o.actedAt.IsZero() && o.now.Sub(o.actedAt) > stalledAfter && len(p.problems) == 0 {
		p.problems = []problem{{reasonStalled, "Nothing has come of this for long: " + p.progress()}}
	}
	return p
}

// shortSilence is how long a node may not answer before a cluster in which all is well is
// taken for one in which it is not.
const shortSilence = 3 * time.Second

// ignoreShortSilence keeps a settled cluster as it was reported while nothing has happened but
// that nodes, which run, have not answered for a moment.
func ignoreShortSilence(o *observed) *plan {
	if !o.formed || o.rdc.Status.Operation != nil || o.rdc.Status.ObservedGeneration != o.rdc.Generation {
		return nil
	}
	silent := o.those(func(m *member) bool { return !m.answers() })
	if len(silent) == 0 || slices.ContainsFunc(silent, func(m *member) bool {
		return m.silent > shortSilence || unasked(m.pod) != nil || notStarting(m.pod) || m.refused
	}) {
		return nil
	}
	return &plan{keepStatus: true, wait: check}
}

func possible(o *observed) *plan {
	if len(o.problems) == 0 {
		return nil
	}
	return &plan{step: o.problems[0].message, wait: poll, problems: o.problems}
}

// patience is how long nodes have to find out themselves.
func (o *observed) patience() time.Duration {
	timeout, err := strconv.Atoi(string(o.rdc.Spec.Config["cluster-node-timeout"]))
	if err != nil {
		return leastPatience
	}
	return max(leastPatience, 4*time.Duration(timeout)*time.Millisecond)
}

func agree(o *observed) *plan {
	for _, m := range o.holders() {
		if !m.answers() {
			return wait(check, "Waiting for %s, which has the slots %s: %s", m.name, o.slots[m.id], m.whySilent)
		}
	}
	if quarrel := o.quarrel(); quarrel != "" {
		return wait(brief, "Waiting for the nodes to agree: %s", quarrel)
	}
	return nil
}
