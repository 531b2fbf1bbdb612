/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"slices"

	"github.com/glassback/glassback/pkg/redisnode"
)

// form gives out the slots of a cluster that never had them all. It has no keys: see
// losses.
func form(o *observed) *plan {
	free := redisnode.SlotRange(0, redisnode.SlotCount-1).Without(o.assigned())
	if o.formed || free.Len() == 0 {
		return nil
	}
	for _, m := range o.members {
		if !m.answers() {
			return wait(check, "Waiting for %s: %s", m.name, m.whySilent)
		}
	}
	if quarrel := o.quarrel(); quarrel != "" {
		return wait(brief, "Waiting for the nodes to know each other: %s", quarrel)
	}
	masters := slices.DeleteFunc(o.masters(), func(m *member) bool { return !m.view.Master })
	if len(masters) == 0 {
		return stuck(reasonHeldBack, "No node can be given the slots %s: all of them are replicas, or leave", free)
	}
	var commands []command
	for i, m := range masters {
		first, last := i*redisnode.SlotCount/len(masters), (i+1)*redisnode.SlotCount/len(masters)-1
		if share := redisnode.SlotRange(first, last).Intersect(free); share.Len() > 0 {
			commands = append(commands, command{verb: addSlots, on: m, slots: share})
		}
	}
	return do(commands, "Giving out the slots to %d masters", len(masters))
}

// adopt gives a master to those who are to be replicas, and have none that stays.
func adopt(o *observed) *plan {
	masters := o.masters()
	if len(masters) < int(o.rdc.Spec.Masters()) && !o.complete() {
		return nil // Who comes next may be one of them.
	}
	counts := o.replicaCounts()
	var commands []command
	for _, m := range o.answering() {
		if o.leaving(m) || slices.Contains(masters, m) || o.slots[m.id].Len() > 0 || m.blank() {
			continue
		}
		if o.onlyHere(m) != "" {
			continue // It would have to throw them away: see troubles.
		}
		if has := o.masterOf(m); has != nil && (slices.Contains(masters, has) || o.slots[has.id].Len() > 0) {
			continue
		}
		if master := o.adopter(m, masters, counts); master != nil {
			counts[master]++
			commands = append(commands, command{verb: replicate, on: m, peer: master})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	separate(commands)
	return do(commands, "Giving masters to %d replicas", len(commands))
}

// separate has two replicas change masters wherever fewer of them are then on the machine
// of their own.
func separate(commands []command) {
	together := func(replica, master *member) int {
		if replica.machine() == master.machine() {
			return 1
		}
		return 0
	}
	for i := range commands {
		for j := range commands {
			a, b := &commands[i], &commands[j]
			if a.on.entry(b.peer.id) == nil || b.on.entry(a.peer.id) == nil {
				continue
			}
			if together(a.on, b.peer)+together(b.on, a.peer) < together(a.on, a.peer)+together(b.on, b.peer) {
				a.peer, b.peer = b.peer, a.peer
			}
		}
	}
}

// complete returns whether all that are to stay answer.
func (o *observed) complete() bool {
	return !slices.ContainsFunc(o.members, func(m *member) bool { return !o.leaving(m) && !m.answers() })
}

// replicaCounts is how many replicas each master has that stay.
func (o *observed) replicaCounts() map[*member]int {
	counts := map[*member]int{}
	for _, m := range o.members {
		if master := o.masterOf(m); master != nil && !o.leaving(m) {
			counts[master]++
		}
	}
	return counts
}

// spread moves a replica from the master with the most to the one with the fewest.
func spread(o *observed) *plan {
	counts := o.replicaCounts()
	masters := o.masters()
	if len(masters) == 0 {
		return nil
	}
	byCount := func(a, b *member) int { return counts[a] - counts[b] }
	most, fewest := slices.MaxFunc(masters, byCount), slices.MinFunc(masters, byCount)
	if counts[most]-counts[fewest] < 2 {
		return nil
	}
	replicas := o.replicasOf(most)
	best := slices.MinFunc(replicas, func(a, b *member) int {
		return compareBool(a.machine() == fewest.machine(), b.machine() == fewest.machine())
	})
	return do([]command{{verb: replicate, on: best, peer: fewest}}, "Moving the replica %s from %s to %s", best.name, most.name, fewest.name)
}
