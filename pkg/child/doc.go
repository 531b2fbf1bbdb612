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
//	no      no                 nothing
//	no      yes                delete it: exactly the version that the cache shows
//	yes     no                 create it; fails if there is an object of that name
//	yes     yes, as wanted     nothing
//	yes     yes, but differs   apply, to exactly the version that the cache shows
//	any     on its way out     nothing: when it is gone, the next sync goes on
//	any     somebody else's    nothing: a Problem
//
// An object is as wanted if the fields that this operator owns, by the object's
// managedFields, are those that are wanted, with their values. This is exact: what
// the API server defaults, and what others set, is not the operator's; and when
// somebody else changes a field of the operator's, the API server hands the field
// over to them, so that it is missing.
//
// An apply by itself would create or take over whatever has the name. Here each
// carries a resourceVersion, and so does neither: see neverVersion.
package child
