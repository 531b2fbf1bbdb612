/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package ecsinstance makes the virtual machine of an ECSInstance in Alibaba Cloud, keeps it
// as the spec says, and deletes it.
//
//	owns    the ECS instance that has the tag glassback.dev/uid with the UID of the object
//	reads   ECSInstance and the Secrets that it refers to, from the caches; the instance,
//	        from what its fleet has seen of it
//	writes  ECS: create, start, stop, delete, name, type, tags, security groups;
//	        ECSInstance finalizer and status, Event
//
// A sync takes at most one step in the cloud, which package-level lists of policies choose:
// see life and death.
//
//	                     ┌── the answer was lost ──┐
//	                     ▼                         │
//	finalizer ──▶ look for an instance ──▶ write the token ──▶ create ──▶ write the ID
//	              by its tag                 into the status                  │
//	                     ▲                                                    ▼
//	                     └── gone, and recreatePolicy: Always ──────────── look, mend ◀─┐
//	                                                                          └─────────┘
//	deleted ──▶ settle what may have been created ──▶ delete ──▶ look until gone ──▶ no finalizer
//
// What it keeps, whatever fails and whenever it stops:
//
//   - At most one instance. Every call to create one is preceded, in the same sync, by a
//     lookup and by a write of its token into the status; that write fails if anybody wrote
//     since. A token is given up for another one only if every call with it was answered
//     with a no, or if nothing has shown for settleAfter after the last.
//   - None left behind. The finalizer is put on before the first call, and is taken off only
//     when ECS, asked twice, does not have the instance, and has none with the tag. No answer
//     is no reason to think so, and neither is an answer in another account: the account's
//     number is in the status before the first call, and nothing is done with credentials of
//     another one. The number is removed only after ECS has refused every call, or after
//     lookups have found nothing for settleAfter since the last call that may have made one.
//   - Nothing is done to an instance whose tag does not say that it is this object's.
//   - What was seen before a change is not gone by after it.
//
// Three things are remembered only until the operator stops, since they spare calls and time,
// and no promise stands on them: sessions, what fleets have seen, and watched Secrets.
package ecsinstance
