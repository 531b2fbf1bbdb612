/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"cmp"
	"maps"
	"slices"

	"github.com/glassback/glassback/pkg/redisnode"
)

// open ends what was begun with slots: those on the move are moved, and marks that say so
// of others are removed.
func open(o *observed) *plan {
	for _, m := range o.answering() {
		self := m.self()
		var stale []int
		for slot := range self.Migrating {
			if self.Slots.Has(slot) && o.owner(slot) != m {
				// With the mark, it sends who asks to the new owner. Without, it would serve them.
				return wait(brief, "Waiting for %s to hear who has the slot %d now", m.name, slot)
			}
			if o.owner(slot) != m {
				stale = append(stale, slot)
			}
		}
		for slot := range self.Importing {
			if o.owner(slot) == m {
				stale = append(stale, slot)
			}
		}
		if len(stale) > 0 {
			slots := redisnode.NewSlots(stale...)
			return do([]command{{verb: closeSlots, on: m, slots: slots}}, "Closing the slots %s on %s", slots, m.name)
		}
	}
	for _, to := range o.answering() {
		if p := o.imports(to); p != nil {
			return p
		}
	}
	for _, from := range o.answering() {
		if p := o.exports(from); p != nil {
			return p
		}
	}
	return nil
}

// strays finds the keys of slots that were on the move to a node that is gone. Its replica
// has them, and takes over: a master without any slots, Redis does not replace. Then whoever
// has the keys is given the slots. This is before the node is forgotten, and with it what
// was on the move.
func strays(o *observed) *plan {
	for _, from := range o.answering() {
		var slots redisnode.Slots
		for slot, id := range from.self().Migrating {
			if o.byID[id] != nil || o.slots[id].Len() > 0 || o.owner(slot) != from {
				continue
			}
			for _, m := range o.members {
				if !m.answers() && (m.id != "" || m == o.nameless()) {
					return wait(check, "Waiting for %s, which may have keys of the slot %d: %s was to give it to a node that is gone", m.name, slot, from.name)
				}
			}
			if p := succeed(o, from, id); p != nil {
				return p
			}
			slots = slots.Union(redisnode.NewSlots(slot))
		}
		if slots = slots.First(batch); slots.Len() > 0 {
			return do([]command{{verb: reunite, on: from, slots: slots}}, "Looking for keys of the slots %s: %s was to give them to a node that is gone", slots, from.name)
		}
	}
	return nil
}

// succeed has a replica take over from the node with this ID, which has no slots but keys
// of another one's; nil if there is none.
func succeed(o *observed, from *member, id string) *plan {
	heirs := o.those(func(m *member) bool { return m.answers() && m.follows(id) && m.hasCopied() })
	n := o.nodes[id]
	if n == nil || len(heirs) == 0 {
		return nil
	}
	heir := o.fittest(heirs, n)
	if heir.promoted > 0 {
		return wait(brief, "Waiting for %s to take over from its master, which is gone", heir.name)
	}
	if p := o.undecided(heir, heirs, n); p != nil {
		return p
	}
	return do([]command{{verb: failover, on: heir, how: redisnode.Takeover}}, "%s takes over from its master, which is gone: it has keys of %s", heir.name, from.name)
}

// adrift has slots that a member imports given by the one who has them now: the replica of
// the one who did. That one does not know that they were on the move. And the member, while
// it imports a slot, does not hear whose it is.
func adrift(o *observed) *plan {
	for _, to := range o.answering() {
		byOwner, unmarked := map[*member]redisnode.Slots{}, map[*member]redisnode.Slots{}
		for slot, id := range to.self().Importing {
			owner, one := o.owner(slot), redisnode.NewSlots(slot)
			if owner != nil && !owner.answers() && o.byID[id] == nil {
				return wait(check, "Waiting for %s, which has the slot %d, that %s was about to get from a node that is gone", owner.name, slot, to.name)
			}
			if owner == nil || owner == to || owner.id == id || !owner.answers() || !to.view.Master || owner.entry(to.id) == nil {
				continue
			}
			byOwner[owner] = byOwner[owner].Union(one)
			if owner.self().Migrating[slot] != to.id {
				unmarked[owner] = unmarked[owner].Union(one)
			}
		}
		for _, owner := range o.answering() {
			if slots := unmarked[owner]; slots.Len() > 0 {
				return do([]command{{verb: openSlots, on: owner, peer: to, slots: slots}}, "%s goes on to give the slots %s to %s", owner.name, slots, to.name)
			}
			if slots := byOwner[owner]; slots.Len() > 0 {
				return do([]command{{verb: closeSlots, on: to, slots: slots}}, "Closing the slots %s on %s, so that it hears that %s has them", slots, to.name, owner.name)
			}
		}
	}
	return nil
}

// hand has slots moved, once nobody can take them back. Of two that claim a slot, the one
// with the later epoch has it, and the other one deletes what it holds of it. So who gets
// slots must have heard, from the one who gives them,
//
//   - that it has them: what a node has not heard of a slot that it imports, it never does.
//     If it takes the one who had the slot before for its owner, it hears that this one has
//     given it up, and then believes whoever claims it, however old the claim;
//   - of its epoch: it takes one that is later than all that it has heard of.
func hand(from, to *member, slots redisnode.Slots, format string, args ...any) *plan {
	if !to.view.StateOK {
		return wait(brief, "Waiting for %s, which takes no keys yet", to.name)
	}
	var known redisnode.Slots
	if e := to.entry(from.id); e != nil {
		known = e.Slots
	}
	if unheard := slots.Without(known); unheard.Len() > 0 {
		return wait(soon, "Waiting for %s to hear that %s has the slots %s", to.name, from.name, unheard)
	}
	gives, gets := from.self().Epoch, to.self().Epoch
	if gets > gives || (to.view.Epoch >= gives && gets < to.view.Epoch) {
		return do([]command{{verb: moveSlots, on: from, peer: to, slots: slots}}, format, args...)
	}
	return wait(soon, "Waiting for %s to hear of the last change of %s", to.name, from.name)
}

// imports goes on with slots that a member was about to get. Whoever has them now gives
// them: keys that are there already are only found so.
func (o *observed) imports(to *member) *plan {
	importing := to.self().Importing
	for _, slot := range slices.Sorted(maps.Keys(importing)) {
		from := o.owner(slot)
		if from == nil || !from.answers() {
			continue
		}
		if !to.view.Master {
			slots := redisnode.NewSlots(slot)
			return do([]command{{verb: closeSlots, on: to, slots: slots}}, "Closing the slots %s on %s, which is no master any more", slots, to.name)
		}
		same := slices.DeleteFunc(slices.Sorted(maps.Keys(importing)), func(s int) bool { return o.owner(s) != from })
		slots := redisnode.NewSlots(same...).First(batch)
		return hand(from, to, slots, "Going on with the slots %s, from %s to %s", slots, from.name, to.name)
	}
	return nil
}

// exports goes on with slots that a member was about to give. If the one that was to get
// them has been replaced by its replica, that has the keys, but does not know of the move.
func (o *observed) exports(from *member) *plan {
	migrating := from.self().Migrating
	for _, slot := range slices.Sorted(maps.Keys(migrating)) {
		to := o.byID[migrating[slot]]
		if to != nil && to.answers() && !to.view.Master {
			to = o.masterOf(to)
		}
		if to == nil || !to.answers() {
			continue
		}
		same := slices.DeleteFunc(slices.Sorted(maps.Keys(migrating)), func(s int) bool { return migrating[s] != migrating[slot] })
		slots := redisnode.NewSlots(same...).First(batch)
		if to == from {
			return do([]command{{verb: closeSlots, on: from, slots: slots}}, "Closing the slots %s on %s: who was to get them is its replica now", slots, from.name)
		}
		return hand(from, to, slots, "Going on with the slots %s, from %s to %s", slots, from.name, to.name)
	}
	return nil
}

// balance has the masters get their slots: by taking over from a master that leaves, or by
// a move.
func balance(o *observed) *plan {
	masters := o.masters()
	for _, m := range masters {
		if m.view.Master {
			continue
		}
		if from := o.masterOf(m); m.promoted > 0 {
			return wait(brief, "Waiting for %s to take over from %s", m.name, from.name)
		}
		return do([]command{{verb: failover, on: m, how: redisnode.Graceful}}, "%s takes over from its master, which leaves", m.name)
	}
	// One may be missing: it is being replaced. If there were more, few would get all.
	if len(masters)+1 < min(int(o.rdc.Spec.Masters()), len(o.holders())) {
		return wait(check, "Waiting for Pods to become masters: %d of %d can be", len(masters), o.rdc.Spec.Masters())
	}
	if next := o.nextTransfer(masters, batch); next != nil {
		return hand(next.from, next.to, next.slots, "Moving slots: %d are left, now from %s to %s", next.left, next.from.name, next.to.name)
	}
	if spare := o.spare(masters); spare != nil {
		if p := cmp.Or(whole(o), unsaved(o)); p != nil {
			return p // The copy that it has may be needed.
		}
		return do(renew(o, spare), "Replacing %s, to become a master", spare.name)
	}
	return nil
}
