// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recording writes what syncs observed and decided, and what the page shows, to files, and reads these files.
//
//	observe → decide → Decided ─┐ the JSON of both, without what may be secret
//	loop: sync, write, done ────┼▶ Record ─▶ queue ─▶ DIR/glassback-TIME.jsonl.gz
//	trace: wire … enqueue ──────┤           (bounded)  (bounded in size and number)
//	the page: overviews ────────┘
//
// A Recorder observes Loops. Decided finds the record of its sync in the context: without one, it does nothing.
//
// A file has one JSON object a line: a Header, and a Record for each sync, each stage before it, and each new overview. It consists of
// gzip members: one is appended about once a second, with a single write. So a copy of a file is complete, also while
// the operator runs or after it was killed.
//
// A sync never waits for the disk. While the queue is full, records are dropped and counted: in a line of the file, and in a metric.
// Stages take half of the queue at most.
//
// A record holds no credential: package fields says what is recorded. It holds all that decide reads, so that another program can call
// decide again.
package recording
