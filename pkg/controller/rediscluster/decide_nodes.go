// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	"github.com/glassback/glassback/pkg/redisnode"
)

// The policies below decide which nodes know each other, and which master each replica has.

// maxMeets is the maximum number of introductions in one sync.
const maxMeets = 64

// stopForUnknownNodes stops all later policies while any member is connected to a node that belongs to no Pod. That node may belong to
// another cluster, and every command would affect that cluster too.
func stopForUnknownNodes(o *observed) *plan {
	for _, n := range o.unknownNodes() {
		if o.unreachable(n.ID) {
			continue
		}
		if n.UnknownFor.Duration < o.patience() {
			return wait(check, "Waiting for the nodes to miss %s at %s, whose Pod is gone", shortID(n.ID), n.IP)
		}
		return stuck(reasonStranger, "Node %s at %s:%d belongs to no Pod of this RedisCluster, but its nodes know it and reach it. "+
			"The operator changes no slots, masters or replicas until you stop that node, or remove it with CLUSTER FORGET on every node",
			n.ID, n.IP, n.Port)
	}
	return nil
}

// forgetNodes makes the nodes forget each node without slots whose Pod is gone for good. While the node of a volume is unknown, it forgets
// none: the volume may have the data of any of them.
func forgetNodes(o *observed) *plan {
	if o.unidentified() != nil {
		return nil
	}
	var commands []command
	for _, n := range o.unknownNodes() {
		if o.slots[n.ID].Len() == 0 {
			commands = append(commands, o.forgetCommands(n.ID)...)
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return do(commands, "Forgetting nodes whose Pods are gone")
}

// forgetCommands returns the commands by which all members forget a node. The replicas of that node cannot forget it: they get another
// master first.
func (o *observed) forgetCommands(id string) []command {
	var commands []command
	for _, m := range o.answering() {
		if m.ID != id && m.entry(id) != nil && m.self().MasterID != id {
			commands = append(commands, command{verb: forget, on: m, id: id})
		}
	}
	return commands
}

// introduceNodes makes the nodes know each other, at their current addresses.
func introduceNodes(o *observed) *plan {
	groups := o.groups()
	if len(groups) == 0 {
		return nil
	}
	commands := o.movedNodes(groups)
	main := groups[0]
	for _, group := range groups[1:] {
		if len(group) == 1 && o.leaving(group[0]) && o.slots[group[0].ID].Len() == 0 {
			continue // The others have forgotten this member; its Pod is deleted next.
		}
		if message := incompatible(main, group); message != "" {
			return stuck(reasonDivided, "%s", message)
		}
		// The smaller group is introduced to the main one. If the address in the command belongs to another cluster by now, only the
		// smaller group joins that cluster.
		if seed := main[0]; !group[0].isMeeting(seed) {
			commands = append(commands, command{verb: meet, on: group[0], peer: seed})
		}
	}
	commands = commands[:min(len(commands), maxMeets)]
	for _, c := range commands {
		for _, m := range []*member{c.on, c.peer} {
			for _, id := range slices.Sorted(maps.Keys(m.entries)) {
				if o.byID[id] == nil && !m.isReplicaOf(id) { // A replica forgets its master later, once it has another one.
					return wait(check, "Waiting for %s to forget %s, whose Pod is gone", m.Name, shortID(id))
				}
			}
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return do(commands, "Introducing the nodes to each other")
}

// incompatible returns why two groups must not get to know each other; "" if they may. If both have a slot,
// Redis would throw away the data of one of them.
func incompatible(main, group []*member) string {
	both := claimedSlots(main).Intersect(claimedSlots(group))
	if both.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("%s and %s do not know each other, and both have the slots %s. "+
		"The operator changes nothing: one of the two would lose its data. Delete the Pod or the volume that is wrong",
		main[0].Name, group[0].Name, both)
}

// movedNodes returns the introductions of members that know each other, but not the other's current address.
// It returns all pairs: if only one node hears of a new address, replicas may not find their masters.
func (o *observed) movedNodes(groups [][]*member) []command {
	var commands []command
	for _, group := range groups {
		for _, a := range group {
			for _, b := range group {
				if a == b || a.isMeeting(b) {
					continue
				}
				e := a.entry(b.ID)
				if e == nil && (o.leaving(a) || o.leaving(b)) {
					continue // All nodes are about to forget the one that leaves.
				}
				sameIP := e != nil && !e.NoAddr && e.IP == b.announced().IP
				// With TLS, a node has two ports.
				if !sameIP || (!b.isAt(e, b.announced()) && (manifest.IsExternal(b.Pod) || !manifest.HasTLS(a.Pod))) {
					commands = append(commands, command{verb: meet, on: a, peer: b})
				}
			}
		}
	}
	return commands
}

// assignReplicas gives a master to every node that must be a replica, unless its present master stays.
func assignReplicas(o *observed) *plan {
	masters := o.intendedMasters()
	if len(masters) < int(o.Object.Spec.Masters()) && !o.stayingAnswer() {
		return nil // The next member that answers may have to be a master.
	}
	counts := o.replicaCounts()
	var commands []command
	for _, m := range o.answering() {
		if o.leaving(m) || slices.Contains(masters, m) || o.slots[m.ID].Len() > 0 || m.isBlank() {
			continue
		}
		if o.uniqueData(m) != "" {
			continue // As a replica, it would lose this data: see memberProblems.
		}
		if current := o.masterOf(m); current != nil && (slices.Contains(masters, current) || o.slots[current.ID].Len() > 0) {
			continue
		}
		if master := o.bestMaster(m, masters, counts); master != nil {
			counts[master]++
			commands = append(commands, command{verb: replicate, on: m, peer: master})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	separateMachines(commands)
	return do(commands, "Giving masters to %d replicas", len(commands))
}

// reconnectReplicas sends CLUSTER REPLICATE again to each replica that asks for data at an old address of its master. A replica that
// learns its master's new IP from a third node changes its table, but still asks at the old IP
// (https://github.com/redis/redis/pull/13572). Its link stays down, or leads to the node that has the old IP now. The port also changes,
// when replication switches to TLS or back. Redis 7.2 and later keep the old port, so the next connection would fail.
//
// Until the replica has copied its master's data, it may have the data of the node at the old IP. If the master is lost meanwhile, Redis
// may elect the replica. The operator cannot prevent this; it only shortens the time.
//
// Valkey copies all data again. So a replica that still has its link waits while another one of its master has none.
func reconnectReplicas(o *observed) *plan {
	var commands []command
	copies := map[*member]bool{} // the masters from which a replica copies data
	for _, m := range o.answering() {
		if master := o.masterOf(m); master != nil && !m.View.LinkUp {
			copies[master] = true
		}
	}
	for _, m := range o.answering() {
		master := o.masterOf(m)
		if master == nil || m.View.MasterIP == "" {
			continue
		}
		known := m.entry(master.ID)
		if known == nil || !master.reachableAt(known) {
			continue
		}
		if (m.asksElsewhere(master, known) || m.asksOtherPort(master)) && !(m.View.LinkUp && copies[master]) {
			copies[master] = true
			commands = append(commands, command{verb: replicate, on: m, peer: master})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return do(commands, "Connecting %d replicas to the new addresses of their masters", len(commands))
}

// asksElsewhere returns whether a replica without a link asks for data at another address than its table has for its master. The port
// counts if several nodes share the IP, or if a Service may have given the master another port.
func (m *member) asksElsewhere(master *member, known *redisnode.Entry) bool {
	otherPort := m.View.MasterPort != known.Port && m.View.MasterPort != 0 && !manifest.HasTLS(m.Pod)
	return !m.View.LinkUp && (m.View.MasterIP != known.IP || (otherPort && (manifest.IsExternal(master.Pod) || m.View.SharesIP(*known))))
}

// asksOtherPort returns whether a replica asks for data at the master's port for the other protocol, although it knows the right port. The
// master must answer. After a switch away from TLS, Redis 7.0 does not show whether the replica knows the right port: then the link must
// be down.
func (m *member) asksOtherPort(master *member) bool {
	state := m.View.TLS
	if state == nil || !state.Known || !manifest.HasTLS(master.Pod) || !master.answers() || m.View.MasterPort == 0 {
		return false
	}
	port := master.announced().ClientPort(state.Replication)
	knows := !m.View.LinkUp
	if state.Replication {
		knows = m.entry(master.ID).Port == port
	}
	return m.View.MasterPort != port && knows
}

// bestMaster returns the best master for a replica: one with too few replicas, on another machine if
// possible. It is nil while the replica does not know that master.
func (o *observed) bestMaster(replica *member, masters []*member, counts map[*member]int) *member {
	able := slices.DeleteFunc(slices.Clone(masters), func(m *member) bool {
		return m == replica || !m.answers() || !m.View.Master
	})
	if len(able) == 0 {
		return nil
	}
	staying := len(o.membersWhere(func(m *member) bool { return !o.leaving(m) }))
	share := (staying - len(masters)) / len(masters)
	best := slices.MinFunc(able, func(a, b *member) int {
		return cmp.Or(
			compareBool(counts[a] >= share, counts[b] >= share),
			compareBool(counts[a] > share, counts[b] > share),
			compareBool(a.machine() == replica.machine(), b.machine() == replica.machine()),
			cmp.Compare(counts[a], counts[b]),
			cmp.Compare(a.Ordinal, b.Ordinal))
	})
	if replica.entry(best.ID) == nil {
		return nil
	}
	return best
}

// separateMachines swaps the masters of two replicas if fewer replicas then share a machine with their masters.
func separateMachines(commands []command) {
	together := func(replica, master *member) int {
		if replica.machine() == master.machine() {
			return 1
		}
		return 0
	}
	for i := range commands {
		for j := range commands {
			a, b := &commands[i], &commands[j]
			if a.on.entry(b.peer.ID) == nil || b.on.entry(a.peer.ID) == nil {
				continue
			}
			if together(a.on, b.peer)+together(b.on, a.peer) < together(a.on, a.peer)+together(b.on, b.peer) {
				a.peer, b.peer = b.peer, a.peer
			}
		}
	}
}

// balanceReplicas moves a replica from the master with the most replicas to the one with the fewest.
func balanceReplicas(o *observed) *plan {
	counts := o.replicaCounts()
	masters := o.intendedMasters()
	if len(masters) == 0 {
		return nil
	}
	byCount := func(a, b *member) int { return counts[a] - counts[b] }
	most, fewest := slices.MaxFunc(masters, byCount), slices.MinFunc(masters, byCount)
	if counts[most]-counts[fewest] < 2 {
		return nil
	}
	best := slices.MinFunc(o.replicasOf(most), func(a, b *member) int {
		return compareBool(a.machine() == fewest.machine(), b.machine() == fewest.machine())
	})
	return do([]command{{verb: replicate, on: best, peer: fewest}}, "Moving the replica %s from %s to %s", best.Name, most.Name, fewest.Name)
}

// intendedMasters returns the members that are to be masters, by ordinal: as many as the spec asks for, if
// there are enough. It chooses in this order:
//
//  1. masters that stay, those with the most slots first, so that the choice stays the same while slots move;
//  2. replicas of masters that leave: they take over the slots without a move;
//  3. masters without slots, spread over the machines.
//
// A replica never becomes a master without slots: Redis would throw away its data. See surplusReplica.
func (o *observed) intendedMasters() []*member {
	count := int(o.Object.Spec.Masters())
	chosen := o.membersWhere(func(m *member) bool { return !o.leaving(m) && m.ID != "" && o.slots[m.ID].Len() > 0 })
	slices.SortStableFunc(chosen, func(a, b *member) int { return cmp.Compare(o.slots[b.ID].Len(), o.slots[a.ID].Len()) })
	chosen = chosen[:min(len(chosen), count)]
	for _, owner := range o.slotOwners() {
		if len(chosen) == count || !o.leaving(owner) {
			continue
		}
		if successor := o.successor(owner, func(m *member) bool { return !o.leaving(m) }); successor != nil {
			chosen = append(chosen, successor)
		}
	}
	for len(chosen) < count {
		next := o.masterWithoutSlots(chosen)
		if next == nil {
			break
		}
		chosen = append(chosen, next)
	}
	slices.SortFunc(chosen, func(a, b *member) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return chosen
}

// masterWithoutSlots returns a master without slots that stays and is not chosen yet; nil if there is none. It prefers the machine with
// the fewest chosen masters.
func (o *observed) masterWithoutSlots(chosen []*member) *member {
	on := map[string]int{}
	for _, m := range chosen {
		on[m.machine()]++
	}
	free := o.membersWhere(func(m *member) bool {
		return m.answers() && !o.leaving(m) && m.View.Master && o.slots[m.ID].Len() == 0 && !slices.Contains(chosen, m)
	})
	if len(free) == 0 {
		return nil
	}
	return slices.MinFunc(free, func(a, b *member) int {
		return cmp.Or(cmp.Compare(on[a.machine()], on[b.machine()]), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}

// successor returns the replica of m that should take over; nil if no replica that may do so is linked to m. It prefers the current
// revision, then the most data.
func (o *observed) successor(m *member, may func(*member) bool) *member {
	replicas := slices.DeleteFunc(o.replicasOf(m), func(r *member) bool { return !r.View.LinkUp || !may(r) })
	if len(replicas) == 0 {
		return nil
	}
	return slices.MinFunc(replicas, func(a, b *member) int {
		return cmp.Or(compareBool(a.Outdated, b.Outdated), cmp.Compare(b.View.Offset, a.View.Offset), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}

// surplusReplica returns a replica to replace by an empty node, which then becomes one more master. It is nil if there are enough masters,
// or if no master has more replicas than the spec.
func (o *observed) surplusReplica(masters []*member) *member {
	if len(masters) >= int(o.Object.Spec.Masters()) {
		return nil
	}
	var most []*member
	for _, m := range masters {
		replicas := slices.DeleteFunc(o.replicasOf(m), func(r *member) bool { return o.leaving(r) })
		if len(replicas) > len(most) {
			most = replicas
		}
	}
	if len(most) <= int(*o.Object.Spec.ReplicasPerMaster) {
		return nil
	}
	return most[len(most)-1]
}

// describe returns a node's ID and address, for messages.
func describe(e *redisnode.Entry) string {
	return fmt.Sprintf("%s at %s:%d", shortID(e.ID), e.IP, e.Port)
}
