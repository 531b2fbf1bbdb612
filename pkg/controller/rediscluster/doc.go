/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package rediscluster makes a RedisCluster a Redis Cluster, and keeps it one.
//
//	owns    Pods, a Service, a PodDisruptionBudget, a ConfigMap for each revision of
//	        the Pods, and PersistentVolumeClaims, which outlive the RedisCluster
//	reads   RedisCluster and these, from the caches; the Secret with the password, once,
//	        and again while it may have changed;
//	        of every redis-server, what it knows
//	writes  Pods and claims, one by one; the others by server-side apply; commands to
//	        redis-servers; RedisCluster status, Event
//
// A sync looks at everything, and takes one step:
//
//	 observe            decide                          report        act
//	┌───────────────┐  ┌────────────────────────────┐  ┌──────────┐  ┌───────────────────┐
//	│ Pods, claims  │  │ policies, in their order:  │  │ what was │  │ commands, in      │
//	│ + the view of │─▶│ the first that has anything│─▶│ seen, and│─▶│ their order, until│
//	│ every node    │  │ to do, or to wait for      │  │ the step │  │ one fails         │
//	└───────────────┘  └────────────────────────────┘  └──────────┘  └───────────────────┘
//
// Nothing is remembered that could not be lost: an operation that was interrupted, by
// whatever, goes on by what is seen. What nodes tell is compared first: of two that own a
// slot, the one with the later epoch does, as among the nodes themselves.
//
// What it keeps, whatever fails and whenever it stops:
//
//   - Data is never destroyed to repair a state. No node is reset, emptied or fixed. Slots
//     whose masters and replicas are all gone are reported (condition DataLoss), and given
//     out again, empty, only once an annotation says that this very loss is accepted.
//   - Two clusters are never merged. Nodes are introduced to each other by address, and
//     addresses pass on: both ends are looked at at the source right before, and no node is
//     introduced that knows one which is none of this cluster's Pods.
//   - A Pod that runs is deleted when nothing depends on it: it has no slots, or a volume and
//     no replica that could take over (and, if it is to go for good, neither slots nor keys,
//     nor the only copy of a library of functions), every other Pod that stays answers, and
//     every replica is up to date. This holds for each policy that removes a Pod, a claim or a
//     node: balance, remove and roll. A Pod that does not run is deleted (broken, children)
//     if its data is on a volume, or gone, or its master answers.
//   - A volume may have the data of any missing node while nobody knows which node it is,
//     whether its Pod exists or not: no other node takes over, nothing is forgotten, and the
//     claim is not deleted.
//   - A replica takes over by force only if no other can have much more of the data: every
//     replica answers, or it had the link to its master until patience (20 s, or more) before
//     that was lost. The latter counts only while it reaches most masters: others may have
//     elected a replica that does not answer. If the operator did not see the master being
//     lost, and the replicas do not tell which has more, a person decides.
//   - Functions are written only to a new master, before its first slot, and only while all
//     masters have the same. A library that a user deletes does not come back.
//   - At most one Pod can be evicted at a time, and only while all are ready. A Pod that is
//     ready is replaced by an eviction, so that no drain takes its master meanwhile.
//   - Slots are given out once. A slot on the move has marks on both nodes, and whoever
//     finds them ends the move.
//   - A settled cluster is asked every ten seconds, one request for each node, and nothing
//     is written.
package rediscluster
