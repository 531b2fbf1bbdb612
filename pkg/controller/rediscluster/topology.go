// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	"github.com/glassback/glassback/pkg/redisnode"
)

// The methods below answer questions about what was observed: which node has which slots, which replica
// has which master, which Pods leave. They change nothing.

// merge combines the views of all members. Every node describes itself best.
func (o *observed) merge() {
	o.byID, o.nodes = map[string]*member{}, map[string]*node{}
	for _, m := range o.Members {
		if m.ID != "" {
			o.byID[m.ID] = m
		}
	}
	for _, m := range o.answering() {
		m.entries = map[string]*redisnode.Entry{}
		for i := range m.View.Table {
			e := &m.View.Table[i]
			if e.Handshake { // The node has no ID of its own yet.
				continue
			}
			m.entries[e.ID] = e
			known := o.nodes[e.ID]
			if known == nil || e.Myself || (!known.Myself && e.Epoch > known.Epoch) {
				o.nodes[e.ID] = &node{Entry: *e, member: o.byID[e.ID]}
			}
		}
	}
	o.slots = slotsByOwner(o.nodes)
}

// slotsByOwner assigns each slot to the node that claims it with the highest config epoch, as the nodes themselves do. Any member may be
// behind, and a replaced master may not know of its successor. Two nodes can have the same epoch: a replica that takes over without votes
// keeps its own epoch if that is the highest one already. Then a node that answers, and so claims the slots itself, takes precedence over
// a node that is gone.
func slotsByOwner(nodes map[string]*node) map[string]redisnode.Slots {
	byEpoch := slices.SortedFunc(maps.Values(nodes), func(a, b *node) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), compareBool(b.Myself, a.Myself), cmp.Compare(a.ID, b.ID))
	})
	owned := map[string]redisnode.Slots{}
	var taken redisnode.Slots
	for _, n := range byEpoch {
		if !n.Master {
			continue
		}
		if slots := n.Slots.Without(taken); slots.Len() > 0 {
			owned[n.ID] = slots
			taken = taken.Union(slots)
		}
	}
	return owned
}

// answers returns whether the member answers, so that it can carry out commands.
func (m *member) answers() bool { return m.View != nil }

// isBlank returns whether the member knows no other node, and has no slots and no keys.
func (m *member) isBlank() bool {
	return m.answers() && len(m.View.Table) == 1 && m.View.Master && m.View.Keys == 0 && m.View.Table[0].Slots.Len() == 0
}

// entry returns what m knows of the node with this ID, or nil.
func (m *member) entry(id string) *redisnode.Entry { return m.entries[id] }

// self returns what m reports of itself.
func (m *member) self() *redisnode.Entry { return m.entry(m.View.ID) }

// port returns the port on which the other nodes reach the member at the IP of its Pod: the port for TLS if the cluster bus uses TLS.
func (m *member) port() int {
	if tls := m.View.TLS; tls != nil && tls.Known {
		return m.own().ClientPort(tls.Cluster)
	}
	if manifest.HasTLS(m.Pod) {
		return m.self().Port
	}
	return m.own().Port
}

// isReplicaOf returns whether the member is a replica of the node with this ID.
func (m *member) isReplicaOf(id string) bool { return !m.View.Master && m.self().MasterID == id }

// hasSynced returns whether a replica has ever received the data of its own master. Redis does not elect a replica without this data. But
// such a replica would obey a command to take over, and the data would be lost.
func (m *member) hasSynced() bool { return !m.View.Stray && (m.View.Keys > 0 || m.View.Offset > 1) }

// isMeeting returns whether m is in a handshake with a member: at the address of its Pod, or at the one that it announces.
func (m *member) isMeeting(other *member) bool {
	own, announced := other.own(), other.announced()
	return slices.ContainsFunc(m.View.Table, func(e redisnode.Entry) bool {
		return e.Handshake && ((e.IP == own.IP && own.HasPort(e.Port)) || (e.IP == announced.IP && announced.HasPort(e.Port)))
	})
}

// ip returns the IP of the member's Pod; "" if it has none.
func (m *member) ip() string {
	if m.Pod == nil {
		return ""
	}
	return m.Pod.Status.PodIP
}

// machine returns the name of the Kubernetes Node that the member's Pod runs on; "" if there is none.
func (m *member) machine() string {
	if m.Pod == nil {
		return ""
	}
	return m.Pod.Spec.NodeName
}

// membersWhere returns the members with a property, by ordinal.
func (o *observed) membersWhere(is func(*member) bool) []*member {
	var some []*member
	for _, m := range o.Members {
		if is(m) {
			some = append(some, m)
		}
	}
	return some
}

// answering returns the members that answer.
func (o *observed) answering() []*member {
	return o.membersWhere(func(m *member) bool { return m.answers() })
}

// slotOwners returns the masters with slots.
func (o *observed) slotOwners() []*member {
	return o.membersWhere(func(m *member) bool { return m.ID != "" && o.slots[m.ID].Len() > 0 })
}

// owner returns the member that has the slot, or nil.
func (o *observed) owner(slot int) *member {
	for id, slots := range o.slots {
		if slots.Has(slot) {
			return o.byID[id]
		}
	}
	return nil
}

// assigned returns the slots that have an owner.
func (o *observed) assigned() redisnode.Slots {
	var all redisnode.Slots
	for _, slots := range o.slots {
		all = all.Union(slots)
	}
	return all
}

// unassigned returns the slots that have no owner.
func (o *observed) unassigned() redisnode.Slots {
	return redisnode.AllSlots().Without(o.assigned())
}

// masterOf returns the master of a replica, as the replica reports it. It is nil if m is a master, if its
// master is no member, or if m does not answer.
func (o *observed) masterOf(m *member) *member {
	if !m.answers() || m.View.Master {
		return nil
	}
	return o.byID[m.self().MasterID]
}

// replicasOf returns the members that report m as their master.
func (o *observed) replicasOf(m *member) []*member {
	return o.membersWhere(func(r *member) bool { return o.masterOf(r) == m })
}

// replicaCounts returns how many replicas each master has, without those that leave.
func (o *observed) replicaCounts() map[*member]int {
	counts := map[*member]int{}
	for _, m := range o.Members {
		if master := o.masterOf(m); master != nil && !o.leaving(m) {
			counts[master]++
		}
	}
	return counts
}

// unknownNodes returns the nodes that belong to no member, by ID.
func (o *observed) unknownNodes() []*node {
	var all []*node
	for _, id := range slices.Sorted(maps.Keys(o.nodes)) {
		if n := o.nodes[id]; n.member == nil {
			all = append(all, n)
		}
	}
	return all
}

// unreachable returns whether no member is connected to the node with this ID.
func (o *observed) unreachable(id string) bool {
	return !slices.ContainsFunc(o.answering(), func(m *member) bool {
		e := m.entry(id)
		return e != nil && e.Connected && !e.Failed && !e.NoAddr
	})
}

// reachesMajority returns whether the member is connected to more than half of the masters with slots. It counts the masters that the
// member itself knows: Redis counts only their votes.
func (m *member) reachesMajority() bool {
	voters, reached := 0, 0
	for _, e := range m.entries {
		if !e.Master || e.Slots.Len() == 0 {
			continue
		}
		voters++
		if e.Connected && !e.Failed {
			reached++
		}
	}
	return reached*2 > voters
}

// unidentified returns a member with a volume whose node is unknown; nil if there is none. Any node that
// belongs to no Pod may be on that volume.
func (o *observed) unidentified() *member {
	for _, m := range o.Members {
		if o.isUnidentified(m) {
			return m
		}
	}
	return nil
}

// isUnidentified returns whether the member's volume may have the data of any node. The Pod need not exist: the data is on the volume. A
// claim without a volume has no data, unless its Pod has a machine: then the cache is stale.
func (o *observed) isUnidentified(m *member) bool {
	bound := m.Claim != nil && m.Claim.Spec.VolumeName != ""
	return o.Object.Spec.Storage != nil && !m.answers() && m.ID == "" && (bound || m.machine() != "")
}

// leaving returns whether the member is to be emptied and removed. It has an ordinal beyond the size, or a user deleted its claim, or it
// is emptied because it has to be replaced. In the last two cases, only one member leaves at a time, and only if its new Pod can be
// created.
func (o *observed) leaving(m *member) bool {
	switch {
	case m.Ordinal >= int(*o.Object.Spec.Size):
		return true
	case o.keepsPod(m):
		return false
	}
	return (m.losesVolume() && m == o.withDeletedVolume()) || (m.Outdated && m == o.nextToEmpty())
}

// keepsPod returns whether the Pod of a member stays, since no new one could be created.
func (o *observed) keepsPod(m *member) bool {
	return o.whyNoPods() != "" || (m.Outdated && o.Rejection != "")
}

// losesVolume returns whether the member's claim is being deleted and its Pod exists.
func (m *member) losesVolume() bool {
	return m.Pod != nil && m.Claim != nil && m.Claim.DeletionTimestamp != nil
}

// withDeletedVolume returns the first member that loses its volume, or nil.
func (o *observed) withDeletedVolume() *member {
	for _, m := range o.Members {
		if m.losesVolume() {
			return m
		}
	}
	return nil
}

// nextToEmpty returns the outdated member to empty next, since it has the only copy of its slots. It is nil if there is none, or while the
// cluster shrinks or a member is silent. It chooses the member with the fewest slots, and so continues with a member that it was emptying.
func (o *observed) nextToEmpty() *member {
	if o.Object.Spec.Storage != nil || *o.Object.Spec.ReplicasPerMaster > 0 || len(o.slotOwners()) < 2 ||
		slices.ContainsFunc(o.Members, func(m *member) bool { return m.Ordinal >= int(*o.Object.Spec.Size) || !m.answers() }) {
		return nil
	}
	outdated := o.membersWhere(func(m *member) bool { return m.Outdated })
	if len(outdated) == 0 {
		return nil
	}
	return slices.MinFunc(outdated, func(a, b *member) int {
		return cmp.Or(cmp.Compare(o.slots[a.ID].Len(), o.slots[b.ID].Len()), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}

// stayingAnswer returns whether all members that stay answer.
func (o *observed) stayingAnswer() bool {
	return !slices.ContainsFunc(o.Members, func(m *member) bool { return !o.leaving(m) && !m.answers() })
}

// keys returns how many keys the members that answer have.
func (o *observed) keys() int64 {
	var all int64
	for _, m := range o.answering() {
		all += m.View.Keys
	}
	return all
}

// groups returns the members that answer, grouped by which of them know each other. Each group is sorted by
// ordinal. The group with the most slots comes first.
func (o *observed) groups() [][]*member {
	var groups [][]*member
	grouped := map[*member]bool{}
	for _, m := range o.answering() {
		if grouped[m] {
			continue
		}
		group := []*member{m}
		grouped[m] = true
		for i := 0; i < len(group); i++ {
			for _, other := range o.answering() {
				if !grouped[other] && (group[i].entry(other.ID) != nil || other.entry(group[i].ID) != nil) {
					grouped[other] = true
					group = append(group, other)
				}
			}
		}
		slices.SortFunc(group, func(a, b *member) int { return a.Ordinal - b.Ordinal })
		groups = append(groups, group)
	}
	slices.SortStableFunc(groups, func(a, b []*member) int { return claimedSlots(b).Len() - claimedSlots(a).Len() })
	return groups
}

// claimedSlots returns the slots that the members of a group report as their own.
func claimedSlots(group []*member) redisnode.Slots {
	var all redisnode.Slots
	for _, m := range group {
		all = all.Union(m.self().Slots)
	}
	return all
}

// disagreement returns in what two members disagree. It is "" if all that answer know each other, and
// describe each other alike.
func (o *observed) disagreement() string {
	// A member that leaves and has no slots is removed next, whether the others know it or not.
	concerned := o.membersWhere(func(m *member) bool { return m.answers() && !(o.leaving(m) && o.slots[m.ID].Len() == 0) })
	for _, a := range concerned {
		for _, b := range concerned {
			own, seen := b.self(), a.entry(b.ID)
			switch {
			case seen == nil:
				return fmt.Sprintf("%s does not know %s", a.Name, b.Name)
			case seen.Failed || seen.MaybeFailed || (a != b && !seen.Connected):
				return fmt.Sprintf("%s does not reach %s", a.Name, b.Name)
			case a.isMeeting(b):
				return fmt.Sprintf("%s is in a handshake with %s", a.Name, b.Name)
			case seen.Master != own.Master || seen.MasterID != own.MasterID:
				return fmt.Sprintf("%s has not heard which role %s has", a.Name, b.Name)
			case !seen.Slots.Equal(own.Slots):
				return fmt.Sprintf("%s has not heard which slots %s has", a.Name, b.Name)
			}
		}
	}
	return ""
}

const (
	// minPatience is the minimum time that the operator gives the nodes to notice a lost node, and to elect
	// one of its replicas.
	minPatience = 20 * time.Second
	// defaultNodeTimeout is the cluster-node-timeout of a spec.config without it.
	defaultNodeTimeout = 5 * time.Second
	// failoverPatience is how long a replica may take to take over: Redis gives up after five seconds.
	failoverPatience = 6 * time.Second
)

// patience returns how long the operator waits for the nodes to handle a lost node themselves.
func (o *observed) patience() time.Duration { return max(minPatience, 4*o.nodeTimeout()) }

// nodeTimeout returns how long nodes wait for a silent node before they suspect it to have failed.
func (o *observed) nodeTimeout() time.Duration {
	timeout, err := strconv.Atoi(redisnode.Value(string(o.Object.Spec.Config["cluster-node-timeout"])))
	if err != nil {
		return defaultNodeTimeout
	}
	return time.Duration(timeout) * time.Millisecond
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// shortID returns the start of a node's ID, for messages.
func shortID(id string) string { return id[:min(len(id), 8)] }

// withoutPort returns the text of an error without the local port of a connection, which differs each time.
func withoutPort(err error) string { return localAddress.ReplaceAllString(err.Error(), "") }

var localAddress = regexp.MustCompile(`[^ ]+->`)
