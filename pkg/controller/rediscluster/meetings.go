/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"fmt"
	"slices"

	"github.com/glassback/glassback/pkg/redisnode"
)

// strangers stops everything while a living node is among the nodes that belongs to no
// Pod: this may be another cluster's, and whatever is done would be done to it too.
func strangers(o *observed) *plan {
	for _, n := range o.unknown() {
		if o.dead(n.ID) {
			continue
		}
		if n.suspect < o.patience() {
			return wait(check, "Waiting for the nodes to miss %s at %s, whose Pod is gone", short(n.ID), n.IP)
		}
		return stuck(reasonStranger, "Node %s at %s:%d is none of this cluster's Pods, but its nodes know it, and it is alive. "+
			"Nothing is changed until that is resolved: stop it, or remove it by CLUSTER FORGET on every node", n.ID, n.IP, n.Port)
	}
	return nil
}

// gone has the nodes forgotten that nobody will see again. While it is not known which
// node a Pod has, that could be one of them.
func gone(o *observed) *plan {
	if o.nameless() != nil {
		return nil
	}
	var commands []command
	for _, n := range o.unknown() {
		if o.slots[n.ID].Len() == 0 {
			commands = append(commands, o.forgetting(n.ID)...)
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return do(commands, "Forgetting nodes whose Pods are gone")
}

// nameless returns a member with a volume of which it is not known which node it is: any that
// belongs to no Pod may be it. nil if there is none.
func (o *observed) nameless() *member {
	for _, m := range o.members {
		if o.isNameless(m) {
			return m
		}
	}
	return nil
}

// isNameless returns whether the member may be any node. Its Pod need not be there: the data
// is on the volume. A claim that never got a volume has none, unless a machine has its Pod:
// then the cache is behind.
func (o *observed) isNameless(m *member) bool {
	bound := m.claim != nil && m.claim.Spec.VolumeName != ""
	return o.rdc.Spec.Storage != nil && !m.answers() && m.id == "" && (bound || m.machine() != "")
}

// forgetting are the commands to forget a node. Its replicas cannot: they are given
// another master first.
func (o *observed) forgetting(id string) []command {
	var commands []command
	for _, m := range o.answering() {
		if m.id != id && m.entry(id) != nil && m.self().MasterID != id {
			commands = append(commands, command{verb: forget, on: m, id: id})
		}
	}
	return commands
}

// introduce has nodes get to know each other.
func introduce(o *observed) *plan {
	groups := o.groups()
	if len(groups) == 0 {
		return nil
	}
	commands := o.moved(groups)
	main := groups[0]
	for _, group := range groups[1:] {
		if len(group) == 1 && o.leaving(group[0]) && o.slots[group[0].id].Len() == 0 {
			continue // It has been forgotten, and is about to be deleted.
		}
		if message := incompatible(main, group); message != "" {
			return stuck(reasonDivided, "%s", message)
		}
		// The one that has nothing to lose goes to the other: should the address be another
		// cluster's by now, that is not the one whose nodes are handed over.
		if seed := main[0]; !group[0].greets(seed.ip(), seed.port()) {
			commands = append(commands, command{verb: meet, on: group[0], peer: seed})
		}
	}
	commands = commands[:min(len(commands), maxMeets)]
	for _, c := range commands {
		for _, m := range []*member{c.on, c.peer} {
			for id := range m.entries {
				if o.byID[id] == nil && !m.follows(id) { // That, it forgets once it has another master.
					return wait(check, "Waiting for %s to forget %s, whose Pod is gone", m.name, short(id))
				}
			}
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return do(commands, "Introducing the nodes to each other")
}

// port is that on which the member listens, by its own account.
func (m *member) port() int { return m.self().Port }

// groups are the members that answer, by who knows whom, each by ordinal; the group with
// the most slots first.
func (o *observed) groups() [][]*member {
	var groups [][]*member
	seen := map[*member]bool{}
	for _, m := range o.answering() {
		if seen[m] {
			continue
		}
		group := []*member{m}
		seen[m] = true
		for i := 0; i < len(group); i++ {
			for _, other := range o.answering() {
				if !seen[other] && (group[i].entry(other.id) != nil || other.entry(group[i].id) != nil) {
					seen[other] = true
					group = append(group, other)
				}
			}
		}
		slices.SortFunc(group, func(a, b *member) int { return a.ordinal - b.ordinal })
		groups = append(groups, group)
	}
	slices.SortStableFunc(groups, func(a, b []*member) int { return claimed(b).Len() - claimed(a).Len() })
	return groups
}

// claimed are all slots that the members say they have.
func claimed(group []*member) redisnode.Slots {
	var all redisnode.Slots
	for _, m := range group {
		all = all.Union(m.self().Slots)
	}
	return all
}

// incompatible says why two groups must not get to know each other; "" if they may. Of a
// slot that both have, Redis would throw away what one of them holds.
func incompatible(main, group []*member) string {
	both := claimed(main).Intersect(claimed(group))
	if both.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("%s and %s do not know each other, and both have the slots %s. Nothing is changed: one of the two would lose what it holds. "+
		"Delete the Pod or volume that is wrong", main[0].name, group[0].name, both)
}

// moved are the introductions of those who know each other, but not where the other is
// now. All of them: of the nodes that only one has heard of, replicas may not find their
// masters.
func (o *observed) moved(groups [][]*member) []command {
	var commands []command
	for _, group := range groups {
		for _, a := range group {
			for _, b := range group {
				if a == b || a.greets(b.ip(), b.port()) {
					continue
				}
				e := a.entry(b.id)
				if e == nil && (o.leaving(a) || o.leaving(b)) {
					continue // It is about to be forgotten by all.
				}
				if e == nil || e.NoAddr || e.IP != b.ip() || e.Port != b.port() {
					commands = append(commands, command{verb: meet, on: a, peer: b})
				}
			}
		}
	}
	return commands
}
