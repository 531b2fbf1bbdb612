// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ecsinstance creates the virtual machine of an ECSInstance in Alibaba Cloud, keeps it as the spec says, and deletes it.
//
//	owns    the ECS instance whose tag glassback.dev/uid holds the UID of the object
//	reads   ECSInstance and the Secrets that it refers to, from the caches; the instance, from the
//	        snapshots of its fleet
//	writes  ECS: create, start, stop, delete, name, type, tags, security groups;
//	        ECSInstance finalizer and status, Event
//
// A sync takes at most one step in the cloud. The lists policies and deletionPolicies in decide.go choose it.
//
//	                     ┌── the answer was lost ──┐
//	                     ▼                         │
//	finalizer ──▶ look for an instance ──▶ write the token ──▶ create ──▶ write the ID
//	              by its tag                 into the status                  │
//	                     ▲                                                    ▼
//	                     └── gone, and recreatePolicy: Always ────────── poll, change ◀─┐
//	                                                                          └─────────┘
//	deleted ──▶ settle what an attempt created ──▶ poll ──▶ delete ──▶ poll until gone ──▶ no finalizer
//
// The package keeps these promises, whatever fails and whenever the operator stops:
//
//   - At most one instance. In the same sync, a lookup and a write of the token into the status precede every call to create; the write
//     fails if the object changed since it was read. The operator takes another token only if ECS rejected every call with the last token,
//     or if no instance appeared for settleAfter after the last call.
//   - No instance is left behind. The finalizer is added before the first call. It is removed only after polls do not show the instance,
//     for settleAfter unless ECS accepted its deletion, and a lookup by tag finds none. A missing answer proves nothing, and neither does
//     an answer from another account. So the status holds the account number before the first call, and the operator does nothing with
//     credentials of another account. The number is removed only after ECS rejected every call, or after lookups found no instance for
//     settleAfter since the last call that was not rejected.
//   - An instance whose tag does not name this object is not touched. The last poll decides. For a call that deletes or releases the
//     instance, its answer is at most recentPoll old.
//   - The operator ignores a poll from before its last change.
//
// Sessions, snapshots and watched Secrets are lost when the operator stops. They save calls and time; no promise depends on them.
package ecsinstance
