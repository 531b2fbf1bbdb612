/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package mycronjob makes the Jobs of a MyCronJob.
//
//	owns    Job <name>-<unix second of the slot>; run now: Job <name>-r<hash of the value> for
//	        the first, <name>-run<number> for each later one
//	reads   MyCronJob, Job, from the caches; live, where no cache can tell (see confirm)
//	writes  Job create and delete, MyCronJob status, Event
//
// A slot is a second at which a Job is due. The watermark is
// status.accountedTime: every slot up to it has run, or is in
// status.missedTotal. What a sync does follows from where it stands:
//
//	Sync
//	├─ another timetable than before ──▶ close the books: what is due by the old one
//	│                                    is missed, and counting starts anew now
//	├─ a Job is ahead of the watermark ▶ record: move the watermark up to it, and
//	│                                    count the slots without a Job
//	└─ no Job is ahead ────────────────▶ run: make the Jobs of the slots that are due,
//	                                     and count those that are given up
//
// So Jobs are made first and recorded afterwards, and never the other way round.
// When many objects come due in the same second, the queue hands out all of
// them before any comes back to be recorded: recording delays no Job.
//
// What it keeps, whatever fails and whenever it stops:
//
//   - At most one Job a slot. The name of a Job is that of its slot, so there
//     cannot be two at once. There cannot be two after each other, because a slot
//     is run only while it is ahead of the watermark and of every Job, and a Job is
//     cleaned up only once the watermark has passed its slot. For the same reason a
//     Job does not carry the template's ttlSecondsAfterFinished: the controller
//     sees to that itself.
//
//   - Every slot has run or is counted. The watermark and the count change in one
//     write, which fails if anybody else wrote since; and slots are counted as
//     missed only after a look at the live Jobs.
//
//   - Two operators at the same time keep both, however far behind the caches of one
//     of them are: see keepFor.
//
//   - Each change of the run-now annotation that a sync sees makes one Job. These
//     Jobs have numbers, as slots have seconds: status.lastRunNowNumber is their
//     watermark, the next Job has the next number, and an unrecorded Job is recorded
//     before the next one is made.
//
// A Job of somebody else with a slot's name is left alone: that slot is missed.
package mycronjob
