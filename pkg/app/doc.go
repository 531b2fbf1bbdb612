// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the operator, and the only package that puts its parts together:
//
//	options → probes → clients → API server answers → CRDs there (or applied)
//	        → permissions there → informers, webhooks, metrics → caches synced
//	        → the Lease, if one leader is elected → controllers
//
// If the start cannot continue, it ends with one line that says what to do. If a server goes away later, nothing ends: watches
// and syncs retry until it is back. The end is the reverse of the start: controllers drain, the operator releases the Lease to
// the next one, the webhooks linger, and the probes answer to the last.
package app
