// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child reconciles the objects that a controller's object owns, by server-side apply. For each child there is
// the desired state, an apply configuration or none, and the state that the cache shows:
//
//	desired  in the cache        the operator
//	───────  ──────────────────  ──────────────────────────────────────────────────────
//	no       no                  does nothing; or, if the owner had such a child, looks at
//	                             the live object: it may have lost the label
//	no       yes                 deletes exactly the version that the cache shows
//	yes      no                  creates it; if an object has that name already, looks at its
//	                             owner: applies to it, or reports a Problem
//	yes      yes, as desired     does nothing
//	yes      yes, but differs    applies to exactly the version that the cache shows
//	yes      being deleted       reports a Problem, until it is gone
//	yes      of another owner    reports a Problem
//
// An object is as desired if the fields that this operator owns, by the object's managedFields, are the desired fields, with the desired
// values. This is exact: the operator does not own the fields that the API server defaults, or that other clients set. When another client
// changes a field of the operator, the API server makes that client the owner, and the operator no longer owns the field.
//
// A child that was as desired is not compared again while the cache holds the same version and the desired fields stay the same: see
// checks. The checks may be lost at any time.
//
// A plain apply creates an object that does not exist, and takes over an object that does. The apply of a create carries a
// resourceVersion that no object has, so it fails if an object has that name: see neverVersion. The apply of an update
// carries the resourceVersion that the cache shows, so it fails if the object has changed. It also carries the UID:
// without the UID, an apply creates a deleted object again, whatever the resourceVersion.
//
// If another client keeps changing a field, the operator repairs it at longer and longer intervals: see repairs.
package child
