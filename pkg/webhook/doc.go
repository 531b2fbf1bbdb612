/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package webhook answers the API server before it stores an object: what the object is by
// default, and whether it is valid.
//
//	            ┌──────────────────── API server ────────────────────┐
//	kubectl ──▶ │ schema's defaults ─▶ mutating ─▶ schema ─▶ validating ─▶ etcd
//	            └────────────────────────┼───────────────────┼───────┘
//	                       AdmissionReview (HTTPS)           │
//	                                     ▼                   ▼
//	                          Handler: /mutate-…      /validate-…
//	                                   Default()      Validate(old), Warnings()
//
// The webhooks are a thin layer: Default and Validate are methods of the types in pkg/apis.
// Controllers call the same methods for every object that they read, so that nothing depends
// on the webhooks: they say at once what a condition would say a moment later. And where a
// schema says all there is to say, the API server is not made to ask (see kinds):
//
//	kind          default            validate                      without an answer
//	ApiExampleA   -                  -                             -
//	Application   -                  warnings                      go on
//	ECSInstance   -                  warnings                      go on
//	MyCronJob     -                  a schedule that never comes   go on
//	RedisCluster  size, /scale too   addr that is left out         refuse
//
// Deleting an object with the annotation glassback.dev/deletion-protection is refused, for all
// kinds. No other deletion, no label and no finalizer waits for a webhook: match conditions
// see to that.
//
// Invariants:
//
//   - A verdict has the HTTP status 200 and the request's UID. Whatever arrives, the process
//     goes on: a panic in a review is an answer, and counted.
//   - A patch changes what Default changes, and nothing else: fields that this version does
//     not know stay. Where Default changes nothing, there is no patch.
//   - All requests together take no more memory than limits gives them. A text takes no more
//     bytes than its JSON, and an answer quotes no more than the beginning of it.
//   - An update is refused for what it makes wrong, not for what was wrong before.
//   - Out of a cluster (Owned), the operator registers its webhooks itself, and removes them.
//     In a cluster (Injected), it writes the caBundle of the configurations that a user has applied.
//
// Where certificates come from is the business of package certificate.
package webhook
