// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/redisnode"
)

// The policies below decide which Pods and volumes are created, replaced and deleted.

// silencePatience is how long a Pod that cannot run must have been silent before the operator replaces it.
const silencePatience = 10 * time.Second

// missingPods returns the commands that create missing Pods and claims, and delete Pods that have ended. They do not wait for other
// commands. A Pod that the PodDisruptionBudget does not count yet is created later: it would allow one more eviction.
func missingPods(o *observed) []command {
	var deletions []command
	var creations [][]command // by Pod
	for _, m := range o.Members {
		terminating := m.Claim != nil && m.Claim.DeletionTimestamp != nil
		switch {
		case m.Pod != nil:
			if phase := m.Pod.Status.Phase; (phase == corev1.PodFailed || phase == corev1.PodSucceeded) && m.Pod.DeletionTimestamp == nil {
				deletions = append(deletions, command{verb: deletePod, on: m})
			}
		case m.Taken || terminating: // It is created once the name is free.
			continue
		case m.Claim == nil && o.Object.Spec.Storage != nil:
			creations = append(creations, []command{{verb: createClaim, on: m}, {verb: createPod, on: m}})
		default:
			creations = append(creations, []command{{verb: createPod, on: m}})
		}
	}
	if o.whyNoPods() != "" {
		creations = nil
	}
	if o.ActedAt.IsZero() && len(directiveCommands(o)) > 0 { // The nodes may reject a directive, which this process does not know yet.
		creations = nil
	}
	if o.Object.Spec.TLS != nil && o.badCertificate() != nil { // A new node could not start, or not reach the others.
		creations = nil
	}
	counted := creations[:max(0, len(creations)-o.Uncounted)]
	return slices.Concat(deletions, slices.Concat(counted...))
}

// replaceBrokenPods replaces Pods that cannot run and have another revision than the spec: so a corrected spec
// takes effect. A running Pod is not broken, even if it does not answer: it may be loading, or unreachable.
func replaceBrokenPods(o *observed) *plan {
	for _, m := range o.Members {
		if m.answers() || (!m.Outdated && !m.Differs) || m.Pod == nil || m.Pod.DeletionTimestamp != nil ||
			m.SilentFor.Duration < silencePatience || (redisRuns(m.Pod) && !notStarting(m.Pod)) || o.Rejection != "" || o.whyNoPods() != "" {
			continue
		}
		if copied := o.onlyCopy(m); o.Object.Spec.Storage == nil && o.Formed && (copied.Len() > 0 || len(o.slots) == 0) {
			return stuck(reasonHeldBack, "%s does not run, and may have the only copy of the slots %s: the operator does not replace it. "+
				"Delete the Pod to give them up", m.Name, copied)
		}
		return do([]command{{verb: deletePod, on: m}}, "Replacing %s, which cannot run as it is", m.Name)
	}
	return nil
}

// replaceUnsynced replaces an outdated replica that does not get the data of its master, so that a corrected spec takes effect: it may
// have an image that cannot read this data. It is the only member that is not up to date: otherwise the cause may be the network or a
// password, and another Pod would not help.
func replaceUnsynced(o *observed) *plan {
	behind := o.membersWhere(func(m *member) bool { return !m.answers() || !m.View.Master && !m.View.LinkUp })
	if len(behind) != 1 || o.keepsPod(behind[0]) {
		return nil
	}
	m := behind[0]
	unlinked := m.UnlinkedFor.Duration
	if master := o.masterOf(m); master == nil || master.View.Rewriting || !m.Outdated || m.View.Syncing || m.Pod.DeletionTimestamp != nil ||
		unlinked >= 0 && unlinked <= o.patience() || unlinked < 0 && m.UnreadyFor.Duration <= silentTooLong {
		return nil
	}
	return do([]command{evictOrDelete(m)}, "Replacing %s, which does not get the data of its master as it is", m.Name)
}

// onlyCopy returns the slots of which a silent member may have the only copy: its own slots, or those of its master if the master does not
// answer either.
func (o *observed) onlyCopy(m *member) redisnode.Slots {
	n := o.nodes[m.ID]
	if n == nil || n.Master {
		return o.slots[m.ID]
	}
	if master := o.byID[n.MasterID]; master != nil && master.answers() {
		return nil
	}
	return o.slots[n.MasterID]
}

// waitForReplicas waits until every node answers and every replica is up to date: the policies after this one
// delete one Pod, and no other may be missing then.
func waitForReplicas(o *observed) *plan {
	for _, m := range o.Members {
		switch {
		case !m.answers() && o.leaving(m) && o.slots[m.ID].Len() == 0:
		case !m.answers():
			return wait(check, "Waiting for %s: %s", m.Name, m.WhySilent)
		case o.leaving(m):
		case !m.View.StateOK:
			return wait(check, "Waiting for %s, which reports that the cluster cannot be used yet", m.Name)
		case !m.View.Master && !m.View.LinkUp:
			return wait(check, "Waiting for %s to be up to date with its master", m.Name)
		case strings.Contains(m.View.WriteError, "aof_last_write_status"):
			return wait(check, "Waiting for %s, which cannot write to its disk: %s", m.Name, m.View.WriteError)
		}
	}
	return nil
}

// waitForRewrites waits until no node writes all of its data to its disk. A replica that has just copied the
// data has nothing on its disk until then, and does not stop when its Pod is deleted.
func waitForRewrites(o *observed) *plan {
	for _, m := range o.answering() {
		if m.View.Rewriting {
			return wait(check, "Waiting for %s, which is writing all of its data to its disk", m.Name)
		}
	}
	return nil
}

// removePods removes one member that leaves. Replicas come first: they cannot forget their masters.
func removePods(o *observed) *plan {
	leaving := o.membersWhere(func(m *member) bool { return o.leaving(m) && m.Pod != nil })
	if len(leaving) == 0 {
		return nil
	}
	slices.SortStableFunc(leaving, func(a, b *member) int { return compareBool(o.masterOf(a) == nil, o.masterOf(b) == nil) })
	for _, m := range leaving {
		known := o.nodes[m.ID]
		if !m.answers() && m.Pod.DeletionTimestamp == nil && (o.isUnidentified(m) || (known != nil && known.Master && !o.isReplaced(m))) {
			return wait(check, "Waiting for %s, which may have keys: %s", m.Name, m.WhySilent)
		}
	}
	m := leaving[0]
	if m.Pod.DeletionTimestamp != nil {
		return wait(check, "Waiting for %s to be gone", m.Name)
	}
	if o.slots[m.ID].Len() > 0 {
		return wait(check, "Waiting for a master that takes the slots %s from %s", o.slots[m.ID], m.Name)
	}
	if data := o.uniqueData(m); data != "" {
		return stuck(reasonHeldBack, "%s has no slots, but %s: it is not deleted. Delete the Pod to give them up", m.Name, data)
	}
	if p := waitForRewrites(o); p != nil {
		return p
	}
	return do(removeNode(o, m), "Removing %s", m.Name)
}

// isReplaced returns whether a silent master whose claim a user has deleted has nothing that the cluster misses: masters that answer have
// all slots, and none of them moves slots to it or from it.
func (o *observed) isReplaced(m *member) bool {
	return m.losesVolume() && o.unassigned().Len() == 0 && !slices.ContainsFunc(o.slotOwners(), func(owner *member) bool {
		return !owner.answers() || owner.movesWith(m.ID)
	})
}

// movesWith returns whether the member marks a slot as moving to the node with this ID, or from it.
func (m *member) movesWith(id string) bool {
	own := m.self()
	return slices.Contains(slices.Collect(maps.Values(own.Migrating)), id) || slices.Contains(slices.Collect(maps.Values(own.Importing)), id)
}

// removeNode returns the commands that remove a member for good. The claim is deleted before the Pod: Kubernetes keeps the claim until the
// Pod is gone, so the claim shows until then that the member leaves.
func removeNode(o *observed, m *member) []command {
	return slices.Concat(o.forgetCommands(m.ID), deleteClaimOf(m), []command{{verb: deletePod, on: m}})
}

// replaceNode returns the commands that replace a member by a new node. The eviction comes first: while the PodDisruptionBudget refuses
// it, the member stays unchanged. If the commands after the eviction fail, the same node comes back and is replaced then.
func replaceNode(o *observed, m *member) []command {
	return slices.Concat([]command{evictOrDelete(m)}, deleteClaimOf(m), o.forgetCommands(m.ID))
}

// deleteClaimOf returns the command that deletes the member's claim, if it has one.
func deleteClaimOf(m *member) []command {
	if m.Claim == nil {
		return nil
	}
	return []command{{verb: deleteClaim, on: m}}
}

// evictOrDelete returns the command that removes the Pod of a member that answers.
//
// A ready Pod is evicted: a drain may have just evicted another Pod, such as its master, and then the
// PodDisruptionBudget refuses. A Pod that is not ready is deleted: the budget already counts it as disrupted, and
// would refuse the eviction once two Pods are not ready, so that no roll could replace them.
func evictOrDelete(m *member) command {
	if isReady(m.Pod) {
		return command{verb: evictPod, on: m}
	}
	return command{verb: deletePod, on: m}
}

// replacesPod returns whether commands delete a Pod that will be created again.
func (o *observed) replacesPod(commands []command) bool {
	return slices.ContainsFunc(commands, func(c command) bool {
		return (c.verb == evictPod || c.verb == deletePod) && c.on.Ordinal < int(*o.Object.Spec.Size)
	})
}

// rollPods replaces one outdated Pod: replicas first, then masters, each after one of its replicas has taken over. A Pod that has been
// unready for more than silentTooLong comes before all others: until it is ready or gone, the PodDisruptionBudget allows no eviction of
// the others.
func rollPods(o *observed) *plan {
	outdated := o.membersWhere(func(m *member) bool { return m.Outdated && m.Pod != nil && m.Pod.DeletionTimestamp == nil })
	if len(outdated) == 0 || o.whyNoPods() != "" {
		return nil // See waitForAccount.
	}
	if o.Rejection != "" {
		return wait(check, "Waiting for another spec: %s", o.Rejection)
	}
	if o.Object.Spec.TLS != nil && o.badCertificate() != nil {
		return wait(check, "Waiting for a valid certificate, which a new Pod needs: %s", o.badCertificate().Message)
	}
	if pending := directiveCommands(o); len(pending) > 0 {
		return wait(brief, "%s", settingStep("directives", pending)) // A wrong value would be in the redis.conf of a new Pod.
	}
	if o.MissingUser != "" {
		return wait(check, "Waiting for the Redis users, which a new Pod would not have: %s", o.MissingUser)
	}
	if p := waitForRewrites(o); p != nil {
		return p
	}
	slices.SortStableFunc(outdated, func(a, b *member) int {
		return cmp.Or(
			compareBool(a.UnreadyFor.Duration <= silentTooLong, b.UnreadyFor.Duration <= silentTooLong),
			compareBool(o.slots[a.ID].Len() > 0, o.slots[b.ID].Len() > 0))
	})
	m := outdated[0]
	if o.slots[m.ID].Len() == 0 {
		if data := o.uniqueData(m); data != "" && o.Object.Spec.Storage == nil {
			return stuck(reasonHeldBack, "%s is to be replaced, but has no slots, %s, and no volume. Delete the Pod to give them up", m.Name, data)
		}
		return do([]command{evictOrDelete(m)}, "Replacing %s: %d Pods are not up to date", m.Name, len(outdated))
	}
	successor := o.successor(m, func(*member) bool { return true })
	switch {
	case successor == nil && o.Object.Spec.Storage == nil:
		return stuck(reasonHeldBack, "%s is to be replaced, but has the only copy of the slots %s, and no volume: give it a replica",
			m.Name, o.slots[m.ID])
	case successor == nil:
		return do([]command{evictOrDelete(m)}, "Replacing %s, which has no replica: %d Pods are not up to date", m.Name, len(outdated))
	case successor.PromotedFor.Duration > 0:
		return wait(brief, "Waiting for %s to take over from %s", successor.Name, m.Name)
	}
	return do([]command{{verb: failover, on: successor, how: redisnode.Graceful}},
		"%s takes over from %s, which is to be replaced", successor.Name, m.Name)
}

// waitForReadiness lets an operation end only when the Pods are ready. Earlier steps ignore readiness: the reports of the nodes are newer.
func waitForReadiness(o *observed) *plan {
	if o.Object.Status.Operation == nil && o.Formed {
		return nil
	}
	for _, m := range o.Members {
		if m.Pod == nil || !isRedisReady(m.Pod) {
			return wait(check, "Waiting for the Pod %s to be ready", m.Name)
		}
	}
	return nil
}

// growthCommands returns the commands that request larger volumes, whatever state the nodes are in: one with a full disk may not run. The
// API server accepts this only for a claim that has a volume, and not for every storage class. After a refusal, the operator waits.
func growthCommands(o *observed) []command {
	if o.GrowthRefused != nil && o.Now.Sub(o.GrowthRefusedAt) < secretEvery {
		return nil
	}
	return toGrow(o)
}

// toGrow returns the commands for all claims that are to grow.
func toGrow(o *observed) []command {
	if o.Object.Spec.Storage == nil {
		return nil
	}
	var commands []command
	for _, m := range o.Members {
		if m.Claim == nil || m.Claim.DeletionTimestamp != nil || m.Claim.Spec.VolumeName == "" {
			continue
		}
		requested := m.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if desired := o.Object.Spec.Storage.Size; desired.Cmp(requested) > 0 {
			commands = append(commands, command{verb: growClaim, on: m})
		}
	}
	return commands
}

// isReady returns whether the Pod has the condition Ready: all of its containers are ready. The PodDisruptionBudget counts such Pods.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// isRedisReady returns whether the container redis is ready. The other containers come from spec.podTemplate.
func isRedisReady(pod *corev1.Pod) bool {
	redis := redisStatus(pod)
	return isReady(pod) || (redis != nil && redis.Ready)
}

// redisRuns returns whether the container redis runs. The phase of the Pod is Pending until all of its containers have started once.
func redisRuns(pod *corev1.Pod) bool {
	redis := redisStatus(pod)
	return pod.Status.Phase == corev1.PodRunning || (redis != nil && redis.State.Running != nil)
}

// redisStatus returns the status of the container redis, or nil.
func redisStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == manifest.ContainerName {
			return s
		}
	}
	return nil
}

// startingContainers returns the statuses of the init containers and of the container redis; nil once the container redis runs.
func startingContainers(pod *corev1.Pod) []corev1.ContainerStatus {
	redis := redisStatus(pod)
	switch {
	case redis == nil:
		return pod.Status.InitContainerStatuses
	case redis.State.Running != nil:
		return nil
	}
	return append(slices.Clone(pod.Status.InitContainerStatuses), *redis)
}

// notStarting returns whether the container redis cannot start without help.
func notStarting(pod *corev1.Pod) bool {
	for _, s := range startingContainers(pod) {
		if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return true
		}
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
