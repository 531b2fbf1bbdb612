// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rediscluster creates a Redis Cluster for each RedisCluster, and keeps it healthy.
//
//	owns    Pods, a Service, with spec.access one for clients and one for each Pod, a PodDisruptionBudget, a NetworkPolicy, a
//	        ConfigMap for each revision of the Pods, with spec.users a Secret, with spec.backup or spec.restoreFrom Jobs, and
//	        PersistentVolumeClaims, which outlive the RedisCluster
//	reads   RedisClusters and their children, from the caches; the Secret with the password, once, and
//	        again while it may have changed; the Secrets of spec.users and spec.tls, every 30 s; the state of every redis-server;
//	        the Pods of a Job that has ended, once
//	writes  Pods (directives, TLS and addresses, in annotations and a label), claims and Jobs, one by one; the other children by
//	        server-side apply; commands to redis-servers; RedisCluster status, Event
//
// A sync observes everything and takes one step:
//
//	 observe           decide                       report          act
//	┌───────────────┐ ┌──────────────────────────┐ ┌─────────────┐ ┌────────────────────┐
//	│ Pods, claims  │ │ policies, in order:      │ │ the observed│ │ commands, in order,│
//	│ + the view of │▶│ the first one that has   │▶│ state, and  │▶│ until one fails    │
//	│ every node    │ │ to act or to wait decides│ │ the step    │ │                    │
//	└───────────────┘ └──────────────────────────┘ └─────────────┘ └────────────────────┘
//
// The controller may lose all that it remembers: an interrupted operation continues from what is observed. Nodes may contradict each
// other: if two claim a slot, the one with the higher config epoch owns it, as in Redis itself.
//
// The controller guarantees the following, whatever fails and whenever it stops:
//
//   - It never destroys data to repair a state. It resets, flushes or fixes no node. It reports slots whose masters
//     and replicas are all gone (condition DataLoss). It assigns them again, empty, only after an annotation has
//     accepted exactly this loss.
//   - It never merges two clusters. Nodes are introduced to each other by address, and an address may have passed on to another cluster's
//     node. So the controller reads both nodes again right before it introduces them. It introduces no node that knows a node without a
//     Pod of this cluster.
//   - It deletes a running Pod only when nothing depends on it. Then the node has no slots, or it has a volume and no
//     replica that could take over. If it is removed for good, it has neither slots nor keys, nor the only copy of a
//     function library. Every other Pod that stays answers, and every replica is up to date. This holds for each
//     policy that removes a Pod, a claim or a node: balanceSlots, removePods and rollPods. A Pod that does not run is
//     deleted (replaceBrokenPods, missingPods) if its data is on a volume or gone, or if its master answers.
//   - While the node of a volume is unknown, the volume may have the data of any missing node, whether its Pod exists or not. Meanwhile no
//     other node takes over, no node is forgotten, and the claim is not deleted.
//   - A replica takes over by force only if no other replica can have much more data: either every replica answers, or the replica was
//     linked to its master until at most patience (20 s or more) before the loss. The link counts only while the replica reaches most
//     masters: otherwise they may have elected a replica that does not answer. If the operator did not see the loss, and the replicas do
//     not show which one has more data, a user decides.
//   - It writes functions only to a new master, before its first slot, and only while all masters have the same functions. After a copy it
//     deletes from the new master each library that no master has any more: a library that a user deletes meanwhile does not come back. If
//     the operator stops during a copy, or a master does not answer, the new master may keep such a library. Then the masters differ, and
//     the condition Degraded has the reason FunctionsDiffer.
//   - At most one Pod can be evicted at a time, and only while all Pods are ready. The controller replaces a ready Pod
//     by an eviction, so that no drain evicts its master meanwhile.
//   - It replaces no Pod for a directive that Redis can set while it runs, or for a value that Redis rejects. An annotation of the Pod
//     records each directive before the operator sets it.
//   - With spec.users, the Secret of the operator's user exists before anything depends on it, and is never changed. All nodes
//     have that user before the first Pod is replaced, and the user default is closed after the last one. A node gets no slots
//     before it has its users. An old password stays valid until all nodes have had the new one for some time.
//   - With spec.tls, all nodes switch replication and the cluster bus at once, after all have a certificate. An annotation of each Pod
//     records the goal before the switch. No replica is elected until all nodes reach each other again. No Pod is replaced for a
//     certificate that its node could not use.
//   - Each time of spec.backup.schedule gets at most one backup; of several missed times, only the last gets one. Each value of
//     AnnotationBackupNow that the operator sees while no backup runs gets one. The status has the ID of a backup before its Job exists. A
//     backup begins only while no slot moves, no other backup runs, and no restore is pending.
//   - With spec.access.external, a node announces the address of its Service only after the operator has reached that node there.
//     One node changes at a time, while all nodes reach each other. If the others do not reach it at the new address, it returns to
//     the IP of its Pod. No Service is deleted while a node knows its address.
//   - Its NetworkPolicy has no rule without peers except the user's own rules: such a rule would admit everyone.
//   - It assigns a slot once. A slot that is being moved has marks on both nodes, by which a later sync finishes the
//     move. While a large key keeps both nodes from answering, all nodes have a longer cluster-node-timeout, so that no replica is elected.
//   - It asks a settled cluster every ten seconds, with one request for each node (two with spec.users), and writes nothing.
package rediscluster
