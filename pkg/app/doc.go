// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the operator, and the only package that puts its parts together:
//
//	options → probes → clients → API server answers → CRDs there (or applied)
//	        → permissions there → informers, webhooks, metrics → caches synced
//	        → the Lease, if one leader is elected → controllers
//
// If the start cannot continue, the process ends with one line that says what to do. If the API server fails later, the process
// continues: watches and syncs retry until the server answers again. The stop is the reverse of the start: controllers drain,
// the operator releases the Lease, the webhooks linger, and the probes answer until the end.
package app
