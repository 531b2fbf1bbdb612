/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package certificate provides the serving certificate of the webhooks: from Files that
// another program renews, or from a Keeper, which renews it by itself.
//
// A Keeper is a controller like the others: event handlers, a workqueue with one key, a sync
// that looks at how things are. Every replica of the operator has one.
//
//	Secret: CAs and keys ───▶ Keeper ───▶ leaf, signed by the CA, in memory ───▶ TLS handshake
//	      ▲                    │  │
//	      └── made, staged, ───┘  └────▶ caBundle of the webhook configurations ───▶ API servers
//	          promoted, dropped
//
// The CA lives a year and its key is in a Secret, so that all replicas sign with the same
// one. A leaf lives a week, and its key is nowhere but in the memory of one replica.
//
// API servers learn of a CA a moment after it was written, each at its own time. So a CA
// signs what is served only after every caBundle has had it for a while, and is trusted until
// all that it has signed has expired (see decide):
//
//	stage    Secret: current, next               caBundle: current, next
//	promote  Secret: current (was next)          caBundle: current, and the one before
//	drop     Secret: current                     caBundle: current
//
// Invariants, which a simulation with late caches, restarts and meddling checks:
//
//   - No call fails for a certificate while CAs follow one another.
//   - A Secret that was deleted, or edited, or has expired is repaired. The CA whose leaves
//     are served then is still in the caBundles, and stays there. A write that fails
//     keeps no replica from serving.
//   - Replicas that start at once agree on one CA: the API server lets one create the Secret.
//   - A replica whose cache of the Secret is behind writes no caBundle.
//   - When nothing changes, nothing is written.
//   - No key is in a log, in an event or in an error. For what client-go logs, the process has
//     to limit its verbosity: see maxVerbosity in pkg/app.
//
// Certificates are valid or not by the API server's clock, which judges them.
package certificate
