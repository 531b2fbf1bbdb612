/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"cmp"
	"slices"

	"github.com/glassback/glassback/pkg/redisnode"
)

// losses deals with slots whose master's Pod is gone for good: a replica takes over, or
// they are lost.
func losses(o *observed) *plan {
	if len(o.answering()) == 0 {
		return nil // Nobody tells.
	}
	var lost redisnode.Slots
	var holders []*node
	var waiting *plan // What one master's slots wait for does not hold up another's.
	for _, n := range o.unknown() {
		slots := o.slots[n.ID]
		if slots.Len() == 0 {
			continue
		}
		if m := o.nameless(); m != nil {
			return wait(check, "Waiting for %s, which may have the slots %s: %s", m.name, slots, m.whySilent)
		}
		candidates := o.those(func(m *member) bool { return m.answers() && m.follows(n.ID) && m.hasCopied() })
		missing := o.those(func(m *member) bool {
			return !m.answers() && m.id != "" && o.nodes[m.id] != nil && o.nodes[m.id].MasterID == n.ID
		})
		switch {
		case len(candidates) > 0:
			p := inherit(o, n, candidates, missing)
			if len(p.commands) > 0 {
				return p
			}
			waiting = cmp.Or(waiting, p)
		case len(missing) > 0:
			waiting = cmp.Or(waiting, wait(check, "Waiting for %s, which has what the slots %s hold: their master is gone", missing[0].name, slots))
		default:
			lost, holders = lost.Union(slots), append(holders, n)
		}
	}
	if waiting != nil {
		return waiting
	}
	if o.formed || o.keys() > 0 {
		lost = lost.Union(redisnode.SlotRange(0, redisnode.SlotCount-1).Without(o.assigned()))
	}
	switch {
	case lost.Len() == 0:
		return nil
	case len(holders) == 0 && o.unassigned < 2*check:
		// Nodes are not asked at the same moment: one may just have taken over from another.
		return wait(check, "Waiting to hear who has the slots %s", lost)
	}
	return bury(o, lost, holders)
}

// follows returns whether the member is a replica of the node with this ID.
func (m *member) follows(id string) bool { return !m.view.Master && m.self().MasterID == id }

// hasCopied returns whether a replica ever got its master's data. One that has not, Redis
// would not elect; but it can be told to take over, and would take over nothing.
func (m *member) hasCopied() bool { return m.view.Keys > 0 || m.view.Offset > 1 }

// linkedAtLast returns whether a replica was linked to n up to when that was lost, but for
// the time that nodes have to find out themselves: no other can have much more of the data.
// Redis has such a limit for replicas that are elected, and none for those that are told.
func (o *observed) linkedAtLast(m *member, n *node) bool {
	return m.unlinked >= 0 && m.unlinked-n.missed <= o.patience()
}

// fittest returns the replica of n that has most of its data, as far as that is known. Best
// is one that was linked at last. One that was restarted since may have been; it has no
// offset. Of others, the offsets tell.
func (o *observed) fittest(replicas []*member, n *node) *member {
	return slices.MaxFunc(replicas, func(a, b *member) int {
		return cmp.Or(
			compareBool(o.linkedAtLast(a, n), o.linkedAtLast(b, n)),
			compareBool(a.unlinked < 0, b.unlinked < 0),
			cmp.Compare(a.view.Offset, b.view.Offset))
	})
}

// undecided is the plan to have a person decide between the heir, which was restarted since, so
// that nothing is known of its link, and a replica of n that may have been linked at last. It is
// nil if there is none such. If the loss of n was witnessed, it is known which were linked.
func (o *observed) undecided(heir *member, replicas []*member, n *node) *plan {
	if n.witnessed || heir.unlinked >= 0 {
		return nil
	}
	for _, m := range replicas {
		if m.unlinked >= 0 {
			return stuck(reasonHeldBack, "%s or %s has more of what their master held, which is gone, and it is not known which: the operator "+
				"did not see the master being lost. Delete the Pod, and its claim if it has one, of the one to give up", m.name, heir.name)
		}
	}
	return nil
}

// keys is how many keys there are on the members that answer.
func (o *observed) keys() int64 {
	var all int64
	for _, m := range o.answering() {
		all += m.view.Keys
	}
	return all
}

// inherit has one of the replicas take over the slots of n, whose Pod is gone for good, if
// the other masters do not elect one. It waits for the replicas that are missing, which may
// have more of the data and would lose it, with one exception: the heir was linked at last, and
// reaches most masters. If it does not, they may have elected a missing replica, and n may have
// been alive for them until then.
func inherit(o *observed, n *node, replicas, missing []*member) *plan {
	if n.suspect < o.patience() {
		return wait(check, "Waiting for a replica to be elected for the slots %s, whose master is gone", o.slots[n.ID])
	}
	heir := o.fittest(replicas, n)
	how := redisnode.Takeover
	if o.reachesMost(heir) {
		how = redisnode.Force // The other masters can agree.
	}
	switch {
	case heir.promoted > 0:
		return wait(check, "Waiting for %s to take over the slots %s, whose master is gone", heir.name, o.slots[n.ID])
	case len(missing) > 0 && (how == redisnode.Takeover || !o.linkedAtLast(heir, n)):
		return wait(check, "Waiting for %s, which may have more of what the slots %s held than %s: their master is gone", missing[0].name, o.slots[n.ID], heir.name)
	}
	if p := o.undecided(heir, replicas, n); p != nil {
		return p
	}
	return do([]command{{verb: failover, on: heir, how: how}}, "%s takes over the slots %s, whose master is gone", heir.name, o.slots[n.ID])
}

// reachesMost returns whether the member is connected to most masters with slots.
func (o *observed) reachesMost(m *member) bool {
	reached := 0
	for id := range o.slots {
		if e := m.entry(id); e != nil && e.Connected && !e.Failed {
			reached++
		}
	}
	return reached*2 > len(o.slots)
}

// bury tells of slots that nobody has any more, nor ever will. If that was accepted, those
// who had them are forgotten, and one member gets them, empty.
func bury(o *observed, lost redisnode.Slots, holders []*node) *plan {
	for _, m := range o.members {
		if !m.answers() {
			return wait(check, "Waiting for %s: the slots %s have no master", m.name, lost)
		}
	}
	l := newLoss(o.rdc, lost, o.now)
	p := stuck(reasonDataLoss, "%s", l.message())
	if l.accepted(o.rdc) {
		p = giveUp(o, lost, holders)
	}
	p.loss = l
	return p
}

// giveUp gives slots out again, whose loss was accepted.
func giveUp(o *observed, lost redisnode.Slots, holders []*node) *plan {
	var commands []command
	for _, n := range holders {
		for _, m := range o.answering() {
			if !m.follows(n.ID) {
				continue
			}
			if master := o.adopter(m, o.holders(), o.replicaCounts()); master != nil { // It has copied nothing.
				commands = append(commands, command{verb: replicate, on: m, peer: master})
			}
		}
	}
	for _, n := range holders {
		commands = append(commands, o.forgetting(n.ID)...)
	}
	if len(commands) > 0 {
		return do(commands, "Forgetting the masters of the slots %s, whose loss was accepted", lost)
	}
	heirs := o.those(func(m *member) bool { return m.answers() && m.view.Master && !o.leaving(m) })
	if len(heirs) == 0 {
		return wait(check, "Waiting for a master that can take the slots %s, whose loss was accepted", lost)
	}
	// All at once: half of them would be another loss.
	heir := slices.MinFunc(heirs, func(a, b *member) int {
		return cmp.Or(
			compareBool(len(a.view.Libraries) == 0, len(b.view.Libraries) == 0), // Functions do not come with slots.
			cmp.Compare(o.slots[a.id].Len(), o.slots[b.id].Len()))
	})
	return do([]command{{verb: addSlots, on: heir, slots: lost}}, "%s gets the slots %s, whose loss was accepted", heir.name, lost)
}
