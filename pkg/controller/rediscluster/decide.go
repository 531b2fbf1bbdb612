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
var policies = []func(*observed) *plan{
	possible,  // there is a password, and no other Pod has the name of one
	strangers, // no node of another cluster is among the nodes
	losses,    // every slot has an owner that lives, or comes back
	strays,    // keys that were moved to a master that is gone are with its replica
	adrift,    // slots whose old owner was replaced while it gave them are given by the new one
	gone,      // nodes whose Pods are gone are forgotten
	broken,    // Pods that do not run, and are not what they should be now, are replaced
	introduce, // nodes know each other, where they are now
	form,      // the slots are given out, once
	adopt,     // who is not to be a master is a replica of one
	agree,     // all that answer say the same of each other
	open,      // slots that were on the move are moved
	functions, // a new master has the functions of the others, before its first slot
	balance,   // the masters have the slots, and nobody else
	whole,     // every Pod answers, and every replica is up to date
	remove,    // who is to leave is forgotten and deleted
	spread,    // every master has as many replicas as the others
	roll,      // Pods that are not what they should be now are replaced, one by one
	ready,     // the Pods are ready
	grow,      // volumes are as large as they should be
}

// decide returns what is to be done next: whatever is missing is made, and the first policy
// has its way.
func decide(o *observed) plan {
	upkeep := children(o)
	for _, policy := range policies {
		if p := policy(o); p != nil {
			p.upkeep = upkeep
			if slices.ContainsFunc(p.commands, func(c command) bool { return c.verb == evictPod }) {
				p.held = o.held
			}
			return *p
		}
	}
	p := plan{wait: poll, upkeep: upkeep}
	if len(upkeep) > 0 {
		p.step, p.wait = "Making Pods", brief
	}
	return p
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
			return wait(check, "Waiting for %s, which has the slots %s: %s", m.name, o.slots[m.id], cause(m.err))
		}
	}
	if quarrel := o.quarrel(); quarrel != "" {
		return wait(brief, "Waiting for the nodes to agree: %s", quarrel)
	}
	return nil
}
