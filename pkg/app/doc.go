/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package app wires the operator together, and is the only place that does:
//
//	options → probes → clients → API server answers → CRDs there (or applied)
//	        → permissions there → informers, webhooks, metrics → caches synced
//	        → the Lease, if one leader is elected → controllers
//
// What cannot go on ends in one line that says what to do. What a server does
// later, going away and coming back, ends nothing: watches and syncs go on
// trying. At the end it goes backwards: controllers drain, the Lease is released
// to the next operator, the webhooks linger, and the probes answer to the last.
//
// The command check asks the same of a cluster, and more, and changes nothing.
package app
