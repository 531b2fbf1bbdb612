/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package app wires the operator together, and is the only place that does:
//
//	options → clients → API server answers → CRDs there (or applied)
//	        → permissions there → informers → caches synced → controllers
//
// What cannot go on ends in one line that says what to do. What a server does
// later, going away and coming back, ends nothing: watches and syncs go on
// trying.
package app
