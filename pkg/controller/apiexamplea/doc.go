/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package apiexamplea greets whom an ApiExampleA names. It is the smallest
// complete controller of Glassback: read it first, in the order of a sync.
//
//	owns    ConfigMap <name>-greeting
//	reads   ApiExampleA, ConfigMap, from the caches
//	writes  ConfigMap by server-side apply, ApiExampleA status, Event
//
// A sync goes fetch, observe, decide, act, report:
//
//	fetch    controller.go  the ApiExampleA, from the cache
//	observe  observe.go     its ConfigMap, from the cache
//	decide   desired.go     what that ConfigMap should be
//	act      controller.go  make the one into the other
//	report   status.go      say what became of it
//
// What it keeps, whatever fails and whenever it stops:
//
//   - The ConfigMap holds the greeting: if somebody edits or deletes it, its event
//     leads to a sync that repairs it. Keys and labels that others add are left.
//   - A ConfigMap that is not the ApiExampleA's is never touched.
//   - Nothing is written when nothing has changed.
package apiexamplea
