/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/redisnode"
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
			return *p
		}
	}
	p := plan{wait: poll, upkeep: upkeep}
	if len(upkeep) > 0 {
		p.step, p.wait = "Making Pods", brief
	}
	return p
}

// children are what is to be made of Pods and their volumes. A Pod that cannot be made
// holds up nothing else.
func children(o *observed) []command {
	var commands []command
	for _, m := range o.members {
		going := m.claim != nil && m.claim.DeletionTimestamp != nil
		switch {
		case m.pod != nil:
			if phase := m.pod.Status.Phase; (phase == corev1.PodFailed || phase == corev1.PodSucceeded) && m.pod.DeletionTimestamp == nil {
				commands = append(commands, command{verb: deletePod, on: m})
			}
		case m.taken || going: // It is made when the name is free.
			continue
		case m.claim == nil && o.rdc.Spec.Storage != nil:
			commands = append(commands, command{verb: createClaim, on: m}, command{verb: createPod, on: m})
		default:
			commands = append(commands, command{verb: createPod, on: m})
		}
	}
	return commands
}

// grow asks for larger volumes. Not every class has those.
func grow(o *observed) *plan {
	var commands []command
	for _, m := range o.members {
		if m.claim == nil || m.claim.DeletionTimestamp != nil || o.rdc.Spec.Storage == nil {
			continue
		}
		asked := m.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if wanted := o.rdc.Spec.Storage.Size; wanted.Cmp(asked) > 0 {
			commands = append(commands, command{verb: growClaim, on: m})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return do(commands, "Growing %d volumes to %s", len(commands), o.rdc.Spec.Storage.Size.String())
}

func possible(o *observed) *plan {
	if len(o.problems) == 0 {
		return nil
	}
	return &plan{step: o.problems[0].message, wait: poll, problems: o.problems}
}

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

// patience is how long nodes have to find out themselves.
func (o *observed) patience() time.Duration {
	timeout, err := strconv.Atoi(string(o.rdc.Spec.Config["cluster-node-timeout"]))
	if err != nil {
		return leastPatience
	}
	return max(leastPatience, 4*time.Duration(timeout)*time.Millisecond)
}

// losses deals with slots whose master's Pod is gone for good: a replica takes over, or
// they are lost.
func losses(o *observed) *plan {
	if len(o.answering()) == 0 {
		return nil // Nobody tells.
	}
	var lost redisnode.Slots
	var holders []*node
	for _, n := range o.unknown() {
		slots := o.slots[n.ID]
		if slots.Len() == 0 {
			continue
		}
		if m := o.nameless(); m != nil {
			return wait(check, "Waiting for %s, which may have the slots %s: %s", m.name, slots, cause(m.err))
		}
		candidates := o.those(func(m *member) bool { return m.answers() && m.follows(n.ID) && m.hasCopied() })
		missing := o.those(func(m *member) bool {
			return !m.answers() && m.id != "" && o.nodes[m.id] != nil && o.nodes[m.id].MasterID == n.ID
		})
		switch {
		case len(candidates) > 0:
			return inherit(o, n, candidates)
		case len(missing) > 0:
			return wait(check, "Waiting for %s, which has what the slots %s hold: their master is gone", missing[0].name, slots)
		}
		lost, holders = lost.Union(slots), append(holders, n)
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

// byOffset puts those last that have got most of their master's writes.
func byOffset(a, b *member) int { return cmp.Compare(a.view.Offset, b.view.Offset) }

// keys is how many keys there are on the members that answer.
func (o *observed) keys() int64 {
	var all int64
	for _, m := range o.answering() {
		all += m.view.Keys
	}
	return all
}

// inherit has one of the replicas take over the slots of n, whose Pod is gone for good, if
// the other masters do not elect one.
func inherit(o *observed, n *node, replicas []*member) *plan {
	if n.suspect < o.patience() {
		return wait(check, "Waiting for a replica to be elected for the slots %s, whose master is gone", o.slots[n.ID])
	}
	heir := slices.MaxFunc(replicas, byOffset)
	if heir.promoted > 0 {
		return wait(check, "Waiting for %s to take over the slots %s, whose master is gone", heir.name, o.slots[n.ID])
	}
	// The other masters can only agree if it reaches most of them.
	how, voters := redisnode.Force, 0
	for id := range o.slots {
		if e := heir.entry(id); e != nil && e.Connected && !e.Failed {
			voters++
		}
	}
	if voters*2 <= len(o.slots) {
		how = redisnode.Takeover
	}
	return do([]command{{verb: failover, on: heir, how: how}}, "%s takes over the slots %s, whose master is gone", heir.name, o.slots[n.ID])
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
	heirs := o.those(func(m *member) bool { return m.answers() && m.view.Master && !m.leaving })
	if len(heirs) == 0 {
		return wait(check, "Waiting for a master that can take the slots %s, whose loss was accepted", lost)
	}
	// All at once: half of them would be another loss.
	heir := slices.MinFunc(heirs, func(a, b *member) int { return o.slots[a.id].Len() - o.slots[b.id].Len() })
	return do([]command{{verb: addSlots, on: heir, slots: lost}}, "%s gets the slots %s, whose loss was accepted", heir.name, lost)
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
	if len(heirs) == 0 {
		return nil
	}
	heir := slices.MaxFunc(heirs, byOffset)
	if heir.promoted > 0 {
		return wait(brief, "Waiting for %s to take over from its master, which is gone", heir.name)
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

// nameless returns a Pod with a volume of which it is not known which node it is: any that
// belongs to no Pod may be it. nil if there is none.
func (o *observed) nameless() *member {
	for _, m := range o.members {
		if m.pod != nil && !m.answers() && m.id == "" && o.rdc.Spec.Storage != nil {
			return m
		}
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

// broken replaces Pods that cannot run as they are, and are not as the spec says now: that
// is how a spec with which Pods cannot start is mended. A Pod that runs is none of these,
// whether it answers or not: it may be loading, or out of reach.
func broken(o *observed) *plan {
	for _, m := range o.members {
		if m.answers() || !m.outdated || m.pod == nil || m.pod.DeletionTimestamp != nil || m.silent < silencePatience ||
			(m.pod.Status.Phase == corev1.PodRunning && !notStarting(m.pod)) {
			continue
		}
		holds := m.id != "" && o.slots[m.id].Len() > 0
		switch {
		case o.rdc.Spec.Storage != nil || !o.formed:
		case holds || len(o.slots) == 0:
			return stuck(reasonHeldBack, "%s does not run, and may have the only copy of the slots %s: it is not replaced by what the spec says now. "+
				"Delete the Pod to give them up", m.name, o.slots[m.id])
		}
		return do([]command{{verb: deletePod, on: m}}, "Replacing %s, which cannot run as it is", m.name)
	}
	return nil
}

// introduce has nodes get to know each other.
func introduce(o *observed) *plan {
	groups := o.groups()
	if len(groups) == 0 {
		return nil
	}
	commands := moved(groups)
	main := groups[0]
	for _, group := range groups[1:] {
		if len(group) == 1 && group[0].leaving && o.slots[group[0].id].Len() == 0 {
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
func moved(groups [][]*member) []command {
	var commands []command
	for _, group := range groups {
		for _, a := range group {
			for _, b := range group {
				if a == b || a.greets(b.ip(), b.port()) {
					continue
				}
				e := a.entry(b.id)
				if e == nil && (a.leaving || b.leaving) {
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

// form gives out the slots of a cluster that never had them all. It has no keys: see
// losses.
func form(o *observed) *plan {
	free := redisnode.SlotRange(0, redisnode.SlotCount-1).Without(o.assigned())
	if o.formed || free.Len() == 0 {
		return nil
	}
	for _, m := range o.members {
		if !m.answers() {
			return wait(check, "Waiting for %s: %s", m.name, cause(m.err))
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
		if m.leaving || slices.Contains(masters, m) || o.slots[m.id].Len() > 0 || m.blank() {
			continue
		}
		if m.view.Master && m.view.Keys > 0 {
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
	return !slices.ContainsFunc(o.members, func(m *member) bool { return !m.leaving && !m.answers() })
}

// replicaCounts is how many replicas each master has that stay.
func (o *observed) replicaCounts() map[*member]int {
	counts := map[*member]int{}
	for _, m := range o.members {
		if master := o.masterOf(m); master != nil && !m.leaving {
			counts[master]++
		}
	}
	return counts
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
