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
//     no replica that could take over (and, if it is to go for good, neither slots nor keys),
//     every other Pod that stays answers, and every replica is up to date.
//   - At most one Pod can be evicted at a time, and only while all are ready. A Pod that is
//     ready is replaced by an eviction, so that no drain takes its master meanwhile.
//   - Slots are given out once. A slot on the move has marks on both nodes, and whoever
//     finds them ends the move.
//   - A settled cluster is asked every ten seconds, one request for each node, and nothing
//     is written.
package rediscluster
