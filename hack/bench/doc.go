// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench compares Glassback with an ordinary operator made with controller-runtime (peer), and with a client that only sends the
// same requests (bare): see docs/performance.md.
//
//	main       the scenarios, and their participants
//	cluster    etcd and an API server, and what they count
//	process    a participant: its start, its end, and its usage of CPU, memory and bytes
//	harness    starts a participant, waits until it is idle, writes Applications and measures a window of time
//	burst      scenarios of Applications: burst, change, restart, status
//	cron       lateness of Jobs
//	plan       glassback plan on objects that no operator has reconciled
//	admission  requests to webhooks
//	profile    CPU profiles of operators
//	result     medians and ratios
//
// All participants run in turns in one run, because a machine is never as fast as it was an hour before.
package main
