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

// leaving returns whether the member is to be emptied and removed: there are to be fewer Pods,
// somebody has deleted its volume, or it is to be emptied before it is replaced. Of the latter
// two, it is one at a time.
func (o *observed) leaving(m *member) bool {
	return m.ordinal >= int(*o.rdc.Spec.Size) || m == o.withDeletedVolume() || m == o.nextToEmpty()
}

// withDeletedVolume returns the first member whose volume somebody has deleted, and whose Pod is
// still there; nil if there is none.
func (o *observed) withDeletedVolume() *member {
	for _, m := range o.members {
		if m.pod != nil && m.claim != nil && m.claim.DeletionTimestamp != nil {
			return m
		}
	}
	return nil
}

// nextToEmpty returns the Pod to empty next, since it is to be replaced, and has the only copy of
// its slots: none while another leaves. The one with the fewest slots is the one that was being
// emptied. nil if there is none.
func (o *observed) nextToEmpty() *member {
	if o.rdc.Spec.Storage != nil || *o.rdc.Spec.ReplicasPerMaster > 0 || len(o.holders()) < 2 ||
		slices.ContainsFunc(o.members, func(m *member) bool { return m.ordinal >= int(*o.rdc.Spec.Size) || !m.answers() }) {
		return nil
	}
	outdated := o.those(func(m *member) bool { return m.outdated })
	if len(outdated) == 0 {
		return nil
	}
	return slices.MinFunc(outdated, func(a, b *member) int {
		return cmp.Or(cmp.Compare(o.slots[a.id].Len(), o.slots[b.id].Len()), cmp.Compare(a.ordinal, b.ordinal))
	})
}

// masters are the members that are to be masters, by ordinal: as many as the spec asks
// for, if there are enough. In this order:
//
//  1. those that are and stay, those with the most slots first: so the choice stays the
//     same while slots are moved;
//  2. replicas of masters that leave: they take the slots over as they are;
//  3. those that have nothing yet, spread over the machines.
//
// A replica never becomes an empty master: Redis would have to throw away what it holds.
// See spare for that.
func (o *observed) masters() []*member {
	count := int(o.rdc.Spec.Masters())
	chosen := o.those(func(m *member) bool { return !o.leaving(m) && m.id != "" && o.slots[m.id].Len() > 0 })
	slices.SortStableFunc(chosen, func(a, b *member) int { return cmp.Compare(o.slots[b.id].Len(), o.slots[a.id].Len()) })
	chosen = chosen[:min(len(chosen), count)]
	for _, leaving := range o.holders() {
		if len(chosen) == count || !o.leaving(leaving) {
			continue
		}
		if heir := o.heir(leaving, func(m *member) bool { return !o.leaving(m) }); heir != nil {
			chosen = append(chosen, heir)
		}
	}
	for len(chosen) < count {
		next := o.empty(chosen)
		if next == nil {
			break
		}
		chosen = append(chosen, next)
	}
	slices.SortFunc(chosen, func(a, b *member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	return chosen
}

// empty returns a master without slots that stays, and is not among the chosen, on the
// machine with the fewest of them; nil if there is none.
func (o *observed) empty(chosen []*member) *member {
	on := map[string]int{}
	for _, m := range chosen {
		on[m.machine()]++
	}
	free := o.those(func(m *member) bool {
		return m.answers() && !o.leaving(m) && m.view.Master && o.slots[m.id].Len() == 0 && !slices.Contains(chosen, m)
	})
	if len(free) == 0 {
		return nil
	}
	return slices.MinFunc(free, func(a, b *member) int {
		return cmp.Or(cmp.Compare(on[a.machine()], on[b.machine()]), cmp.Compare(a.ordinal, b.ordinal))
	})
}

// heir returns the replica of m that is best to take over, of those that may: up to date
// with the spec, with the most of m's data. nil if none is connected to m.
func (o *observed) heir(m *member, may func(*member) bool) *member {
	replicas := slices.DeleteFunc(o.replicasOf(m), func(r *member) bool { return !r.view.LinkUp || !may(r) })
	if len(replicas) == 0 {
		return nil
	}
	return slices.MinFunc(replicas, func(a, b *member) int {
		return cmp.Or(compareBool(a.outdated, b.outdated), cmp.Compare(b.view.Offset, a.view.Offset), cmp.Compare(a.ordinal, b.ordinal))
	})
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// machine is the name of the Node that the member's Pod is on.
func (m *member) machine() string {
	if m.pod == nil {
		return ""
	}
	return m.pod.Spec.NodeName
}

// spare returns a replica that is to be made anew, empty, so that there is one more
// master; nil if there are enough.
func (o *observed) spare(masters []*member) *member {
	if len(masters) >= int(o.rdc.Spec.Masters()) {
		return nil
	}
	var most []*member
	for _, m := range masters {
		replicas := slices.DeleteFunc(o.replicasOf(m), func(r *member) bool { return o.leaving(r) })
		if len(replicas) > len(most) {
			most = replicas
		}
	}
	if len(most) <= int(*o.rdc.Spec.ReplicasPerMaster) {
		return nil
	}
	return most[len(most)-1]
}

// transfer is slots that one member is to give to another.
type transfer struct {
	from, to *member
	slots    redisnode.Slots
	left     int // slots that are to be moved, of all
}

// nextTransfer returns what to move next, at most this many slots, so that in the end the
// masters have all slots, each as many as any other, or one more; nil when that is so.
func (o *observed) nextTransfer(masters []*member, most int) *transfer {
	surplus := o.surplus(masters)
	var from, to *member
	left := 0
	for _, m := range o.members {
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
	count := min(surplus[from], -surplus[to], most)
	return &transfer{from: from, to: to, slots: o.slots[from.id].First(count), left: left}
}

// surplus is how many slots each member has more than it is to have. Those that have the
// most keep the most, so that nothing is moved for nothing.
func (o *observed) surplus(masters []*member) map[*member]int {
	surplus := map[*member]int{}
	for _, m := range o.holders() {
		surplus[m] = o.slots[m.id].Len()
	}
	if len(masters) == 0 {
		return nil
	}
	total := o.assigned().Len()
	share, more := total/len(masters), total%len(masters)
	order := slices.Clone(masters)
	slices.SortStableFunc(order, func(a, b *member) int { return cmp.Compare(surplus[b], surplus[a]) })
	for i, m := range order {
		surplus[m] -= share
		if i < more {
			surplus[m]--
		}
	}
	return surplus
}

// adopter returns the best of the masters for a replica: one that has too few, and on
// another machine if possible. It is nil while the replica has not heard of it.
func (o *observed) adopter(replica *member, masters []*member, counts map[*member]int) *member {
	able := slices.DeleteFunc(slices.Clone(masters), func(m *member) bool {
		return m == replica || !m.answers() || !m.view.Master
	})
	if len(able) == 0 {
		return nil
	}
	staying := len(o.those(func(m *member) bool { return !o.leaving(m) }))
	least := (staying - len(masters)) / len(masters)
	best := slices.MinFunc(able, func(a, b *member) int {
		return cmp.Or(
			compareBool(counts[a] >= least, counts[b] >= least),
			compareBool(counts[a] > least, counts[b] > least),
			compareBool(a.machine() == replica.machine(), b.machine() == replica.machine()),
			cmp.Compare(counts[a], counts[b]),
			cmp.Compare(a.ordinal, b.ordinal))
	})
	if replica.entry(best.id) == nil {
		return nil
	}
	return best
}
