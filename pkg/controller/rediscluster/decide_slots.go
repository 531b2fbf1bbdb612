// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/glassback/glassback/pkg/redisnode"
)

// The policies below decide which master owns which slots. The keys of a slot move with it. Functions do not: they are copied to a new
// master before its first slot.
//
// While a slot moves, it has a mark on each of two nodes: migrating on the source, and importing on the target. The source owns the slot
// until the move ends. A sync that finds marks finishes the move.

// One command moves slots with about keysPerMove keys in total, but at least minSlotsPerMove and at most maxSlotsPerMove slots. While a
// slot moves, its clients are redirected, and commands with several keys may have to be repeated.
const (
	keysPerMove     = 512
	minSlotsPerMove = 16
	maxSlotsPerMove = 64
)

// slotsPerMove returns how many slots of a member one command moves. It assumes that each slot has the same number of keys.
func (o *observed) slotsPerMove(from *member) int {
	return min(max(keysPerMove*o.slots[from.ID].Len()/max(1, int(from.View.Keys)), minSlotsPerMove), maxSlotsPerMove)
}

// failedMove is the last attempt to move the keys of a slot.
type failedMove struct {
	Count   int // of the attempts that have failed
	At      time.Time
	Reason  string
	Largest int64 // the size of the largest key of those that were not moved, in bytes
}

// again returns the failedMove after another failure.
func (f failedMove) again(reason string, largest int64, now time.Time) failedMove {
	return failedMove{f.Count + 1, now, reason, largest}
}

// The delay before the next attempt begins with minMoveDelay, and doubles with each failure: while Redis sends a large key, it serves no
// client.
const (
	minMoveDelay = 5 * time.Second
	maxMoveDelay = 5 * time.Minute
)

// delay returns how long the operator waits before it moves the slot again; at most 0 if it does not.
func (o *observed) delay(slot int) time.Duration {
	f, ok := o.Moves[slot]
	if !ok {
		return 0
	}
	delay := min(minMoveDelay<<min(f.Count-1, 10), maxMoveDelay)
	return delay - o.Now.Sub(f.At)
}

// moveProblems returns a problem for each slot whose keys could not be moved twice in a row.
func (o *observed) moveProblems() []problem {
	var all []problem
	for _, slot := range slices.Sorted(maps.Keys(o.Moves)) {
		if f := o.Moves[slot]; f.Count > 1 {
			all = append(all, problem{reasonNotMoved, fmt.Sprintf("Keys of the slot %d cannot be moved, the largest takes %s of memory: %s. "+
				"The operator tries again, at least every %s", slot, mebibytes(f.Largest), f.Reason, maxMoveDelay)})
		}
	}
	return all
}

// assignSlots assigns the slots of a new cluster. If there are keys already, replaceLostMasters decides about the slots without an owner.
func assignSlots(o *observed) *plan {
	free := o.unassigned()
	if o.Formed || free.Len() == 0 {
		return nil
	}
	for _, m := range o.Members {
		if !m.answers() {
			return wait(check, "Waiting for %s: %s", m.Name, m.WhySilent)
		}
	}
	if disagreement := o.disagreement(); disagreement != "" {
		return wait(brief, "Waiting for the nodes to know each other: %s", disagreement)
	}
	masters := slices.DeleteFunc(o.intendedMasters(), func(m *member) bool { return !m.View.Master })
	if len(masters) == 0 {
		return stuck(reasonHeldBack, "No node can get the slots %s: each node is a replica, or is being removed", free)
	}
	var commands []command
	for i, m := range masters {
		first, last := i*redisnode.SlotCount/len(masters), (i+1)*redisnode.SlotCount/len(masters)-1
		if share := redisnode.SlotRange(first, last).Intersect(free); share.Len() > 0 {
			commands = append(commands, command{verb: addSlots, on: m, slots: share})
		}
	}
	return do(commands, "Assigning the slots to %d masters", len(masters))
}

// moveStrandedKeys continues moves whose target is lost. A replica of the target may have some of the keys. First the replica
// takes over: Redis does not fail over a master without slots. Then the source marks the slots as migrating to the node that
// has the keys, and finishMoves moves the other keys there. This happens before the lost target is forgotten: the marks have its ID.
func moveStrandedKeys(o *observed) *plan {
	for _, from := range o.answering() {
		var slots redisnode.Slots
		migrating := from.self().Migrating
		for _, slot := range slices.Sorted(maps.Keys(migrating)) {
			id := migrating[slot]
			if o.byID[id] != nil || o.slots[id].Len() > 0 || o.owner(slot) != from {
				continue
			}
			for _, m := range o.Members {
				if !m.answers() && (m.ID != "" || m == o.unidentified()) {
					return wait(check, "Waiting for %s, which may have keys of the slot %d: %s was moving the slot to a node that is gone",
						m.Name, slot, from.Name)
				}
			}
			if p := takeOverStrandedKeys(o, from, id); p != nil {
				return p
			}
			slots = slots.Union(redisnode.NewSlots(slot))
		}
		if slots = slots.First(maxSlotsPerMove); slots.Len() > 0 {
			return do([]command{{verb: resumeMove, on: from, slots: slots}},
				"Looking for keys of the slots %s: %s was moving the slots to a node that is gone", slots, from.Name)
		}
	}
	return nil
}

// takeOverStrandedKeys makes a replica take over from the lost node with this ID. That node has no slots, but has keys
// of from's slots. It returns nil if there is no such replica.
func takeOverStrandedKeys(o *observed, from *member, id string) *plan {
	replicas := o.membersWhere(func(m *member) bool { return m.answers() && m.isReplicaOf(id) && m.hasSynced() })
	n := o.nodes[id]
	if n == nil || len(replicas) == 0 {
		return nil
	}
	best := o.mostCompleteReplica(replicas, n)
	if best.PromotedFor.Duration > 0 {
		return wait(brief, "Waiting for %s to take over from its master, which is gone", best.Name)
	}
	if p := o.askWhichCopy(best, replicas, n); p != nil {
		return p
	}
	return do([]command{{verb: failover, on: best, how: redisnode.Takeover}},
		"%s takes over from its master, which is gone: %s has keys of slots of %s", best.Name, best.Name, from.Name)
}

// finishImports continues moves whose source was replaced by its replica. First the replica, which owns the slots now, marks
// them as migrating to the target. Then the target removes its mark, which names the old source: while a member imports a slot, it does
// not learn which node owns the slot.
func finishImports(o *observed) *plan {
	for _, to := range o.answering() {
		byOwner, unmarked := map[*member]redisnode.Slots{}, map[*member]redisnode.Slots{}
		importing := to.self().Importing
		for _, slot := range slices.Sorted(maps.Keys(importing)) {
			id := importing[slot]
			owner, one := o.owner(slot), redisnode.NewSlots(slot)
			if owner != nil && !owner.answers() && o.byID[id] == nil {
				return wait(check, "Waiting for %s, which owns the slot %d: %s was importing the slot from a node that is gone",
					owner.Name, slot, to.Name)
			}
			if owner == nil || owner == to || owner.ID == id || !owner.answers() || !to.View.Master || owner.entry(to.ID) == nil {
				continue
			}
			byOwner[owner] = byOwner[owner].Union(one)
			if owner.self().Migrating[slot] != to.ID {
				unmarked[owner] = unmarked[owner].Union(one)
			}
		}
		for _, owner := range o.answering() {
			if slots := unmarked[owner]; slots.Len() > 0 {
				return do([]command{{verb: openSlots, on: owner, peer: to, slots: slots}},
					"Marking the slots %s on %s as migrating to %s", slots, owner.Name, to.Name)
			}
			if slots := byOwner[owner]; slots.Len() > 0 {
				return do([]command{{verb: closeSlots, on: to, slots: slots}},
					"Clearing the importing state of the slots %s on %s, so that it learns that %s owns them", slots, to.Name, owner.Name)
			}
		}
	}
	return nil
}

// finishMoves finishes the moves that have marks, and removes the marks of moves that are over.
func finishMoves(o *observed) *plan {
	for _, m := range o.answering() {
		self := m.self()
		var stale []int
		for _, slot := range slices.Sorted(maps.Keys(self.Migrating)) {
			if self.Slots.Has(slot) && o.owner(slot) != m {
				// With the mark, the node redirects clients to the new owner. Without it, the node would serve the clients itself.
				return wait(brief, "Waiting for %s to learn which node owns the slot %d now", m.Name, slot)
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
			return do([]command{{verb: closeSlots, on: m, slots: slots}},
				"Clearing the migrating or importing state of the slots %s on %s: the move is over", slots, m.Name)
		}
	}
	for _, to := range o.answering() {
		if p := o.finishImport(to); p != nil {
			return p
		}
	}
	for _, from := range o.answering() {
		if p := o.finishExport(from); p != nil {
			return p
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(o.Moves)) {
		if delay := o.delay(slot); delay > 0 {
			return wait(min(delay, poll), "Waiting before the slot %d is moved again", slot)
		}
	}
	return nil
}

// finishImport continues to move slots to a member that imports them. The source is their current owner, whichever node the
// marks name. The slots must go to this member: it already has some of their keys.
func (o *observed) finishImport(to *member) *plan {
	importing := to.self().Importing
	for _, slot := range slices.Sorted(maps.Keys(importing)) {
		from := o.owner(slot)
		if from == nil || !from.answers() || o.delay(slot) > 0 {
			continue
		}
		if !to.View.Master {
			slots := redisnode.NewSlots(slot)
			return do([]command{{verb: closeSlots, on: to, slots: slots}},
				"Clearing the importing state of the slots %s on %s, which is no longer a master", slots, to.Name)
		}
		same := slices.DeleteFunc(slices.Sorted(maps.Keys(importing)), func(s int) bool { return o.owner(s) != from || o.delay(s) > 0 })
		slots := redisnode.NewSlots(same...).First(o.slotsPerMove(from))
		return handOver(from, to, slots, "Continuing to move the slots %s, from %s to %s", slots, from.Name, to.Name)
	}
	return nil
}

// finishExport continues to move slots from a member that has marked them as migrating. If the target was replaced by its
// replica, the replica has the keys, but no marks of the move.
func (o *observed) finishExport(from *member) *plan {
	migrating := from.self().Migrating
	for _, slot := range slices.Sorted(maps.Keys(migrating)) {
		to := o.byID[migrating[slot]]
		if to != nil && to.answers() && !to.View.Master {
			to = o.masterOf(to)
		}
		if to == nil || !to.answers() || o.delay(slot) > 0 {
			continue
		}
		same := slices.DeleteFunc(slices.Sorted(maps.Keys(migrating)), func(s int) bool {
			return migrating[s] != migrating[slot] || o.delay(s) > 0
		})
		slots := redisnode.NewSlots(same...).First(o.slotsPerMove(from))
		if to == from {
			return do([]command{{verb: closeSlots, on: from, slots: slots}},
				"Clearing the migrating state of the slots %s on %s: the target of the move is its replica now", slots, from.Name)
		}
		return handOver(from, to, slots, "Continuing to move the slots %s, from %s to %s", slots, from.Name, to.Name)
	}
	return nil
}

// handOver moves slots, once no other node can take them back. If two nodes claim a slot, the one with the higher config epoch gets it,
// and the other one deletes its keys of the slot. So before the move, the target must have learned two things from the source:
//
//   - The source owns the slots. A node that imports a slot does not update the slot's owner. If the target still knew an earlier owner,
//     it would drop this owner with the owner's next message, which no longer has the slot. Then it would accept any claim to the slot,
//     even with an old config epoch.
//   - The config epoch of the source. With the slots, the target takes a config epoch higher than all that it knows.
func handOver(from, to *member, slots redisnode.Slots, format string, args ...any) *plan {
	if !to.View.StateOK {
		return wait(brief, "Waiting for %s, whose cluster state is not ok yet", to.Name)
	}
	var known redisnode.Slots
	if e := to.entry(from.ID); e != nil {
		known = e.Slots
	}
	if unheard := slots.Without(known); unheard.Len() > 0 {
		return wait(soon, "Waiting for %s to learn that %s owns the slots %s", to.Name, from.Name, unheard)
	}
	source, target := from.self().Epoch, to.self().Epoch
	if target > source || (to.View.Epoch >= source && target < to.View.Epoch) {
		return do([]command{{verb: moveSlots, on: from, peer: to, slots: slots}}, format, args...)
	}
	return wait(soon, "Waiting for %s to learn the config epoch of %s", to.Name, from.Name)
}

// balanceSlots gives the intended masters their shares of the slots: by a failover from a master that leaves,
// or by moves.
func balanceSlots(o *observed) *plan {
	masters := o.intendedMasters()
	for _, m := range masters {
		if m.View.Master {
			continue
		}
		if from := o.masterOf(m); m.PromotedFor.Duration > 0 {
			return wait(brief, "Waiting for %s to take over from %s", m.Name, from.Name)
		}
		return do([]command{{verb: failover, on: m, how: redisnode.Graceful}}, "%s takes over from its master, which is being removed", m.Name)
	}
	// One master may be missing, while it is replaced. If more are missing, the few others would get all slots.
	if len(masters)+1 < min(int(o.Object.Spec.Masters()), len(o.slotOwners())) {
		return wait(check, "Waiting for Pods that can become masters: there are %d of %d", len(masters), o.Object.Spec.Masters())
	}
	if next := o.nextTransfer(masters); next != nil {
		if o.MissingUser != "" && o.slots[next.to.ID].Len() == 0 {
			return wait(check, "Waiting for the Redis users, before %s gets slots: %s", next.to.Name, o.MissingUser)
		}
		return handOver(next.from, next.to, next.slots, "Moving slots: %d are left, now from %s to %s", next.left, next.from.Name, next.to.Name)
	}
	if replica := o.surplusReplica(masters); replica != nil && !o.keepsPod(replica) {
		if p := cmp.Or(waitForReplicas(o), waitForRewrites(o)); p != nil {
			return p // The cluster may still need the replica's copy of the data.
		}
		if o.MissingUser != "" {
			return wait(check, "Waiting for the Redis users, which a new master would not have: %s", o.MissingUser)
		}
		return do(replaceNode(o, replica), "Replacing %s, to become a master", replica.Name)
	}
	return nil
}

// transfer is slots that one member gives to another.
type transfer struct {
	from, to *member
	slots    redisnode.Slots
	left     int // how many slots all transfers together still have to move
}

// nextTransfer returns the next transfer. After all transfers, each master has as many slots as any other, or one more; then it returns
// nil.
func (o *observed) nextTransfer(masters []*member) *transfer {
	surplus := o.surplus(masters)
	var from, to *member
	left := 0
	for _, m := range o.Members {
		switch n := surplus[m]; {
		case n > 0:
			left += n
			if from == nil || (o.leaving(m) && !o.leaving(from)) {
				from = m
			}
		case n < 0 && to == nil:
			to = m
		}
	}
	if from == nil || to == nil {
		return nil
	}
	count := min(surplus[from], -surplus[to], o.slotsPerMove(from))
	return &transfer{from: from, to: to, slots: o.slots[from.ID].First(count), left: left}
}

// surplus returns how many slots each member has above its share; negative if it has fewer. The masters with
// the most slots get the larger shares, so that no slot moves without need.
func (o *observed) surplus(masters []*member) map[*member]int {
	if len(masters) == 0 {
		return nil
	}
	surplus := map[*member]int{}
	for _, m := range o.slotOwners() {
		surplus[m] = o.slots[m.ID].Len()
	}
	total := o.assigned().Len()
	share, larger := total/len(masters), total%len(masters)
	order := slices.Clone(masters)
	slices.SortStableFunc(order, func(a, b *member) int { return cmp.Compare(surplus[b], surplus[a]) })
	for i, m := range order {
		surplus[m] -= share
		if i < larger {
			surplus[m]--
		}
	}
	return surplus
}

// Each Redis node keeps function libraries: a replica gets those of its master, but libraries do not move with slots. Users load and
// delete libraries on one master after the other, so the masters differ in between. While they differ, the operator writes no library. It
// never writes libraries to a master that had any before: a deleted library must not come back.

// copyLibraries copies the functions of another master to a new one, before its first slot.
func copyLibraries(o *observed) *plan {
	masters := o.functionMasters()
	difference := o.functionDifference()
	if len(masters) == 0 || (len(masters[0].View.Libraries) == 0 && difference == "") {
		return nil
	}
	for _, to := range o.intendedMasters() {
		if !to.isUnused() {
			continue
		}
		if difference != "" {
			return wait(check, "Waiting for all masters to have the same functions, before %s gets slots: %s", to.Name, difference)
		}
		return do([]command{{verb: copyFunctions, on: to, peer: masters[0]}},
			"%s gets the functions of %s, before it gets slots", to.Name, masters[0].Name)
	}
	return nil
}

// isUnused reports whether the member is a master that never had slots, keys or functions. A master whose
// functions were deleted is not unused: the deletion was a write.
func (m *member) isUnused() bool {
	return m.answers() && m.View.Master && m.View.Unwritten && m.View.Keys == 0 && len(m.View.Libraries) == 0 &&
		m.self().Slots.Len() == 0 && len(m.self().Importing) == 0
}

// functionMasters returns the masters that answer and have slots: clients call functions there.
func (o *observed) functionMasters() []*member {
	return slices.DeleteFunc(o.slotOwners(), func(m *member) bool { return !m.answers() || !m.View.Master })
}

// functionDifference returns which two masters differ in which library; "" if all masters have the same libraries.
func (o *observed) functionDifference() string {
	masters := o.functionMasters()
	for _, m := range masters {
		if name := differentLibrary(masters[0].View.Libraries, m.View.Libraries); name != "" {
			return fmt.Sprintf("%s and %s do not have the same library %s. Load it on all masters, or delete it on all",
				masters[0].Name, m.Name, name)
		}
	}
	return ""
}

// differentLibrary returns the first library that is not the same in both; "" if there is none.
func differentLibrary(a, b map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if a[name] == "" {
			return name
		}
	}
	return ""
}

// uniqueData returns, as a text, the data that only m has: the number of its keys, or a library that no staying master with slots has. It
// returns "" if m has slots, does not answer, is no master, or has no such data. It compares libraries only by name: users do not load new
// versions on a master without slots.
func (o *observed) uniqueData(m *member) string {
	if !m.answers() || !m.View.Master || o.slots[m.ID].Len() > 0 {
		return ""
	}
	if m.View.Keys > 0 {
		return fmt.Sprintf("%d keys", m.View.Keys)
	}
	for _, name := range slices.Sorted(maps.Keys(m.View.Libraries)) {
		if !slices.ContainsFunc(o.functionMasters(), func(other *member) bool { return !o.leaving(other) && other.View.Libraries[name] != "" }) {
			return fmt.Sprintf("the function library %s, which no other master has", name)
		}
	}
	return ""
}
