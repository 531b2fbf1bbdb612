// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificate provides the serving certificate of the webhooks: from Files that
// another program renews, or from a Keeper, which renews it by itself.
//
// A Keeper is a controller like the others: event handlers, a workqueue with one key, a sync
// that observes the present state. Every replica of the operator has one.
//
//	Secret: CAs and keys ───▶ Keeper ───▶ leaf, signed by the CA, in memory ───▶ TLS handshake
//	      ▲                    │  │
//	      └── made, staged, ───┘  └────▶ caBundle of the webhook configurations ───▶ API servers
//	          promoted, dropped                          and the ConfigMap ───▶ clients of the metrics
//
// A CA is valid for a year. Its key is in a Secret, so that all replicas sign with the same CA.
// A leaf is valid for a week. Its key is only in the memory of one replica.
//
// Each API server reads a new caBundle a moment after the write. So a CA signs serving certificates only after every caBundle has had it
// for a while. It stays trusted until all of its leaves have expired (see decide):
//
//	stage    Secret: current, next               caBundle: current, next
//	promote  Secret: current (was next)          caBundle: current, and the one before
//	drop     Secret: current                     caBundle: current
//
// A simulation with stale caches, restarts and other writers checks these invariants:
//
//   - No call fails because of a certificate while CAs rotate.
//   - A Keeper repairs a Secret that was deleted or edited, or whose CA has expired. Meanwhile, the CA of the served leaves stays in the
//     caBundles. Replicas continue to serve if a write fails.
//   - Replicas that start at the same time agree on one CA: the API server lets only one create the Secret.
//   - A replica with a stale cache of the Secret writes no caBundle.
//   - When nothing changes, nothing is written.
//   - No key is in a log, in an event or in an error. client-go logs the bodies of requests
//     at a high verbosity, so the process must limit it: see options.MaxVerbosity.
//
// The clock of the API server decides whether a certificate is valid.
package certificate
