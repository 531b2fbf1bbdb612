// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook answers the API server before it stores an object: it sets defaults, and validates the object.
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
// object that they read, so that nothing depends on the webhooks: they report at once what a condition would report a moment later. Where a
// schema has all rules, the API server calls no webhook (see kinds):
//
//	kind          default            validate                      without an answer
//	ApiExampleA   -                  -                             -
//	Application   -                  warnings                      allow
//	ECSInstance   -                  warnings                      allow
//	MyCronJob     -                  a schedule that never comes   allow
//	RedisCluster  size, /scale too   addr that is left out         refuse
//
// Deleting an object with the annotation glassback.dev/deletion-protection is refused, for all kinds. No other deletion, no label and no
// finalizer waits for a webhook: match conditions see to that.
//
// Invariants:
//
//   - A verdict has the HTTP status 200 and the request's UID. No request ends the process: a
//     panic in a review leads to an answer, and is logged.
//   - A patch contains only the changes of Default: fields that this version does not know
//     stay. Where Default changes nothing, there is no patch.
//   - All requests together take no more memory than limits gives them. A text takes no more
//     bytes than its JSON, and an answer quotes no more than the beginning of it.
//   - An update is refused for errors that it adds, not for errors from before.
//   - Out of a cluster (Owned), the operator registers its webhooks itself, and removes them.
//     In a cluster (Injected), it writes the caBundle of the configurations that a user has applied.
//
// Package certificate provides the certificates.
package webhook
