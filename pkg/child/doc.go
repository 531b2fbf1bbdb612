/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package child keeps the objects that a controller's object owns, by server-side
// apply. For each there is what is wanted, an apply configuration or none, and what
// the cache shows:
//
//	wanted  in the cache       what is done
//	──────  ─────────────────  ───────────────────────────────────────────────────
//	no      no                 nothing; or a look at the live object, if there was
//	                           one: it may have lost the label the cache goes by
//	no      yes                delete it: exactly the version that the cache shows
//	yes     no                 create it; if there is an object of that name, look
//	                           whose it is: apply to it, or a Problem
//	yes     yes, as wanted     nothing
//	yes     yes, but differs   apply, to exactly the version that the cache shows
//	yes     on its way out     a Problem, until it is gone
//	yes     not readable       a Problem
//	yes     somebody else's    a Problem
//
// An object is as wanted if the fields that this operator owns, by the object's
// managedFields, are those that are wanted, with their values. This is exact: what
// the API server defaults, and what others set, is not the operator's; and when
// somebody else changes a field of the operator's, the API server hands the field
// over to them, so that it is missing.
//
// An apply by itself would create or take over whatever has the name. The apply
// that creates carries a resourceVersion that no object has, so it fails if there
// is an object of that name: see neverVersion. The apply that changes carries the
// resourceVersion that the cache shows, so it fails if the object has changed, and
// the UID: without it, an apply creates an object that is gone, whatever the
// resourceVersion.
//
// Whoever keeps changing a field back gets an answer ever more slowly: see repairs.
package child
