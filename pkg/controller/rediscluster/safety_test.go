// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/redisnode"
)

// What follows judges plans by what a scene is made of. It shares no rule with decide.

// harmToCopies says which data a command loses, or may lose; "" if none.
func (s scene) harmToCopies(p plan, c command) string {
	switch {
	case (c.verb == deletePod || c.verb == evictPod) && c.on.pod != nil && c.on.pod.Status.Phase != corev1.PodFailed:
		return s.harmOfRemoval(c.on, s.rdc.Spec.Storage == nil)
	case c.verb == deleteClaim:
		return s.harmOfRemoval(c.on, true)
	case c.verb == forget:
		return s.harmOfForgetting(p, c.id)
	case c.verb == copyFunctions:
		return s.harmOfCopy(c.on)
	case c.verb == failover && c.how != redisnode.Graceful:
		return s.harmOfForce(c.on, c.how)
	}
	return ""
}

// harmOfRemoval is about a member whose Pod is deleted: with its data, or only for a while.
func (s scene) harmOfRemoval(m *member, withData bool) string {
	if !m.answers() && withData && s.rdc.Spec.Storage != nil && s.keeps(m) && s.idKnown(m) == "" {
		return "deletes what may be the only copy of anything"
	}
	n := s.nodes[s.idKnown(m)]
	if n == nil {
		return ""
	}
	if m.answers() && m.view.Master && m.view.Keys > 0 && len(n.Slots) == 0 && withData {
		return "deletes keys that no other node has"
	}
	if n.Master || s.slots[n.MasterID].Len() == 0 {
		return "" // See harmOfDeletion.
	}
	master := s.byID[n.MasterID]
	if withData && (master == nil || !master.answers()) {
		return "deletes a copy of slots whose master does not answer"
	}
	if !m.answers() || !m.view.LinkUp {
		return ""
	}
	for _, other := range s.members {
		o := s.nodes[s.idKnown(other)]
		if other != m && !s.leaving(other) && o != nil && !o.Master && o.MasterID == n.MasterID && (!other.answers() || !other.view.LinkUp) {
			return "deletes a replica that is up to date, while " + other.name + " is not"
		}
	}
	return ""
}

// harmOfCopy is about a node that gets functions.
func (s scene) harmOfCopy(m *member) string {
	if v := m.view; s.slots[m.id].Len() > 0 || v.Keys > 0 || !v.Unwritten || len(v.Libraries) > 0 {
		return "brings back what may have been deleted"
	}
	has := map[bool]bool{}
	for _, other := range s.members {
		if s.slots[other.id].Len() > 0 {
			has[other.answers() && len(other.view.Libraries) > 0] = true
		}
	}
	if len(has) != 1 || !has[true] {
		return "is due though the masters differ"
	}
	return ""
}

// harmOfForgetting is about a node that others are to forget.
func (s scene) harmOfForgetting(p plan, id string) string {
	for _, m := range s.members {
		if s.rdc.Spec.Storage == nil || idOf(m.ordinal) != id || !s.keeps(m) || m.answers() {
			continue
		}
		if !slices.ContainsFunc(p.commands, func(c command) bool { return (c.verb == deletePod || c.verb == evictPod) && c.on == m }) {
			return "forgets " + id + ", whose volume is there"
		}
	}
	return ""
}

// harmOfForce is about a replica that takes over without having asked its master.
func (s scene) harmOfForce(heir *member, how redisnode.Failover) string {
	id := heir.self().MasterID
	for _, m := range s.members {
		if s.rdc.Spec.Storage != nil && idOf(m.ordinal) == id && s.keeps(m) && !m.answers() {
			return "takes over from " + id + ", whose volume is there"
		}
		n := s.nodes[s.idKnown(m)]
		if m == heir || n == nil || n.MasterID != id {
			continue
		}
		if how == redisnode.Takeover && !m.answers() {
			return "asks no master, and " + m.name + " may have been elected"
		}
		if linkedAtLast(heir) {
			continue
		}
		if !m.answers() || (linkedAtLast(m) && m.view.Keys > 0) {
			return fmt.Sprintf("is stale, and %s may not be", m.name)
		}
	}
	return ""
}

// linkedAtLast returns whether a replica was linked to its master shortly before that was
// lost, which is an hour ago.
func linkedAtLast(m *member) bool {
	return m.view.LinkUp || (m.view.LinkDown >= 0 && m.view.LinkDown <= time.Hour+20*time.Second)
}

// keeps returns whether the member has what it had from the start.
func (s scene) keeps(m *member) bool {
	if s.rdc.Spec.Storage != nil {
		return m.claim != nil && string(m.claim.UID) == "uid-"+m.claim.Name && m.claim.Spec.VolumeName != ""
	}
	return m.pod != nil && string(m.pod.UID) == "uid-"+m.name && m.pod.Status.Phase != corev1.PodFailed
}

// idKnown is the ID of the member's node, as far as anybody can know it: the node itself,
// the status, or a node that knows its address.
func (s scene) idKnown(m *member) string {
	if m.answers() {
		return m.view.ID
	}
	for _, n := range s.rdc.Status.Nodes {
		if n.Pod == m.name && (m.claim != nil || (m.pod != nil && n.IP == m.ip())) {
			return n.ID
		}
	}
	for _, n := range s.nodes {
		if m.ip() != "" && n.IP == m.ip() {
			return n.ID
		}
	}
	return ""
}
