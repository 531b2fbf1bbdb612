/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package certificate provides the serving certificate of the webhooks: from Files that
// another program renews, or from a Keeper, which renews it by itself.
//
// A Keeper is a controller like the others: event handlers, a workqueue with one key, a sync
// that observes the present state. Every replica of the operator has one.
//
//	Secret: CAs and keys ───▶ Keeper ───▶ leaf, signed by the CA, in memory ───▶ TLS handshake
//	      ▲                    │  │
//	      └── made, staged, ───┘  └────▶ caBundle of the webhook configurations ───▶ API servers
//	          promoted, dropped
//
// A CA is valid for a year. Its key is in a Secret, so that all replicas sign with the same CA.
// A leaf is valid for a week. Its key is only in the memory of one replica.
//
// Each API server reads a new caBundle a moment after the write. So a CA signs serving
// certificates only after every caBundle has had it for a while. It stays trusted until all of its
// leaves have expired (see decide):
//
//	stage    Secret: current, next               caBundle: current, next
//	promote  Secret: current (was next)          caBundle: current, and the one before
//	drop     Secret: current                     caBundle: current
//
// Invariants, which a simulation with late caches, restarts and meddling checks:
//
//   - No call fails because of a certificate while CAs rotate.
//   - A Secret that was deleted, or edited, or has expired is repaired. The CA whose leaves
//     are served then is still in the caBundles, and stays there. A write that fails
//     keeps no replica from serving.
//   - Replicas that start at once agree on one CA: the API server lets one create the Secret.
//   - A replica with a stale cache of the Secret writes no caBundle.
//   - When nothing changes, nothing is written.
//   - No key is in a log, in an event or in an error. For what client-go logs, the process has
//     to limit its verbosity: see maxVerbosity in pkg/app.
//
// Certificates are valid or not by the API server's clock, which judges them.
package certificate
