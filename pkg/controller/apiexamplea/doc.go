// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiexamplea writes a greeting for each ApiExampleA into a ConfigMap. It is the smallest complete controller of
// Glassback. Read it first, in the order of a sync:
//
//	fetch    controller.go  the ApiExampleA, from the cache
//	observe  observe.go     its ConfigMap, from the cache
//	decide   decide.go      the plan: the desired ConfigMap, built in desired.go
//	act      act.go         writes the ConfigMap, if it differs
//	report   status.go      the status, which report.Writer writes, if it differs
//
// The controller
//
//	owns    ConfigMap <name>-greeting
//	reads   ApiExampleA, ConfigMap, from the caches
//	writes  ConfigMap by server-side apply, ApiExampleA status, Event
//
// Its promises hold after every failure and every crash:
//
//   - The ConfigMap holds the greeting. If another client edits or deletes it, the event leads to a sync that repairs it.
//     It leaves keys and labels of other clients alone.
//   - A ConfigMap that the ApiExampleA does not control is never changed.
//   - A sync that finds nothing to change writes nothing.
package apiexamplea
