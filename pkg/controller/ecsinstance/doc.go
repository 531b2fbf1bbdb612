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
//	deleted ──▶ settle what an attempt created ──▶ delete ──▶ poll until gone ──▶ no finalizer
//
// The package keeps these promises, whatever fails and whenever the operator stops:
//
//   - At most one instance. In the same sync, a lookup and a write of the token into the status
//     precede every call to create; the write fails if the object changed since it was read. Another
//     token is used only if ECS rejected every call with the last one, or if nothing has shown for
//     settleAfter after the last call.
//   - No instance is left behind. The finalizer is added before the first call. It is removed only
//     when ECS, asked twice, does not show the instance, and shows none with the tag. A missing
//     answer proves nothing, and neither does an answer in another account: the number of the account
//     is in the status before the first call, and with credentials of another account nothing is
//     done. The number is removed only after ECS rejected every call, or after lookups found nothing
//     for settleAfter since the last call that may have created an instance.
//   - An instance whose tag does not name this object is not touched.
//   - A poll from before a change decides nothing.
//
// Sessions, snapshots and watched Secrets are lost when the operator stops. They save calls and time; no promise depends on them.
package ecsinstance
