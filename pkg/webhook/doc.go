// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook serves the admission webhooks: they set defaults and validate objects before the API server stores them.
//
//	            ┌──────────────────── API server ────────────────────┐
//	kubectl ──▶ │ schema's defaults ─▶ mutating ─▶ schema ─▶ validating ─▶ etcd
//	            └────────────────────────┼───────────────────┼───────┘
//	                       AdmissionReview (HTTPS)           │
//	                                     ▼                   ▼
//	                          Handler: /mutate-…      /validate-…
//	                                   Default()      Validate(old), Warnings()
//
// The webhooks are a thin layer: Default and Validate are methods of the types in pkg/apis. Controllers call the same methods for every
// object that they read, so nothing depends on the webhooks. A webhook reports at once what a condition would report a moment later. Where
// a schema has all rules, the API server calls no webhook (see descriptor.Webhook):
//
//	kind          default            validate                      without an answer
//	ApiExampleA   -                  -                             -
//	Application   -                  warnings                      allow
//	ECSInstance   -                  warnings                      allow
//	MyCronJob     -                  a schedule that never comes   allow
//	RedisCluster  size, /scale too   addr that is left out         refuse
//
// For all kinds, a webhook refuses to delete an object with the annotation glassback.dev/deletion-protection. No other deletion, no label
// and no finalizer waits for a webhook: match conditions exclude them.
//
// Invariants:
//
//   - A verdict has the HTTP status 200 and the request's UID. No request ends the process: a
//     panic in a review leads to an answer, and is logged.
//   - A patch contains only the changes of Default: fields that this version does not know
//     stay. Where Default changes nothing, there is no patch.
//   - The memory of all requests together is limited (see limits), and an answer quotes only the beginning of a text.
//   - An update is refused for errors that it adds, not for errors that the stored object has.
//   - Outside of a cluster (Owned), the operator registers its webhooks itself, and removes them. In a cluster (Injected), it writes the
//     caBundle of the configurations that a user has applied.
//
// Package certificate provides the certificates.
package webhook
