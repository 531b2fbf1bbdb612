/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
	if spare := o.spare(masters); spare != nil && o.complete() {
		if p := unsaved(o); p != nil {
			return p
		}
		return do(vacate(o, spare), "Replacing %s, to become a master", spare.name)
	}
	return nil
}

// vacate has a member forgotten, and deletes all that it has. The volume comes first: it
// stays until the Pod has gone, and says until then that this is to be so.
func vacate(o *observed, m *member) []command {
	commands := o.forgetting(m.id)
	if m.claim != nil {
		commands = append(commands, command{verb: deleteClaim, on: m})
	}
	return append(commands, command{verb: deletePod, on: m})
}

// whole waits until nothing is missing: who is deleted next must be the only one.
func whole(o *observed) *plan {
	for _, m := range o.members {
		switch {
		case !m.answers() && m.leaving && o.slots[m.id].Len() == 0:
		case !m.answers():
			return wait(check, "Waiting for %s: %s", m.name, cause(m.err))
		case m.leaving:
		case !m.view.StateOK:
			return wait(check, "Waiting for %s, by whom the cluster cannot be used yet", m.name)
		case !m.view.Master && !m.view.LinkUp:
			return wait(check, "Waiting for %s to be up to date with its master", m.name)
		case strings.Contains(m.view.WriteError, "aof_last_write_status"):
			return wait(check, "Waiting for %s, which cannot keep what is written to it: %s", m.name, m.view.WriteError)
		}
	}
	return nil
}

// unsaved waits until no node is writing all of its data to its disk. One that has just
// copied it has nothing there until then, and does not stop when its Pod is deleted.
func unsaved(o *observed) *plan {
	for _, m := range o.answering() {
		if m.view.Rewriting {
			return wait(check, "Waiting for %s, which is writing all of its data to its disk", m.name)
		}
	}
	return nil
}

// remove has members go that are to leave, replicas first: they cannot forget their
// masters.
func remove(o *observed) *plan {
	leaving := o.those(func(m *member) bool { return m.leaving && m.pod != nil })
	if len(leaving) == 0 {
		return nil
	}
	slices.SortStableFunc(leaving, func(a, b *member) int { return compareBool(o.masterOf(a) == nil, o.masterOf(b) == nil) })
	for _, m := range leaving {
		if known := o.nodes[m.id]; !m.answers() && m.pod.DeletionTimestamp == nil && known != nil && known.Master {
			return wait(check, "Waiting for %s, which may have keys: %s", m.name, cause(m.err))
		}
	}
	m := leaving[0]
	if m.pod.DeletionTimestamp != nil {
		return wait(check, "Waiting for %s to be gone", m.name)
	}
	switch {
	case o.slots[m.id].Len() > 0:
		return wait(check, "Waiting for a master that takes the slots %s from %s", o.slots[m.id], m.name)
	case m.answers() && m.view.Master && m.view.Keys > 0:
		return stuck(reasonHeldBack, "%s has no slots, but %d keys: it is not deleted. Delete the Pod to give them up", m.name, m.view.Keys)
	}
	if p := unsaved(o); p != nil {
		return p
	}
	return do(vacate(o, m), "Removing %s", m.name)
}

// roll replaces one Pod that is not what the spec makes of it now: first replicas, then
// masters, each after one of its replicas has taken over.
func roll(o *observed) *plan {
	outdated := o.those(func(m *member) bool { return m.outdated && m.pod != nil && m.pod.DeletionTimestamp == nil })
	if len(outdated) == 0 {
		return nil
	}
	if p := unsaved(o); p != nil {
		return p
	}
	slices.SortStableFunc(outdated, func(a, b *member) int { return compareBool(o.slots[a.id].Len() > 0, o.slots[b.id].Len() > 0) })
	m := outdated[0]
	if o.slots[m.id].Len() == 0 {
		return do([]command{{verb: deletePod, on: m}}, "Replacing %s: %d Pods are not up to date", m.name, len(outdated))
	}
	heir := o.heir(m, func(*member) bool { return true })
	switch {
	case heir == nil && o.rdc.Spec.Storage == nil:
		return stuck(reasonHeldBack, "%s is to be replaced, but has the only copy of the slots %s, and no volume: give it a replica", m.name, o.slots[m.id])
	case heir == nil:
		return do([]command{{verb: deletePod, on: m}}, "Replacing %s, which has no replica: %d Pods are not up to date", m.name, len(outdated))
	case heir.promoted > 0:
		return wait(brief, "Waiting for %s to take over from %s", heir.name, m.name)
	}
	return do([]command{{verb: failover, on: heir, how: redisnode.Graceful}}, "%s takes over from %s, which is to be replaced", heir.name, m.name)
}

// ready ends an operation when the Pods' probes say so too. They are not asked in between:
// what nodes tell is as true, and newer.
func ready(o *observed) *plan {
	if o.rdc.Status.Operation == nil && o.formed {
		return nil
	}
	for _, m := range o.members {
		if m.pod == nil || !slices.ContainsFunc(m.pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			return wait(check, "Waiting for the Pod %s to be ready", m.name)
		}
	}
	return nil
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
