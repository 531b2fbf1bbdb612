/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// observed is what one sync sees: the Pods and their volumes as the caches show them, and
// the cluster as each of its nodes tells of it. Nobody may change it.
type observed struct {
	rdc     *v1.RedisCluster
	members []*member // by ordinal
	now     time.Time

	// formed is whether the cluster once had all of its slots.
	formed bool
	// problems are what is in the way besides what the members say.
	problems []problem
	// unassigned is for how long some slots have had no owner.
	unassigned time.Duration
	// differing is for how long masters have not had the same functions.
	differing time.Duration
	// failure is what came of the last commands, and failing for how long they have failed; nil and 0
	// if they have not.
	failure *problem
	failing time.Duration
	// held is why the last eviction was refused; "" if it was not.
	held string
	// actedAt is when there was last something to do, or nothing to wait for; zero if that is not known.
	actedAt time.Time

	// revisions are those of the Pods that exist.
	revisions map[string]bool
	// pods is how many Pods the PodDisruptionBudget has to count: those that exist, and
	// those that are to be made. uncounted is how many of these it does not count yet.
	pods, uncounted int

	byID map[string]*member
	// nodes are all nodes that any member knows of, by their IDs, each as it tells of
	// itself, or else as the table with the latest epoch does.
	nodes map[string]*node
	// slots are who has which, by the latest epoch. Who has none is not among them.
	slots map[string]redisnode.Slots
}

// member is one of the Pods that there are, or are to be.
type member struct {
	name    string
	ordinal int
	pod     *corev1.Pod                   // nil: there is none
	claim   *corev1.PersistentVolumeClaim // nil: there is none, or none is wanted
	taken   bool                          // whether its name is taken by another Pod

	// view is what its redis-server tells; nil if it does not answer, and then whySilent says
	// why, and refused whether it refused the password.
	view      *redisnode.View
	whySilent string
	refused   bool
	// silent is for how long it has not answered although it should.
	silent time.Duration
	// id is its node's, also while it does not answer, if that is known; "" if not.
	id string

	// outdated is whether its Pod is not what the spec makes of it now.
	outdated bool
	// unready is for how long its Pod has run, and not been ready.
	unready time.Duration
	// promoted is for how long it has been asked to take over from its master, 0 if it was
	// not, or that is long ago.
	promoted time.Duration
	// unlinked is for how long a replica that answers has not been linked to its master, by
	// its own account or by what was seen before. It is negative if neither tells.
	unlinked time.Duration

	entries map[string]*redisnode.Entry // the view's table, by ID
}

// node is a node of the Redis Cluster, as far as any member knows.
type node struct {
	redisnode.Entry
	member *member // nil: no Pod of this cluster has that ID
	// suspect is for how long it has been known without a Pod.
	suspect time.Duration
	// missed is for how long no member has been connected to it, as far as that was seen.
	missed time.Duration
	// witnessed is whether a member was connected to it until shortly before that. Otherwise
	// it may have been lost long before missed says, such as before the operator was started.
	witnessed bool
}

// problem is what a person should know of, in the words of a condition.
type problem struct {
	reason, message string
}

// answers returns whether the member can be told to do something.
func (m *member) answers() bool { return m.view != nil }

// blank returns whether the member knows nobody but itself and holds nothing.
func (m *member) blank() bool {
	return m.answers() && len(m.view.Table) == 1 && m.view.Master && m.view.Keys == 0 && m.view.Table[0].Slots.Len() == 0
}

// entry returns what m knows of the node with this ID, or nil.
func (m *member) entry(id string) *redisnode.Entry { return m.entries[id] }

// self returns what m tells of itself.
func (m *member) self() *redisnode.Entry { return m.entry(m.view.ID) }

// greets returns whether m is about to get to know whoever has this address.
func (m *member) greets(ip string, port int) bool {
	return slices.ContainsFunc(m.view.Table, func(e redisnode.Entry) bool { return e.Handshake && e.IP == ip && e.Port == port })
}

// ip is that of the member's Pod.
func (m *member) ip() string {
	if m.pod == nil {
		return ""
	}
	return m.pod.Status.PodIP
}

// merge fills in what follows from what the members say.
func (o *observed) merge() {
	o.byID, o.nodes, o.slots = map[string]*member{}, map[string]*node{}, map[string]redisnode.Slots{}
	for _, m := range o.members {
		if m.id != "" {
			o.byID[m.id] = m
		}
	}
	for _, m := range o.answering() {
		m.entries = map[string]*redisnode.Entry{}
		for i := range m.view.Table {
			e := &m.view.Table[i]
			if e.Handshake { // It has no ID of its own yet.
				continue
			}
			m.entries[e.ID] = e
			known := o.nodes[e.ID]
			if known == nil || e.Myself || (!known.Myself && e.Epoch > known.Epoch) {
				o.nodes[e.ID] = &node{Entry: *e, member: o.byID[e.ID]}
			}
		}
	}
	o.assign()
}

// assign gives each slot to the one that claims it with the latest epoch. Every member
// may be behind, and a master may have been replaced without having heard of it.
func (o *observed) assign() {
	masters := slices.SortedFunc(maps.Values(o.nodes), func(a, b *node) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(a.ID, b.ID))
	})
	var taken redisnode.Slots
	for _, n := range masters {
		if !n.Master {
			continue
		}
		if own := n.Slots.Without(taken); own.Len() > 0 {
			o.slots[n.ID] = own
			taken = taken.Union(own)
		}
	}
}

// assigned are the slots that somebody has.
func (o *observed) assigned() redisnode.Slots {
	var all redisnode.Slots
	for _, slots := range o.slots {
		all = all.Union(slots)
	}
	return all
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

// answering are the members that can be told to do something.
func (o *observed) answering() []*member {
	return o.those(func(m *member) bool { return m.answers() })
}

func (o *observed) those(are func(*member) bool) []*member {
	var some []*member
	for _, m := range o.members {
		if are(m) {
			some = append(some, m)
		}
	}
	return some
}

// holders are the masters with slots, by ordinal.
func (o *observed) holders() []*member {
	return o.those(func(m *member) bool { return m.id != "" && o.slots[m.id].Len() > 0 })
}

// masterOf returns the master of a replica, as the replica itself tells: nil if it is a
// master, or its master is no member, or it does not answer.
func (o *observed) masterOf(m *member) *member {
	if !m.answers() || m.view.Master {
		return nil
	}
	return o.byID[m.self().MasterID]
}

// replicasOf are those that say that m is their master.
func (o *observed) replicasOf(m *member) []*member {
	return o.those(func(r *member) bool { return o.masterOf(r) == m })
}

// unknown are the nodes that are no member's, by ID.
func (o *observed) unknown() []*node {
	var all []*node
	for _, id := range slices.Sorted(maps.Keys(o.nodes)) {
		if n := o.nodes[id]; n.member == nil {
			all = append(all, n)
		}
	}
	return all
}

// dead returns whether nobody is connected to the node with this ID.
func (o *observed) dead(id string) bool {
	for _, m := range o.answering() {
		if e := m.entry(id); e != nil && e.Connected && !e.Failed && !e.NoAddr {
			return false
		}
	}
	return true
}

// quarrel says in what two members do not agree; "" if all that answer know each other, and
// say the same of each other.
func (o *observed) quarrel() string {
	// One that leaves and has no slots is about to be removed, whether it is known or not.
	concerned := o.those(func(m *member) bool { return m.answers() && !(o.leaving(m) && o.slots[m.id].Len() == 0) })
	for _, a := range concerned {
		for _, b := range concerned {
			own, seen := b.self(), a.entry(b.id)
			switch {
			case seen == nil:
				return fmt.Sprintf("%s does not know %s", a.name, b.name)
			case seen.Failed || seen.MaybeFailed || (a != b && !seen.Connected):
				return fmt.Sprintf("%s does not reach %s", a.name, b.name)
			case seen.Master != own.Master || seen.MasterID != own.MasterID:
				return fmt.Sprintf("%s has not heard which role %s has", a.name, b.name)
			case !seen.Slots.Equal(own.Slots):
				return fmt.Sprintf("%s has not heard which slots %s has", a.name, b.name)
			}
		}
	}
	return ""
}
