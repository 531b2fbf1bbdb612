// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mycronjob creates the Jobs of MyCronJobs.
//
//	owns    Job <name>-<unix second of the slot>; run now: Job <name>-r<hash of the value> for
//	        the first, <name>-run<number> for each later one
//	reads   MyCronJob, Job, from the caches; and live, where a cache is not enough (see confirm)
//	writes  Job create and delete, MyCronJob status, Event
//
// A slot is a second at which a Job is due. The watermark is status.accountedTime: each slot up to it ran, or is counted in
// status.missedTotal. The plan of a sync depends on the watermark:
//
//	decide
//	├─ the timetable has changed        ▶ end the count: due slots of the old timetable are missed, and a
//	│                                     new count begins now
//	├─ a Job is ahead of the watermark  ▶ record: move the watermark up to it, and count the slots without
//	│                                     a Job
//	└─ no Job is ahead                  ▶ run: create the Jobs of the due slots, and count the slots that
//	                                      are given up
//
// So a Job is created first and recorded afterwards. When many objects are due in the same second, the queue returns each
// of them once before it returns any of them again. So recording delays no Job.
//
// These promises hold after every failure and every crash:
//
//   - A slot has at most one Job. The name of a Job contains its slot, so two cannot exist at once. They cannot exist one
//     after the other either: a slot runs only while it is ahead of the watermark and of every Job, and a Job is deleted
//     only after the watermark has passed its slot. For the same reason a Job does not carry the template's
//     ttlSecondsAfterFinished: the controller itself deletes the Job after that time.
//
//   - Each slot ran or is counted. The watermark and the count change in one write, which fails if another client has
//     written since. A slot is counted as missed only after the controller has read the live Jobs.
//
//   - Two operators at the same time keep both promises, however stale the caches of one of them are: see keepFor.
//
//   - Each change of the run-now annotation that a sync sees creates one Job. Run-now Jobs are numbered, and
//     status.lastRunNowNumber is their watermark: a Job is recorded before the Job with the next number is created.
//
// If a slot's name belongs to a Job that the MyCronJob does not control, that Job stays, and the slot is missed.
package mycronjob
