/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import "k8s.io/utils/ptr"

// DefaultIntervalSeconds is the time between two slots when neither
// intervalSeconds nor schedule is set.
const DefaultIntervalSeconds = 5

// Default fills in what the schema defaults, for objects that did not come by it.
//
// It leaves intervalSeconds alone: if 5 were written into an object, a user who
// later applies a manifest with a schedule would be told that both are set. Use
// Interval instead.
func (m *MyCronJob) Default() {
	s := &m.Spec
	if s.Suspend == nil {
		s.Suspend = ptr.To(false)
	}
	if s.ConcurrencyPolicy == "" {
		s.ConcurrencyPolicy = AllowConcurrent
	}
	if s.MissedRunPolicy == "" {
		s.MissedRunPolicy = LatestMissed
	}
	if s.SuccessfulJobsHistoryLimit == nil {
		s.SuccessfulJobsHistoryLimit = ptr.To[int32](3)
	}
	if s.FailedJobsHistoryLimit == nil {
		s.FailedJobsHistoryLimit = ptr.To[int32](1)
	}
}

// Interval returns the seconds from one slot to the next. It means nothing when
// a schedule is set.
func (s *MyCronJobSpec) Interval() int32 {
	return ptr.Deref(s.IntervalSeconds, DefaultIntervalSeconds)
}
