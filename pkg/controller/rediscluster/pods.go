/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/redisnode"
)

// children are what is to be made of Pods and their volumes. A Pod that cannot be made
// holds up nothing else. Pods that the PodDisruptionBudget does not count yet wait until
// it does: each of them would allow one more eviction.
func children(o *observed) []command {
	var commands []command
	var made [][]command // by Pod
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
			made = append(made, []command{{verb: createClaim, on: m}, {verb: createPod, on: m}})
		default:
			made = append(made, []command{{verb: createPod, on: m}})
		}
	}
	return slices.Concat(commands, slices.Concat(made[:max(0, len(made)-o.uncounted)]...))
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

// broken replaces Pods that cannot run as they are, and are not as the spec says now: that
// is how a spec with which Pods cannot start is mended. A Pod that runs is none of these,
// whether it answers or not: it may be loading, or out of reach.
func broken(o *observed) *plan {
	for _, m := range o.members {
		if m.answers() || !m.outdated || m.pod == nil || m.pod.DeletionTimestamp != nil || m.silent < silencePatience ||
			(m.pod.Status.Phase == corev1.PodRunning && !notStarting(m.pod)) {
			continue
		}
		if copied := o.onlyCopy(m); o.rdc.Spec.Storage == nil && o.formed && (copied.Len() > 0 || len(o.slots) == 0) {
			return stuck(reasonHeldBack, "%s does not run, and may have the only copy of the slots %s: it is not replaced by what the spec says now. "+
				"Delete the Pod to give them up", m.name, copied)
		}
		return do([]command{{verb: deletePod, on: m}}, "Replacing %s, which cannot run as it is", m.name)
	}
	return nil
}

// onlyCopy are the slots of which a silent member may have the only copy: its own, or those
// of its master, if that does not answer either.
func (o *observed) onlyCopy(m *member) redisnode.Slots {
	n := o.nodes[m.id]
	if n == nil || n.Master {
		return o.slots[m.id]
	}
	if master := o.byID[n.MasterID]; master != nil && master.answers() {
		return nil
	}
	return o.slots[n.MasterID]
}

// vacate has a member forgotten, and deletes all that it has. The volume comes first: it
// stays until the Pod has gone, and says until then that this is to be so.
func vacate(o *observed, m *member) []command {
	return slices.Concat(o.forgetting(m.id), deleteClaimOf(m), []command{{verb: deletePod, on: m}})
}

// renew replaces a member that serves by a new node. Its Pod comes first: as long as the
// PodDisruptionBudget does not allow that, the member stays what it is. If only the Pod
// goes, it comes back as the same node, and is renewed then.
func renew(o *observed, m *member) []command {
	return slices.Concat([]command{evictOrDelete(m)}, deleteClaimOf(m), o.forgetting(m.id))
}

// deleteClaimOf deletes the member's volume, if it has one.
func deleteClaimOf(m *member) []command {
	if m.claim == nil {
		return nil
	}
	return []command{{verb: deleteClaim, on: m}}
}

// evictOrDelete is the command that takes away a Pod that answers.
//
// A ready Pod is evicted: a drain may have just evicted another Pod, such as its master,
// and then the PodDisruptionBudget does not allow it. A Pod that is not ready is deleted:
// the budget counts it as disrupted already, and would refuse the eviction as soon as
// there are two of them, so that no roll could replace them.
func evictOrDelete(m *member) command {
	if isReady(m.pod) {
		return command{verb: evictPod, on: m}
	}
	return command{verb: deletePod, on: m}
}

// isReady returns whether the Pod's probe says that it is ready.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// whole waits until nothing is missing: who is deleted next must be the only one.
func whole(o *observed) *plan {
	for _, m := range o.members {
		switch {
		case !m.answers() && o.leaving(m) && o.slots[m.id].Len() == 0:
		case !m.answers():
			return wait(check, "Waiting for %s: %s", m.name, m.whySilent)
		case o.leaving(m):
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
	leaving := o.those(func(m *member) bool { return o.leaving(m) && m.pod != nil })
	if len(leaving) == 0 {
		return nil
	}
	slices.SortStableFunc(leaving, func(a, b *member) int { return compareBool(o.masterOf(a) == nil, o.masterOf(b) == nil) })
	for _, m := range leaving {
		known := o.nodes[m.id]
		if !m.answers() && m.pod.DeletionTimestamp == nil && (o.isNameless(m) || (known != nil && known.Master)) {
			return wait(check, "Waiting for %s, which may have keys: %s", m.name, m.whySilent)
		}
	}
	m := leaving[0]
	if m.pod.DeletionTimestamp != nil {
		return wait(check, "Waiting for %s to be gone", m.name)
	}
	if o.slots[m.id].Len() > 0 {
		return wait(check, "Waiting for a master that takes the slots %s from %s", o.slots[m.id], m.name)
	}
	if has := o.onlyHere(m); has != "" {
		return stuck(reasonHeldBack, "%s has no slots, but %s: it is not deleted. Delete the Pod to give them up", m.name, has)
	}
	if p := unsaved(o); p != nil {
		return p
	}
	return do(vacate(o, m), "Removing %s", m.name)
}

// roll replaces one Pod that is not what the spec makes of it now: first replicas, then
// masters, each after one of its replicas has taken over. A Pod that has not been ready
// for long comes before all others: the PodDisruptionBudget allows no eviction of those
// until it is ready or gone.
func roll(o *observed) *plan {
	outdated := o.those(func(m *member) bool { return m.outdated && m.pod != nil && m.pod.DeletionTimestamp == nil })
	if len(outdated) == 0 {
		return nil
	}
	if p := unsaved(o); p != nil {
		return p
	}
	slices.SortStableFunc(outdated, func(a, b *member) int {
		return cmp.Or(compareBool(a.unready <= silentTooLong, b.unready <= silentTooLong), compareBool(o.slots[a.id].Len() > 0, o.slots[b.id].Len() > 0))
	})
	m := outdated[0]
	if o.slots[m.id].Len() == 0 {
		if has := o.onlyHere(m); has != "" && o.rdc.Spec.Storage == nil {
			return stuck(reasonHeldBack, "%s is to be replaced, but has no slots, %s, and no volume. Delete the Pod to give them up", m.name, has)
		}
		return do([]command{evictOrDelete(m)}, "Replacing %s: %d Pods are not up to date", m.name, len(outdated))
	}
	heir := o.heir(m, func(*member) bool { return true })
	switch {
	case heir == nil && o.rdc.Spec.Storage == nil:
		return stuck(reasonHeldBack, "%s is to be replaced, but has the only copy of the slots %s, and no volume: give it a replica", m.name, o.slots[m.id])
	case heir == nil:
		return do([]command{evictOrDelete(m)}, "Replacing %s, which has no replica: %d Pods are not up to date", m.name, len(outdated))
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
		if m.pod == nil || !isReady(m.pod) {
			return wait(check, "Waiting for the Pod %s to be ready", m.name)
		}
	}
	return nil
}
