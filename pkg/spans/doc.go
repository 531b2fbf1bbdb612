// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spans sends OpenTelemetry traces of the operator to a collector, by OTLP over HTTP. Only this
// package imports the SDK of OpenTelemetry.
//
//	sync mycronjob ────────────────▶ events: the causes of the sync
//	├─ create jobs.batch             links:  the syncs whose writes are among these causes
//	├─ update mycronjobs.batch…/status
//	├─ redis CLUSTER MEET
//	└─ ecs DescribeInstances
//
// Each sync is a trace of its own. A Tracer observes Loops, the requests to the API server, and the calls of Redis and ECS. It finds the
// span of a sync in the context. Calls that no sync makes have no span: LIST and WATCH, the
// Lease, Events, and the polls of ECS, which are for many objects at once.
//
// A nil *Tracer is valid for Transport and Stop: the operator without a collector has none.
//
// Spans hold names, versions, field paths, status codes and the error of the sync. They hold no bodies,
// no headers, no URLs and no arguments of Redis commands.
//
// A collector that does not answer costs spans and one line of the log a minute. A sync never waits for it.
package spans
