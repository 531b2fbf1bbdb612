// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The policy below decides what happens to the slots of a master that is lost.

// replaceLostMasters handles slots whose master's Pod is gone for good: a replica takes over, or the data is
// lost.
func replaceLostMasters(o *observed) *plan {
	if len(o.answering()) == 0 {
		return nil // No node shows which nodes have the slots.
	}
	lost, lostMasters, p := o.findLosses()
	if p != nil {
		return p
	}
	if o.Formed || o.keys() > 0 {
		lost = lost.Union(o.unassigned())
	}
	switch {
	case lost.Len() == 0:
		return nil
	case len(lostMasters) == 0 && o.UnassignedFor.Duration < 2*check:
		// The nodes are not asked at the same moment: one may just have taken over from another.
		return wait(check, "Waiting to learn which node owns the slots %s", lost)
	}
	return reportLoss(o, lost, lostMasters)
}

// findLosses returns the slots and the masters for which no replica is left. It also returns a plan if a replica
// of some lost master can take over, or if a silent member may have the data: this plan has precedence.
func (o *observed) findLosses() (lost redisnode.Slots, lostMasters []*node, waiting *plan) {
	for _, n := range o.unknownNodes() {
		slots := o.slots[n.ID]
		if slots.Len() == 0 {
			continue
		}
		if m := o.unidentified(); m != nil {
			return nil, nil, wait(check, "Waiting for %s, which may have the slots %s: %s", m.Name, slots, m.WhySilent)
		}
		candidates := o.membersWhere(func(m *member) bool { return m.answers() && m.isReplicaOf(n.ID) && m.hasSynced() })
		missing := o.membersWhere(func(m *member) bool {
			return !m.answers() && m.ID != "" && o.nodes[m.ID] != nil && o.nodes[m.ID].MasterID == n.ID
		})
		switch {
		case len(candidates) > 0:
			p := takeOverFrom(o, n, candidates, missing)
			if len(p.Commands) > 0 {
				return nil, nil, p // The slots of one master do not wait for those of another.
			}
			waiting = cmp.Or(waiting, p)
		case len(missing) > 0:
			waiting = cmp.Or(waiting, wait(check, "Waiting for %s, which has what the slots %s hold: their master is gone", missing[0].Name, slots))
		default:
			lost, lostMasters = lost.Union(slots), append(lostMasters, n)
		}
	}
	return lost, lostMasters, waiting
}

// takeOverFrom makes one of the replicas take over the slots of n, unless the other masters elect one first.
// It waits for missing replicas: they may have more of the data, and would lose it after the takeover. It does not
// wait if the chosen replica was linked to n until n was lost, and reaches most masters. Masters that it does not
// reach may have elected a missing replica, or may still reach n.
func takeOverFrom(o *observed, n *node, replicas, missing []*member) *plan {
	if n.UnknownFor.Duration < o.patience() {
		return wait(check, "Waiting for a replica to be elected for the slots %s, whose master is gone", o.slots[n.ID])
	}
	best := o.mostCompleteReplica(replicas, n)
	how := redisnode.Takeover
	if best.reachesMajority() {
		how = redisnode.Force // The other masters can agree.
	}
	switch {
	case best.PromotedFor.Duration > 0:
		return wait(check, "Waiting for %s to take over the slots %s, whose master is gone", best.Name, o.slots[n.ID])
	case len(missing) > 0 && (how == redisnode.Takeover || !o.linkedUntilLoss(best, n)):
		return wait(check, "Waiting for %s, which may have more of what the slots %s held than %s: their master is gone",
			missing[0].Name, o.slots[n.ID], best.Name)
	}
	if p := o.askWhichCopy(best, replicas, n); p != nil {
		return p
	}
	return do([]command{{verb: failover, on: best, how: how}}, "%s takes over the slots %s, whose master is gone", best.Name, o.slots[n.ID])
}

// linkedUntilLoss returns whether a replica was linked to n until at most patience before n was lost: the nodes
// need time to notice a loss. Then no other replica can have much more of the data. Redis has such a limit for
// replicas that are elected, but not for a replica that takes over by a command.
func (o *observed) linkedUntilLoss(m *member, n *node) bool {
	return m.UnlinkedFor.Duration >= 0 && m.UnlinkedFor.Duration-n.UnreachableFor.Duration <= o.patience()
}

// mostCompleteReplica returns the replica that probably has the most data of n. It prefers a replica that was linked
// until the loss. Next comes a replica that may have been linked: it was restarted since, and does not know. Among
// equal ones, the highest offset wins.
func (o *observed) mostCompleteReplica(replicas []*member, n *node) *member {
	return slices.MaxFunc(replicas, func(a, b *member) int {
		return cmp.Or(
			compareBool(o.linkedUntilLoss(a, n), o.linkedUntilLoss(b, n)),
			compareBool(a.UnlinkedFor.Duration < 0, b.UnlinkedFor.Duration < 0),
			cmp.Compare(a.View.Offset, b.View.Offset))
	})
}

// askWhichCopy returns a plan to wait for a user's choice, or nil. It asks if it is unknown when the best replica was
// last linked, since that replica was restarted, and another replica of n may have been linked until the loss. It does
// not ask if the operator saw the loss: then the operator knows which replicas were linked.
func (o *observed) askWhichCopy(best *member, replicas []*member, n *node) *plan {
	if n.LossSeen || best.UnlinkedFor.Duration >= 0 {
		return nil
	}
	for _, m := range replicas {
		if m.UnlinkedFor.Duration >= 0 {
			return stuck(reasonHeldBack, "%s or %s has more of what their master held, which is gone, and it is not known which: the operator "+
				"did not see the master being lost. Delete the Pod, and its claim if it has one, of the one to give up", m.Name, best.Name)
		}
	}
	return nil
}

// reportLoss reports slots whose data is lost. If a user has accepted this loss, it reassigns them.
func reportLoss(o *observed, lost redisnode.Slots, lostMasters []*node) *plan {
	for _, m := range o.Members {
		if !m.answers() {
			return wait(check, "Waiting for %s: the slots %s have no master", m.Name, lost)
		}
	}
	l := newLoss(o.Object, lost, o.Now)
	p := stuck(reasonDataLoss, "%s", l.message())
	if l.accepted(o.Object) {
		p = reassignLostSlots(o, lost, lostMasters)
	}
	p.Loss = l
	return p
}

// reassignLostSlots assigns slots whose loss was accepted, after the nodes have forgotten the lost masters.
func reassignLostSlots(o *observed, lost redisnode.Slots, lostMasters []*node) *plan {
	var commands []command
	for _, n := range lostMasters {
		for _, m := range o.answering() {
			if !m.isReplicaOf(n.ID) {
				continue
			}
			if master := o.bestMaster(m, o.slotOwners(), o.replicaCounts()); master != nil { // m has no data of n.
				commands = append(commands, command{verb: replicate, on: m, peer: master})
			}
		}
	}
	for _, n := range lostMasters {
		commands = append(commands, o.forgetCommands(n.ID)...)
	}
	if len(commands) > 0 {
		return do(commands, "Forgetting the masters of the slots %s, whose loss was accepted", lost)
	}
	masters := o.membersWhere(func(m *member) bool { return m.answers() && m.View.Master && !o.leaving(m) })
	if len(masters) == 0 {
		return wait(check, "Waiting for a master that can take the slots %s, whose loss was accepted", lost)
	}
	// One master gets all of them: if only some were assigned, the rest would be another loss.
	to := slices.MinFunc(masters, func(a, b *member) int {
		return cmp.Or(
			compareBool(len(a.View.Libraries) == 0, len(b.View.Libraries) == 0), // Functions do not move with slots.
			cmp.Compare(o.slots[a.ID].Len(), o.slots[b.ID].Len()))
	})
	return do([]command{{verb: addSlots, on: to, slots: lost}}, "%s gets the slots %s, whose loss was accepted", to.Name, lost)
}

// AnnotationAcceptDataLoss on a RedisCluster accepts a loss of data: the operator continues with the lost slots
// empty. The value has to be the token in the condition DataLoss. Every loss has another token, so that a user
// accepts only a loss that they have seen.
const AnnotationAcceptDataLoss = v1.GroupName + "/accept-data-loss"

// loss is a set of slots whose masters and replicas are all gone for good.
type loss struct {
	slots redisnode.Slots
	token string // the value of the annotation that accepts the loss
}

// newLoss returns the loss of these slots. Its token depends on when the condition DataLoss became True, or on now if
// it is not True: if the same slots are lost again later, this is another loss.
func newLoss(rdc *v1.RedisCluster, slots redisnode.Slots, now time.Time) *loss {
	if last := meta.FindStatusCondition(rdc.Status.Conditions, v1.ConditionDataLoss); last != nil && last.Status == metav1.ConditionTrue {
		now = last.LastTransitionTime.Time
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", rdc.UID, now.Unix(), slots))
	return &loss{slots: slots, token: hex.EncodeToString(sum[:])[:8]}
}

func (l *loss) accepted(rdc *v1.RedisCluster) bool {
	return rdc.Annotations[AnnotationAcceptDataLoss] == l.token
}

// MarshalJSON returns the message, for records.
func (l *loss) MarshalJSON() ([]byte, error) { return json.Marshal(l.message()) }

func (l *loss) message() string {
	return fmt.Sprintf("The slots %s (%d of %d) have lost what they held: "+
		"the Pods of their master and its replicas are gone, and their volumes. "+
		"Bring those back, or set the annotation %s=%s to go on with these slots empty",
		l.slots, l.slots.Len(), redisnode.SlotCount, AnnotationAcceptDataLoss, l.token)
}
